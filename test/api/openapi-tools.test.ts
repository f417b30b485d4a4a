// The OpenAPI document in the hands of others: a public linter, and two public generators of clients. What the generators write compiles, and
// one of the clients calls a node.
// @module-tag long
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";

const run = promisify(execFile);
const modules = join(packageRoot(), "node_modules");
const document = join(packageRoot(), "docs", "openapi.json");

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "saga-openapi-"));
  symlinkSync(modules, join(dir, "node_modules"));
});
afterAll(() => rmSync(dir, { recursive: true }));

/** A program of an installed package, on the Node that runs the tests. */
async function tool(program: string, ...options: string[]): Promise<string> {
  const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
  const { stdout } = await run(process.execPath, [join(modules, program), ...options], {
    cwd: dir,
    env,
    maxBuffer: 1e8,
  });
  return stdout;
}

interface Finding {
  readonly ruleId: string;
  readonly message: string;
  readonly location: readonly { readonly pointer?: string }[];
}

/** Why a rule does not hold. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // Two answer 101, as OpenAPI has no WebSockets, and one leads to the issuer of logins.
  "operation-2xx-response": ["~1api~1v1~1sagas~1{id}~1stream", "~1api~1v1~1sagas~1{id}~1inspect", "~1auth~1login"].map(
    (path) => `#/paths/${path}/get/responses`,
  ),
};

describe("the OpenAPI document", () => {
  it("keeps the recommended rules of a public linter", async () => {
    writeFileSync(join(dir, "redocly.yaml"), "extends: [recommended]\n");
    const options = ["--config", join(dir, "redocly.yaml"), "--format", "json"];
    const report = JSON.parse(await tool("@redocly/cli/bin/cli.js", "lint", document, ...options));
    const found = (report.problems as readonly Finding[]).flatMap(({ ruleId, message, location: [place] }) =>
      EXCEPTIONS[ruleId]?.includes(place?.pointer ?? "") ? [] : [`${ruleId} ${place?.pointer}: ${message}`],
    );
    expect(found).toEqual([]);
    expect(report.problems.length, "the linter has looked").toBe(Object.values(EXCEPTIONS).flat().length);
  });
});

const GENERATORS: readonly [name: string, generate: (out: string) => Promise<string>][] = [
  ["oazapfts", (out) => tool("oazapfts/dist/cli.js", document, join(out, "index.ts"))],
  [
    "openapi-typescript-codegen",
    (out) => tool("openapi-typescript-codegen/bin/index.js", "--input", document, "--output", out, "--client", "fetch"),
  ],
];

async function generated(name: string): Promise<string> {
  const out = join(dir, name);
  mkdirSync(out, { recursive: true });
  await GENERATORS.find(([each]) => each === name)?.[1](out);
  return out;
}

describe("a client that is generated from it", () => {
  it.each(GENERATORS.map(([name]) => name))("by %s compiles, and has a method for every operation", async (name) => {
    const out = await generated(name);
    const compilerOptions = {
      ...{ strict: true, noEmit: true, target: "es2023", lib: ["es2023", "dom"], types: [], skipLibCheck: true },
      ...{ module: "esnext", moduleResolution: "bundler" },
    };
    writeFileSync(join(out, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["**/*.ts"] }));
    await tool("typescript/bin/tsc", "-p", out);
    const { paths } = JSON.parse(readFileSync(document, "utf8")) as { paths: Record<string, Record<string, object>> };
    const names = Object.values(paths).flatMap((operations) =>
      Object.values(operations).map((operation) => (operation as { operationId: string }).operationId),
    );
    const bundle = join(out, "client.mjs");
    await build({
      entryPoints: [join(out, "index.ts")],
      bundle: true,
      format: "esm",
      platform: "node",
      outfile: bundle,
    });
    const text = readFileSync(bundle, "utf8");
    expect(names.filter((each) => !new RegExp(`\\b${each}\\(`).test(text))).toEqual([]);
  });
});

describe("a generated client", () => {
  let database: TestDatabase;
  let node: NodeHandle;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0" });
    node = await startNode({ config, databaseUrl: database.url, log: silentLog });
  });
  afterAll(async () => {
    await node?.stop();
    await database?.drop();
  });

  it("publishes a workflow, starts a run and reads it from a node", async () => {
    const out = await generated("oazapfts");
    const outfile = join(out, "called.mjs");
    await build({ entryPoints: [join(out, "index.ts")], bundle: true, format: "esm", platform: "node", outfile });
    const client = await import(pathToFileURL(outfile).href);
    client.defaults.baseUrl = `http://127.0.0.1:${node.httpPort}`;
    const steps = [{ id: "s", type: "end", output: "${inputs.n}" }];
    const made = await client.createWorkflow({ id: "hello", name: "Hello", start: "s", steps, published: true });
    expect(made.status).toBe(201);
    const started = await client.startSaga({ workflow_id: "hello", inputs: { n: 7 } }, { waitMs: 30_000 });
    expect(started).toMatchObject({ status: 200, data: { run: { state: "succeeded", output: 7 } } });
    const read = await client.getSaga(started.data.run_id);
    expect(read).toMatchObject({ status: 200, data: { id: started.data.run_id, workflow_id: "hello" } });
    const refused = await client.startSaga({ workflow_id: "nothing" });
    expect(refused).toMatchObject({ status: 404, data: { error: "not_found" } });
  });
});
