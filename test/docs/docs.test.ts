// docs/ says what the code does: what can be generated is, and names that stand in both are compared both ways.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { AUDIT_TYPES, compileWorkflow, type JsonObject } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { createMetrics } from "../../src/metrics.js";
import { type RehearseOptions, rehearse } from "../../src/sdk/testing/index.js";
import { silentLog } from "../harness/database.js";
import { documentedTypes, NAMED_ERRORS, openApiDocument, WITH_TABLES, withStepTables } from "./generated.js";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const STALE = "run `npm run docs`";
/** First cells of table rows that are one name in backticks. */
const tableNames = (markdown: string, name: RegExp) =>
  [...markdown.matchAll(/^\| `([^`]+)`/gm)].map(([, cell]) => cell ?? "").filter((cell) => name.test(cell));

describe("docs/openapi.json", () => {
  let generated: { paths: Record<string, object> };
  beforeAll(async () => {
    generated = (await openApiDocument()) as typeof generated;
  });

  it("is what the routes say of themselves", () => {
    expect(JSON.parse(read("docs/openapi.json")), STALE).toEqual(generated);
  });

  it("has the routes of docs/api.md, no more and no fewer", () => {
    const routes = Object.entries(generated.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const documented = [...read("docs/api.md").matchAll(/`((?:GET|POST|PATCH|DELETE|PUT) \/[^`?]*)`/g)];
    const told = new Set(documented.map(([, route]) => route ?? ""));
    // Served beside the document, and not in it.
    for (const route of ["GET /openapi.json", "GET /docs"]) told.delete(route);
    expect([...told].sort()).toEqual(routes.sort());
  });
});

describe("the step types", () => {
  const texts = WITH_TABLES.map((path) => [path, read(path)] as const);

  it("have a section each, and so has what all have", () => {
    const documented = texts.flatMap(([, text]) => documentedTypes(text));
    expect(documented.sort()).toEqual(["*", ...STEP_TYPES.keys()].sort());
  });

  it.each(texts)("have the attributes of the code in the tables of %s", (_path, text) => {
    // The formatter pads cells.
    const unpadded = (markdown: string) => markdown.replace(/ +/g, " ").replace(/-{3,}/g, "---");
    expect(unpadded(text), STALE).toBe(unpadded(withStepTables(text)));
  });

  it("fail with errors that are told of", () => {
    const errors = read("docs/workflows.md").split("\n## Errors\n")[1]?.split("\n## ")[0] ?? "";
    expect(NAMED_ERRORS.filter((code) => !errors.includes(`| \`${code}\` |`))).toEqual([]);
  });
});

describe("the examples of docs/steps.md", () => {
  const examples = examplesOf(read("docs/steps.md"));

  it("are there for every type", () => {
    expect(examples.map(({ type }) => type).sort()).toEqual([...STEP_TYPES.keys()].sort());
  });

  it.each(examples)("of $type ends as it says", ({ type, steps, given, state, ends, undone }) => {
    const document = { id: "example", name: type, start: steps[0]?.id, steps };
    const { inputs, mocks } = given === undefined ? {} : (JSON.parse(given) as RehearseOptions);
    expect(steps.map((step) => step.type)).toContain(type);
    expect(compileWorkflow(document)).toMatchObject({ problems: [], warnings: [] });
    const ended = rehearse(document, { inputs, mocks, workflows: [PAYMENT] });
    const end = ended.state === "failed" ? ended.error?.code : JSON.stringify(ended.output);
    const says = ends === undefined || state === "failed" ? ends : JSON.stringify(JSON.parse(ends));
    expect([ended.state, end, ended.left]).toEqual([state, says, undefined]);
    const undos = ended.events.filter(
      ({ event_type: row, metadata }) => row === "step.succeeded" && metadata?.phase === "compensation",
    );
    expect(undos.map(({ step_id: step }) => step)).toEqual(undone === undefined ? [] : [undone]);
  });
});

/** What the examples' sub-sagas are. */
const PAYMENT = { id: "payment", name: "Payment", start: "a", steps: [{ id: "a", type: "noop" }] };

interface Example {
  readonly type: string;
  readonly steps: readonly JsonObject[];
  readonly given: string | undefined;
  readonly state: string;
  readonly ends: string | undefined;
  /** The step that is. */
  readonly undone: string | undefined;
}

/** The lists of steps, each with the sentence below it. */
function examplesOf(markdown: string): Example[] {
  const sections = markdown.split(/^## /m).slice(1);
  return sections.flatMap((section) => {
    const type = section.slice(0, section.indexOf("\n"));
    const lists =
      /^```json\n(\[[\s\S]*?)^```\n\n(?:With `(\{.*?\})` it|It) ends `(\w+)`(?: with `(.*?)`)?(?:, and `(\w+)` is undone)?\.$/gm;
    return [...section.matchAll(lists)].map(([, steps = "", given, state = "", ends, undone]) => ({
      ...{ type, steps: JSON.parse(steps) as JsonObject[], given, state, ends, undone },
    }));
  });
}

describe("docs/api.md", () => {
  it("tells of every type of audit event", () => {
    expect(AUDIT_TYPES.filter((type) => !read("docs/api.md").includes(`\`${type}\``))).toEqual([]);
  });
});

describe("docs/operations.md", () => {
  const text = read("docs/operations.md");

  it("has every setting, and none that there is not", () => {
    expect(tableNames(text, /^[A-Z][A-Z_]+$/).sort()).toEqual(settings());
  });

  it("has every metric of ours, and none that there is not", async () => {
    const metrics = await createMetrics().registry.getMetricsAsJSON();
    const ours = metrics.map(({ name }) => name).filter((name) => name.startsWith("saga_"));
    expect(tableNames(text, /^saga_/).sort()).toEqual(ours.sort());
  });

  it("says that nothing but SAGA_AUTH=off starts, which is so", async () => {
    const env = { SAGA_AUTH: "jwt", SAGA_AUTH_JWT_SECRET: "a secret of at least thirty-two characters" };
    const { config } = loadConfig(env);
    const start = startNode({ config, databaseUrl: "postgres://127.0.0.1:1/none", log: silentLog });
    await expect(start).rejects.toThrow(/SAGA_AUTH must be off/);
  });
});

/** The names that the configuration asks its environment for: each in two forms, the second with `_FILE`. */
function settings(): string[] {
  const asked = new Set<string>();
  const env = new Proxy({}, { get: (_, name) => void asked.add(String(name)) });
  loadConfig(env);
  return [...asked].filter((name) => asked.has(`${name}_FILE`)).sort();
}

describe("links", () => {
  const files = markdownFiles(".");

  it("lead somewhere, from every Markdown file", () => {
    expect(files).toContain("README.md");
    expect(files.flatMap(brokenLinks)).toEqual([]);
  });

  it("would be found broken", () => {
    const text = "[a](nowhere.md) [b](docs/api.md#nothing) [c](docs/api.md#errors) [d](https://x.y) `[e](no.md)`";
    expect(broken("README.md", text)).toEqual(["README.md -> nowhere.md", "README.md -> docs/api.md#nothing"]);
  });
});

function markdownFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return /^(node_modules|dist|\..*)$/.test(entry.name) ? [] : markdownFiles(path);
    return entry.name.endsWith(".md") ? [path] : [];
  });
}

const brokenLinks = (file: string) => broken(file, read(file));

function broken(file: string, text: string): string[] {
  return [...withoutCode(text).matchAll(/\]\(\s*([^)\s]+)\s*\)/g)]
    .map(([, target]) => target ?? "")
    .filter((target) => !/^https?:/.test(target) && !leadsSomewhere(file, target))
    .map((target) => `${file} -> ${target}`);
}

function leadsSomewhere(file: string, target: string): boolean {
  const [path = "", anchor] = target.split("#");
  const found = path === "" ? file : relative(ROOT, resolve(ROOT, dirname(file), path));
  try {
    if (anchor === undefined) return readdirSync(join(ROOT, dirname(found))).includes(found.split("/").at(-1) ?? "");
    return anchors(read(found)).includes(anchor);
  } catch {
    return false;
  }
}

/** As GitHub makes them of headings. */
function anchors(text: string): string[] {
  const headings = [...withoutFences(text).matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading ?? "");
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

const withoutFences = (text: string) => text.replace(/^```[\s\S]*?^```/gm, "");
/** Code spans go, unless they are the text of a link. */
const withoutCode = (text: string) => withoutFences(text).replace(/(?<!\[)`[^`\n]*`(?!\])/g, "");

describe("Dockerfile", () => {
  const lines = read("Dockerfile").split("\n");
  const copied = lines.flatMap((line) => (/^COPY (?!--from)/.test(line) ? line.split(/\s+/).slice(1, -1) : []));
  const ignored = read(".dockerignore").split("\n").filter(Boolean);

  it("copies what is there and not left out", () => {
    expect(copied.length).toBeGreaterThan(0);
    const missing = copied.filter((path) => !leadsSomewhere("Dockerfile", path));
    const left = copied.filter((path) => ignored.some((entry) => path === entry || path.startsWith(`${entry}/`)));
    expect({ missing, left }).toEqual({ missing: [], left: [] });
  });

  it("has in its second stage what the service reads at run time", () => {
    const second = lines.slice(lines.lastIndexOf("FROM node:20-slim")).join("\n");
    const needed = ["package.json", "node_modules", "dist", "src/store/migrations", "src/dispatch/worker.proto"];
    expect(needed.filter((path) => !second.includes(path))).toEqual([]);
    expect(second).toMatch(/^USER node$/m);
    expect(second).toMatch(/HOST=0\.0\.0\.0/);
  });
});
