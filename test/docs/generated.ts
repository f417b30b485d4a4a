// What of docs/ comes from the code: the OpenAPI document and the attribute tables of docs/workflows.md. Written by
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
    config: { limits: { bodyBytes: 2 * 1024 * 1024 } },
    runs: absent,
    catalog: absent,
    sql: absent,
    feed: absent,
    metrics: createMetrics(),
    log: createLogger({ logLevel: "silent" }),
    compile: { compileWorkflow, machineConfig: (program) => program.chart } satisfies ApiDeps["compile"],
    ready: () => true,
  });
  const response = await app.inject("/openapi.json");
  await app.close();
  return response.json();
}

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
  if (!type) throw new Error(`docs/workflows.md has a section for "${name}", which is no step type`);
  const output = type.output === undefined ? "It has no output." : `Its output: ${type.output}.`;
  const retried = type.retries ? " It takes `retry`." : "";
  return `${type.summary} ${output}${retried}\n\n${table(type.attributes)}`;
}

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
