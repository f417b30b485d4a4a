// `saga check`: what a careful reader would say of the documents in files, with paths and codes. It publishes nothing, and asks a service only for its
// registered actions.
import {
  checkWorkflow,
  compileRule,
  type Finding,
  knownOf,
  type ListedAction,
  Schemas,
} from "../../../machines/index.js";
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { safe } from "../frame/text.js";
import { type Loaded, load } from "./load.js";
import { MOST_ACTIONS, type Registration } from "./types.js";

type Found = Pick<Finding, "path" | "step" | "severity" | "message"> & {
  /** The file, and behind `#` the export of a module. */
  readonly from: string;
  readonly code: string;
};

/** Its exit code is 1 if there is an error, or a warning with `--strict`. */
export async function check(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const { documents: loaded } = await load(context.arguments(0), context);
  const actions = context.flag("registry") ? await registeredActions(context) : undefined;
  const found = findings(loaded, actions);
  if (context.json) terminal.printJson(found);
  else for (const each of found) terminal.print(lineOf(each));
  const errors = found.filter(({ severity }) => severity === "error").length;
  terminal.note(`${loaded.length} documents: ${errors} errors, ${found.length - errors} warnings`);
  return errors > 0 || (context.flag("strict") && found.length > 0) ? EXIT.failed : EXIT.succeeded;
}

async function registeredActions(context: Context): Promise<readonly ListedAction[]> {
  const service = await context.service();
  const actions: ListedAction[] = [];
  // Schemas are JSON: they came over the API.
  for await (const { action_name, ...action } of service.items<Registration>("/registry/actions", {}, MOST_ACTIONS))
    actions.push({ ...action, action: action_name } as ListedAction);
  return actions;
}

/** The documents know each other. A workflow that is in none of the files may be published, so that is not said of it. */
function findings(loaded: readonly Loaded[], actions: readonly ListedAction[] | undefined): readonly Found[] {
  const schemas = new Schemas();
  const workflows = loaded.filter(({ kind }) => kind === "workflow").map(({ document }) => document);
  const known = {
    ...knownOf({ workflows, ...(actions && { actions }) }),
    schemaProblems: (schema: Parameters<Schemas["problems"]>[0]) => schemas.problems(schema),
  };
  return loaded.flatMap(({ kind, document, from }): readonly Found[] => {
    const found = kind === "workflow" ? checkWorkflow(document, known) : ofRule(document);
    return found.filter(({ code }) => code !== "workflow_unknown").map((each) => ({ from, ...each }));
  });
}

function ofRule(document: Loaded["document"]): readonly Omit<Found, "from">[] {
  const { problems, warnings } = compileRule(document);
  return [
    ...problems.map(({ path, message }) => ({ path, message, code: "invalid", severity: "error" as const })),
    ...warnings.map(({ path, message, code = "" }) => ({ path, message, code, severity: "warning" as const })),
  ];
}

function lineOf({ from, path, step, severity, code, message }: Found): string {
  const place = step === undefined ? path : `${path} (${step})`;
  return safe(`${from}: ${severity}: ${place} ${message} [${code}]`);
}
