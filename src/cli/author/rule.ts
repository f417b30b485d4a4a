// `saga rule eval`: evaluates a published rule, or one of a file, which needs no service. It changes nothing.
import { compileRule, ExpressionError, evaluateRule, type JsonObject as Inputs } from "../../../machines/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, objectGiven } from "../frame/input.js";
import { inline, safe } from "../frame/text.js";
import { isModule, load } from "./load.js";

interface Evaluated {
  readonly output: unknown;
  readonly audit: {
    readonly rule_id: string;
    readonly version: number;
    readonly matched_row: number | null;
    readonly used_default: boolean;
  };
}

export async function evaluate(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const what = context.argument(0);
  const inputs = await objectGiven("--inputs", context.text("inputs") ?? "{}", terminal);
  const result = isModule(what) || what.endsWith(".json") ? await ofFile(what, inputs, context) : await published();
  if (context.json) terminal.printJson(result);
  else {
    terminal.print(inline(result.output));
    const { matched_row, used_default, version } = result.audit;
    terminal.note(
      used_default
        ? `no row matched, this is the default (version ${version})`
        : `row ${matched_row} (version ${version})`,
    );
  }
  return EXIT.succeeded;

  async function published(): Promise<Evaluated> {
    const service = await context.service();
    const version = context.integer("version", { min: 1, max: 2_147_483_647 });
    const path = `/rules/${encodeURIComponent(what)}/evaluate`;
    return service.post<Evaluated>(path, { inputs, ...(version !== undefined && { version }) });
  }
}

/** A rule of a file, by the service's own evaluation. */
async function ofFile(path: string, inputs: JsonObject, context: Context): Promise<Evaluated> {
  const { documents } = await load([path], context);
  const [found, ...others] = documents.filter(({ kind }) => kind === "rule");
  if (!found || others.length > 0)
    throw new Failure(`${path} has ${others.length + (found ? 1 : 0)} rules: name a file with one`);
  const { rule, problems } = compileRule(found.document);
  if (!rule) {
    const lines = problems.map(({ path: at, message }) => `  ${safe(`${at} ${message}`)}`);
    throw new Failure(`${path} is not valid:\n${lines.join("\n")}`, EXIT.failed);
  }
  try {
    const { output, audit } = evaluateRule(rule, inputs as Inputs);
    if (output === undefined)
      throw new Failure("no_decision_row_matched: no row matches, and there is no default", EXIT.failed);
    return { output, audit };
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    throw new Failure(`the rule cannot be evaluated: ${error.message}`, EXIT.failed);
  }
}
