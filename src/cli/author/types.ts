// `saga types pull`: the registered actions as TypeScript contracts for definitions, clients and tests. It writes a file, and checks nothing.
import { writeFile } from "node:fs/promises";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { JsonObject } from "../frame/input.js";

export interface Registration {
  readonly service: string;
  readonly action_name: string;
  readonly version: number;
  readonly description?: string;
  readonly category?: string;
  readonly compensable: boolean;
  readonly input_schema: JsonObject;
  readonly output_schema: JsonObject;
  readonly error_codes?: readonly string[];
  readonly default_retry?: JsonObject;
  readonly default_timeout_ms?: number;
  readonly deprecated: boolean;
  readonly dry_run_supported: boolean;
  readonly license_group?: string;
}

/** That are read of the registry. */
export const MOST_ACTIONS = 10_000;

export async function pull(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const name = context.text("service");
  const actions: Registration[] = [];
  for await (const action of service.items<Registration>("/registry/actions", { service: name }, MOST_ACTIONS))
    actions.push(action);
  if (actions.length === 0)
    throw new Failure(
      `no action is registered${name === undefined ? "" : ` of service ${name}`}: start a worker first`,
      EXIT.failed,
    );
  const out = context.text("out");
  if (context.json) {
    context.terminal.printJson(actions);
    return EXIT.succeeded;
  }
  const source = contractsOf(actions);
  if (out === undefined) context.terminal.print(source);
  else {
    await writeFile(out, source).catch((error: NodeJS.ErrnoException) => {
      throw new Failure(`${out} cannot be written (${error.code})`);
    });
    context.terminal.print(`${out}: ${actions.length} actions`);
  }
  return EXIT.succeeded;
}

/** The text of a module. In a stable order, so that a difference shows what has changed. */
export function contractsOf(actions: readonly Registration[]): string {
  const services = [...new Set(actions.map(({ service }) => service))].sort();
  const taken = new Set<string>(["defineAction"]);
  const parts = services.map((service) => {
    const own = actions
      .filter((action) => action.service === service)
      .sort((left, right) =>
        left.action_name < right.action_name
          ? -1
          : left.action_name > right.action_name
            ? 1
            : right.version - left.version,
      );
    return `export const ${unique(identifier(service), taken)} = {\n${membersOf(own).join("\n")}\n};\n`;
  });
  return [
    "// Written by `saga types pull`: the actions that are registered. Pull again rather than change it.",
    'import { defineAction } from "@saga-orchestrator/define";',
    "",
    parts.join("\n"),
  ].join("\n");
}

/** The newest version has the name of the action, older ones their number behind it. */
function membersOf(actions: readonly Registration[]): string[] {
  const taken = new Set<string>();
  const seen = new Set<string>();
  return actions.map((action) => {
    const name = seen.has(action.action_name) ? `${action.action_name}_v${action.version}` : action.action_name;
    seen.add(action.action_name);
    return `${commentOf(action)}  ${unique(identifier(name), taken)}: defineAction(${literal(optionsOf(action), 1)}),`;
  });
}

/** `*` and `/` of a description would end the comment. */
function commentOf({ description, deprecated }: Registration): string {
  const text = [
    deprecated ? "@deprecated" : "",
    (description ?? "").replace(/\s+/g, " ").replaceAll("*/", "* /").trim(),
  ]
    .filter((part) => part !== "")
    .join(" ");
  return text === "" ? "" : `  /** ${text} */\n`;
}

function optionsOf(action: Registration): JsonObject {
  const { default_retry: retry, default_timeout_ms: timeoutMs, error_codes: errorCodes } = action;
  return {
    service: action.service,
    name: action.action_name,
    ...(action.version !== 1 && { version: action.version }),
    ...(action.description !== undefined && { description: action.description }),
    ...(action.category !== undefined && { category: action.category }),
    ...(action.compensable && { compensable: true }),
    input: action.input_schema,
    output: action.output_schema,
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(retry !== undefined && Object.keys(retry).length > 0 && { retry: camelMembers(retry) }),
    ...(errorCodes !== undefined && errorCodes.length > 0 && { errorCodes }),
    ...(action.dry_run_supported && { dryRunSupported: true }),
    ...(action.deprecated && { deprecated: true }),
    ...(action.license_group !== undefined && { licenseGroup: action.license_group }),
  };
}

const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
const camelMembers = (value: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(value).map(([name, member]) => [camel(name), member]));

const PLAIN = /^[A-Za-z_$][\w$]*$/;
/** Words that cannot be the name of a constant. */
const RESERVED =
  /^(arguments|await|break|case|catch|class|const|continue|debugger|default|delete|do|else|enum|eval|export|extends|false|finally|for|function|if|implements|import|in|instanceof|interface|let|new|null|package|private|protected|public|return|static|super|switch|this|throw|true|try|typeof|var|void|while|with|yield)$/;

function identifier(name: string): string {
  const words = name.replace(/[^\w$]+([A-Za-z0-9]?)/g, (_, letter: string) => letter.toUpperCase());
  const plain = PLAIN.test(words) ? words : `_${words}`;
  return RESERVED.test(plain) ? `${plain}_` : plain;
}

/** `a-b` and `a:b` would be one name. */
function unique(name: string, taken: Set<string>): string {
  let free = name;
  for (let nth = 2; taken.has(free); nth++) free = `${name}_${nth}`;
  taken.add(free);
  return free;
}

/** JSON as a literal of TypeScript. `__proto__` is written as a computed member, because a plain one sets the prototype. */
function literal(value: unknown, depth: number): string {
  const indent = "  ".repeat(depth + 1);
  const end = "  ".repeat(depth);
  if (Array.isArray(value)) return `[${value.map((item) => literal(item, depth)).join(", ")}]`;
  if (typeof value !== "object" || value === null) return text(value);
  const members = Object.entries(value).map(([name, member]) => {
    const key = name === "__proto__" ? '["__proto__"]' : PLAIN.test(name) ? name : text(name);
    return `${indent}${key}: ${literal(member, depth + 1)},`;
  });
  return members.length === 0 ? "{}" : `{\n${members.join("\n")}\n${end}}`;
}

/** These two end a line in old readers of JavaScript, and never in JSON. */
const text = (value: unknown) => JSON.stringify(value).replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
