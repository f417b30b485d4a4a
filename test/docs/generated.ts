// The generated parts of docs/: the OpenAPI document, the attribute tables of the step types, the table of error codes and the page of
// functions.
// `npm run docs` writes them and the tests compare them; the prose around the tables is written by hand.
import type { Attribute, Attributes } from "../../machines/attribute/kinds.js";
import { COMMON } from "../../machines/definition/step.js";
import { CATALOGUE } from "../../machines/expression/catalogue/index.js";
import { ENGINE_ERRORS } from "../../machines/index.js";
import { STEP_TYPES, type StepTypes } from "../../machines/steps/index.js";
import { buildApi } from "../../src/api/index.js";
import { createLogger } from "../../src/log.js";
import { createMetrics } from "../../src/metrics/index.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";

/** The routes describe themselves. No route is called, so their dependencies are empty. */
export async function openApiDocument(): Promise<unknown> {
  const absent = {} as never;
  const app = await buildApi({
    config: {
      auth: "off",
      limits: { bodyBytes: 2 * 1024 * 1024, outputBytes: 1024 * 1024 },
      keepAliveMs: 60_000,
      access: { host: "127.0.0.1", publicUrl: "http://127.0.0.1", allowedHosts: [], allowedOrigins: [] },
      inspector: {},
    },
    starter: absent,
    runs: absent,
    canceller: absent,
    shedder: absent,
    catalog: absent,
    schemas: absent,
    sql: absent,
    readPool: absent,
    upkeep: absent,
    feed: absent,
    workers: absent,
    announcer: absent,
    triggers: absent,
    reruns: absent,
    bulk: absent,
    migrations: absent,
    scheduler: new FairScheduler(),
    metrics: createMetrics(),
    log: createLogger({ logLevel: "silent" }),
    compile: absent,
    ready: () => true,
    now: () => 0,
  });
  const response = await app.inject("/openapi.json");
  await app.close();
  return response.json();
}

/** The documents with attribute tables: the common attributes, and those of each type. */
export const WITH_TABLES = ["docs/workflows.md", "docs/steps.md"];

/** `<!-- step: <type> -->` to `<!-- /step -->` encloses the table of that type; `*` is the table of common attributes. */
const SECTION = /(<!-- step: (\S+) -->\n)[\s\S]*?(<!-- \/step -->)/g;

/** `<!-- errors -->` to `<!-- /errors -->` encloses the table of the engine's error codes. */
const ERROR_SECTION = /(<!-- errors -->\n)[\s\S]*?(<!-- \/errors -->)/;

export function withTables(markdown: string, types: StepTypes = STEP_TYPES): string {
  const errors = Object.entries(ENGINE_ERRORS).map(([code, cause]) => `| \`${code}\` | ${cause} |\n`);
  const table = `| code | cause |\n| --- | --- |\n${errors.join("")}`;
  return markdown
    .replace(SECTION, (_, open: string, type: string, close: string) => `${open}\n${about(type, types)}\n${close}`)
    .replace(ERROR_SECTION, (_, open: string, close: string) => `${open}\n${table}\n${close}`);
}

/** The types with a section in the document. */
export function documentedTypes(markdown: string): string[] {
  return [...markdown.matchAll(SECTION)].map(([, , type]) => type ?? "");
}

function about(name: string, types: StepTypes): string {
  if (name === "*") return table(COMMON);
  const type = types.get(name);
  if (!type) throw new Error(`the section "${name}" names no step type`);
  const output = type.output === undefined ? "It has no output." : `Its output: ${type.output}.`;
  const retried = type.retries ? " It accepts `retry`." : "";
  const errors = type.errors === undefined ? "" : `\nIts errors: ${type.errors}.\n`;
  return `${type.summary} ${output}${retried}\n\n${table(type.attributes)}${errors}`;
}

/** The engine's own codes that step types name, which the table of errors must list. */
export const NAMED_ERRORS: readonly string[] = [
  ...new Set(
    [...STEP_TYPES.values()].flatMap(({ errors = "" }) => errors.match(/(?<=`)[a-z_]+(?:<[a-z]+>)?(?=`)/g) ?? []),
  ),
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

/** `<!-- functions -->` to `<!-- /functions -->` encloses the chapters of functions. */
const FUNCTIONS_SECTION = /(<!-- functions -->\n)[\s\S]*?(<!-- \/functions -->)/;

export function withFunctions(markdown: string): string {
  const chapters = CATALOGUE.map(({ title, about, functions }) => {
    const rows = functions.map(
      ({ call, does, example, result }) =>
        `| \`${escaped(call)}\` | ${escaped(does)} | \`${escaped(example)}\` | \`${escaped(JSON.stringify(result))}\` |\n`,
    );
    return `## ${title}\n\n${about}\n\n| function | | example | result |\n| --- | --- | --- | --- |\n${rows.join("")}`;
  });
  return markdown.replace(
    FUNCTIONS_SECTION,
    (_, open: string, close: string) => `${open}\n${chapters.join("\n")}\n${close}`,
  );
}

function escaped(text: string): string {
  return text.replaceAll("|", "\\|");
}
