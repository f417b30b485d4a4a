// What of docs/ comes from the code: the OpenAPI document and the attribute tables of the step types. Written by
// `npm run docs`, compared by the tests; the prose around the tables is by hand.
import type { Attribute, Attributes } from "../../machines/definition/attribute.js";
import { COMMON } from "../../machines/definition/step.js";
import { compileWorkflow } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { type ApiDeps, buildApi } from "../../src/api/index.js";
import { createLogger } from "../../src/log.js";
import { createMetrics } from "../../src/metrics.js";

/** The routes describe themselves; nothing behind them is asked, so nothing is there. */
export async function openApiDocument(): Promise<unknown> {
  const absent = {} as never;
  const app = await buildApi({
    config: { limits: { bodyBytes: 2 * 1024 * 1024, outputBytes: 1024 * 1024 } },
    runs: absent,
    admission: absent,
    catalog: absent,
    schemas: absent,
    sql: absent,
    feed: absent,
    announcer: absent,
    metrics: createMetrics(),
    log: createLogger({ logLevel: "silent" }),
    compile: { compileWorkflow, machineConfig: (program) => program.chart } satisfies ApiDeps["compile"],
    ready: () => true,
  });
  const response = await app.inject("/openapi.json");
  await app.close();
  return response.json();
}

/** The documents that have tables of attributes: what all steps have, and each type's own. */
export const WITH_TABLES = ["docs/workflows.md", "docs/steps.md"];

/** `<!-- step: <type> -->` to `<!-- /step -->` holds the table of that type, `*` the attributes that all have. */
const SECTION = /(<!-- step: (\S+) -->\n)[\s\S]*?(<!-- \/step -->)/g;

export function withStepTables(markdown: string): string {
  return markdown.replace(
    SECTION,
    (_, open: string, type: string, close: string) => `${open}\n${about(type)}\n${close}`,
  );
}

/** The types that the document has a section for. */
export function documentedTypes(markdown: string): string[] {
  return [...markdown.matchAll(SECTION)].map(([, , type]) => type ?? "");
}

function about(name: string): string {
  if (name === "*") return table(COMMON);
  const type = STEP_TYPES.get(name);
  if (!type) throw new Error(`there is a section for "${name}", which is no step type`);
  const output = type.output === undefined ? "It has no output." : `Its output: ${type.output}.`;
  const retried = type.retries ? " It takes `retry`." : "";
  const errors = ERRORS[name] === undefined ? "" : `\nIts errors: ${ERRORS[name]}.\n`;
  return `${type.summary} ${output}${retried}\n\n${table(type.attributes)}${errors}`;
}

/** The codes that a type may fail with, beside those that any step may. */
const ERRORS: Readonly<Record<string, string>> = {
  action:
    "those of the worker, `action_not_registered`, `license_rejected`, `schema_mismatch`, `timeout`, `heartbeat_timeout`, `queue_timeout`",
  assert: "`assertion_failed`, or its `code`",
  cancel: "`not_found`",
  collect_input: "`timeout`",
  decision: "`no_branch_matched`, `not_found`",
  emit_signal: "`not_found`",
  error: "its `code`, or `error`",
  foreach: "that of the item that went over the tolerance, `cancelled`, `limit_exceeded`",
  http_request: "`http_<status>`, `http_network`, `timeout`, `schema_mismatch`, `limit_exceeded`, `not_found`",
  join: "that of the branch that decided, `cancelled`",
  manual_approval: "`approval_rejected`, `timeout`",
  metric_emit: "`limit_exceeded`",
  parallel: "`limit_exceeded`",
  spawn_saga: "`not_found`, `schema_mismatch`",
  sub_saga: "`child_failed`, `cancelled`, `timeout`, `not_found`, `schema_mismatch`, `limit_exceeded`",
  switch: "`no_branch_matched`",
  try_catch: "those that come out of it and are not caught, `timeout`",
  wait_for_event: "`timeout`",
  wait_for_signal: "`timeout`",
  while: "those that come out of its body, `loop_limit_exceeded`",
};

/** The codes among them that the engine gives, for the table of all errors. */
export const NAMED_ERRORS: readonly string[] = [
  ...new Set(Object.values(ERRORS).flatMap((text) => text.match(/(?<=`)[a-z_]+(?:<[a-z]+>)?(?=`)/g) ?? [])),
].filter((code) => code !== "code");

function table(attributes: Attributes): string {
  const rows = Object.entries(attributes).map(([name, attribute]) => row(name, attribute));
  if (rows.length === 0) return "No attributes.\n";
  return `| attribute | value | default | |\n| --- | --- | --- | --- |\n${rows.join("\n")}\n`;
}

function row(name: string, { kind, doc, required, fallback }: Attribute<unknown>): string {
  const standard = required ? "required" : fallback === undefined ? "" : `\`${JSON.stringify(fallback)}\``;
  return `| \`${name}\` | ${escaped(kind.name)} | ${standard} | ${escaped(doc)} |`;
}

function escaped(text: string): string {
  return text.replaceAll("|", "\\|");
}
