// docs/ agrees with the code: generated parts are up to date, and names that occur in both are compared both ways. Whether a
// reference leads anywhere is checked in references.test.ts.
import { hkdfSync } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { compileExpression } from "../../machines/expression/index.js";
import { AUDIT_TYPES, compileWorkflow, ENGINE_ERRORS, type JsonObject } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";
import { COMMANDS } from "../../src/cli/commands.js";
import { EXIT } from "../../src/cli/exit.js";
import { loadConfig } from "../../src/config/index.js";
import { readSigning } from "../../src/egress/signing.js";
import { createMetrics } from "../../src/metrics/index.js";
import { type RehearseOptions, rehearse } from "../../src/sdk/define/testing/index.js";
import { clientModules } from "./client-operations.js";
import {
  documentedTypes,
  NAMED_ERRORS,
  NEEDS,
  needsModule,
  openApiDocument,
  WITH_TABLES,
  withCommands,
  withFunctions,
  withTables,
} from "./generated.js";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const STALE = "run `npm run docs`";
/** The first cells of table rows, where they are a single name in backticks. */
const tableNames = (markdown: string, name: RegExp) =>
  [...markdown.matchAll(/^\| `([^`]+)`/gm)].map(([, cell]) => cell ?? "").filter((cell) => name.test(cell));

describe("docs/openapi.json", () => {
  let generated: { paths: Record<string, object> };
  beforeAll(async () => {
    generated = (await openApiDocument()) as typeof generated;
  });

  it("matches the routes", () => {
    expect(JSON.parse(read("docs/openapi.json")), STALE).toEqual(generated);
  });

  it("says of each operation what the console believes that it needs", () => {
    expect(read(NEEDS), STALE).toEqual(needsModule(generated));
    for (const [path, text] of Object.entries(clientModules(generated))) expect(read(path), STALE).toEqual(text);
  });

  it("has exactly the routes of docs/api.md", () => {
    const routes = Object.entries(generated.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const documented = [...read("docs/api.md").matchAll(/`((?:GET|POST|PATCH|DELETE|PUT) \/[^`?]*)`/g)];
    const described = new Set(documented.map(([, route]) => route ?? ""));
    // Served, but not part of the document.
    for (const route of ["GET /openapi.json", "GET /docs", "GET /console", "GET /"]) described.delete(route);
    expect([...described].sort()).toEqual(routes.sort());
  });
});

/** The formatter pads cells. */
const unpadded = (markdown: string) => markdown.replace(/ +/g, " ").replace(/-{3,}/g, "---");

describe("docs/functions.md", () => {
  it("has every function and macro of expressions", () => {
    const text = read("docs/functions.md");
    expect(unpadded(text), STALE).toBe(unpadded(withFunctions(text)));
  });
});

describe("docs/cli.md", () => {
  it("has every command with its options", () => {
    const text = read("docs/cli.md");
    expect(unpadded(text), STALE).toBe(unpadded(withCommands(text)));
  });

  it("has the exit codes of the command", () => {
    const documented = [...read("docs/cli.md").matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
    expect(documented).toEqual(Object.values(EXIT));
  });
});

describe("docs/money.md", () => {
  const examples = [...read("docs/money.md").matchAll(/^\| `(.+?)` \| `(.+?)` \|/gm)];

  it.each(examples.map(([, source = "", result = ""]) => [source, result]))(
    "is right that %s is %s",
    (source, result) => {
      expect(compileExpression(source).evaluate({ inputs: PRICES, vars: PRICES })).toEqual(JSON.parse(result));
    },
  );

  it("has examples", () => {
    expect(examples.length).toBeGreaterThan(10);
  });
});

/** What the examples of docs/money.md read. */
const PRICES = { flight: 254.95, hotel: 399.9, price: 19.99, quantity: 3, cents: 1999, total: "654.85" };

describe("the step types", () => {
  const texts = WITH_TABLES.map((path) => [path, read(path)] as const);

  it("have a section each, and one for the common attributes", () => {
    const documented = texts.flatMap(([, text]) => documentedTypes(text));
    expect(documented.sort()).toEqual(["*", ...STEP_TYPES.keys()].sort());
  });

  it.each(texts)("have their attributes in the tables of %s", (_path, text) => {
    expect(unpadded(text), STALE).toBe(unpadded(withTables(text)));
  });

  it("fail with errors of the catalogue only, and its table is documented", () => {
    expect(NAMED_ERRORS.filter((code) => !Object.hasOwn(ENGINE_ERRORS, code))).toEqual([]);
    expect(read("docs/workflows.md")).toContain("\n## Errors\n\n<!-- errors -->\n");
  });
});

describe("the examples of docs/steps.md", () => {
  const examples = examplesOf(read("docs/steps.md"));

  it("exist for every type", () => {
    expect(examples.map(({ type }) => type).sort()).toEqual([...STEP_TYPES.keys()].sort());
  });

  it.each(examples)("of $type ends as documented", ({ type, steps, given, state, ends, undone }) => {
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

/** The workflow that the examples run as a sub-saga. */
const PAYMENT = { id: "payment", name: "Payment", start: "a", steps: [{ id: "a", type: "noop" }] };

interface Example {
  readonly type: string;
  readonly steps: readonly JsonObject[];
  readonly given: string | undefined;
  readonly state: string;
  readonly ends: string | undefined;
  /** The step that is undone. */
  readonly undone: string | undefined;
}

/** Every list of steps, with the sentence below it. */
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
  it("describes every type of audit event", () => {
    expect(AUDIT_TYPES.filter((type) => !read("docs/api.md").includes(`\`${type}\``))).toEqual([]);
  });
});

describe("docs/operations.md", () => {
  const text = read("docs/operations.md");

  it("has exactly the settings of the configuration", () => {
    expect(tableNames(text, /^[A-Z][A-Z_]+$/).sort()).toEqual(settings());
  });

  it.each(defaultsIn(text))("is right that %s is %s where it is not set", (name, value) => {
    const [base, another] = name === "SAGA_AUTH" ? [{}, "api_key"] : [EVERYTHING_ON, anotherThan(value)];
    const config = (more: object) => JSON.stringify(loadConfig({ ...base, ...more }).config);
    expect(config({ [name]: value })).toBe(config({}));
    expect(config({ [name]: another })).not.toBe(config({}));
  });

  it("has exactly the service's own metrics", async () => {
    const metrics = await createMetrics().registry.getMetricsAsJSON();
    const ours = metrics.map(({ name }) => name).filter((name) => name.startsWith("saga_"));
    expect(tableNames(text, /^saga_/).sort()).toEqual(ours.sort());
  });

  it("is right about signing: its example is read, and a secret is derived as it says", () => {
    const [, section = ""] = text.split("\n## Signing\n");
    const [, example = ""] = /```json\n([\s\S]*?)```/.exec(section) ?? [];
    const signing = readSigning(example);
    for (const [receiver, entry] of Object.entries(JSON.parse(example)))
      expect(signing.of(receiver)).toEqual([entry].flat());
    const [, info = ""] = /with the info `([^`]+)` and the\nservice's name, 32 bytes long/.exec(section) ?? [];
    const secret = "any secret of at least thirty-two characters";
    const bytes = Buffer.from(hkdfSync("sha256", secret, "", `${info}payments`, 32));
    expect(readSigning(secret).of("payments")).toEqual([`whsec_${bytes.toString("base64")}`]);
  });

  it("is right that beyond loopback the service starts only with SAGA_AUTH or SAGA_INSECURE", () => {
    expect(() => loadConfig({ HOST: "0.0.0.0" })).toThrow(/SAGA_AUTH.*SAGA_INSECURE/);
    expect(loadConfig({ HOST: "0.0.0.0", SAGA_AUTH: "api_key" }).config.host).toBe("0.0.0.0");
    expect(loadConfig({ HOST: "0.0.0.0", SAGA_INSECURE: "1" }).config.host).toBe("0.0.0.0");
  });
});

/** What is said of defaults in words. */
const IN_WORDS = ["SAGA_OIDC_ISSUER", "SAGA_WORKERS", "SAGA_PUBLIC_URL", "SAGA_WORKER_ALLOW"];

/** The settings that have a default. */
function defaultsIn(markdown: string): (readonly [name: string, value: string])[] {
  const rows = [...markdown.matchAll(/^\| `([A-Z][A-Z_]+)` \| `?([^|`]+?)`? \|/gm)];
  return rows.flatMap(([, name = "", value = ""]) => (IN_WORDS.includes(name) ? [] : [[name, value] as const]));
}

/** Settings without which others count for nothing. */
const EVERYTHING_ON = {
  SAGA_AUTH: "jwt,api_key",
  SAGA_AUTH_JWT_ISSUER: "https://issuer.example",
  SAGA_AUTH_JWT_AUDIENCE: "saga",
  SAGA_AUTH_JWKS_URL: "https://issuer.example/keys",
  SAGA_STARTUP_VARIABLES_URL: "https://variables.example",
  OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example",
};

const OTHERS: Readonly<Record<string, string>> = {
  ...{
    off: "on",
    on: "off",
    closed: "open",
    info: "warn",
    false: "true",
    parentbased_always_on: "always_on",
    "127.0.0.1": "localhost",
    "64": "63",
  },
};

const anotherThan = (value: string) =>
  OTHERS[value] ?? (/^\d+$/.test(value) ? String(Number(value) + 1) : `other.${value}`);

/** The names that the configuration reads from its environment: each in two forms, the second with `_FILE`. */
function settings(): string[] {
  const asked = new Set<string>();
  const get = (env: Readonly<Record<string, string>>, name: string | symbol) => {
    asked.add(String(name));
    return env[String(name)];
  };
  for (const env of [{}, EVERYTHING_ON]) loadConfig(new Proxy(env, { get }));
  return [...asked].filter((name) => asked.has(`${name}_FILE`)).sort();
}

describe("src/cli/README.md", () => {
  it("has exactly the commands", () => {
    const documented = tableNames(read("src/cli/README.md"), /^saga /);
    expect(documented).toEqual(COMMANDS.map(({ name, parameters }) => `saga ${name} ${parameters}`.trim()));
  });
});

describe("Dockerfile", () => {
  const lines = read("Dockerfile").split("\n");
  const copied = lines.flatMap((line) => (/^COPY (?!--from)/.test(line) ? line.split(/\s+/).slice(1, -1) : []));
  const ignored = read(".dockerignore").split("\n").filter(Boolean);

  it("copies only files that exist and are not ignored", () => {
    expect(copied.length).toBeGreaterThan(0);
    const missing = copied.filter((path) => !existsSync(join(ROOT, path)));
    const left = copied.filter((path) => ignored.some((entry) => path === entry || path.startsWith(`${entry}/`)));
    expect({ missing, left }).toEqual({ missing: [], left: [] });
  });

  it("has everything that the service reads at run time in its last stage", () => {
    const last = lines.slice(lines.findLastIndex((line) => line.startsWith("FROM "))).join("\n");
    const needed = ["package.json", "node_modules", "dist", "src/store/migrations", "src/dispatch/worker.proto"];
    expect(needed.filter((path) => !last.includes(path))).toEqual([]);
    expect(last).toMatch(/^USER node$/m);
    expect(last).toMatch(/HOST=0\.0\.0\.0/);
    // The operator says so, not the image.
    expect(last).not.toMatch(/^ENV .*SAGA_(?:INSECURE|AUTH)/m);
  });

  it("has the command saga on its path", () => {
    const { bin } = JSON.parse(read("package.json")) as { bin: { saga: string } };
    expect(read("Dockerfile")).toContain(`chmod +x ${bin.saga} && ln -s /app/${bin.saga} /usr/local/bin/saga\n`);
  });
});
