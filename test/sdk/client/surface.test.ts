// What the client is as a package: which operations it has, how large it is, what it loads, and that its types stand alone. Not what it does.
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";
import { beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../../src/config/package.js";
import { ROUTES } from "../../../src/sdk/client/generated/routes.js";
import * as client from "../../../src/sdk/client/index.js";
import { NOT_CALLED } from "../../docs/client-operations.js";
import { FlakyServer, json } from "./flaky-server.js";

const MAX_BYTES = 30_000;
const ENTRY = join(packageRoot(), "src/sdk/client/index.ts");

const OPTIONS = {
  entryPoints: [ENTRY],
  ...({ bundle: true, minify: true, write: false, metafile: true, platform: "neutral", target: "es2022" } as const),
};

describe("the client", () => {
  it("has every operation of the API, but those with a reason", () => {
    const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs/openapi.json"), "utf8")) as {
      readonly paths: Record<string, Record<string, { operationId: string }>>;
    };
    const all = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
    const missing = all.filter((id) => !Object.hasOwn(ROUTES, id));
    expect(missing.sort()).toEqual(Object.keys(NOT_CALLED).sort());
    expect(Object.keys(ROUTES).filter((id) => !all.includes(id))).toEqual([]);
  });

  it("exports classes, and nothing that is not meant for programs", () => {
    expect(Object.keys(client).sort()).toEqual([
      ...["Conflict", "Forbidden", "Invalid", "NotFound", "Overloaded", "Pages", "RateLimited", "Run"],
      ...["SagaApiError", "SagaCancelled", "SagaClient", "SagaError", "SagaFailed", "SagaNotEnded"],
      ...["Unauthorized", "UnexpectedAnswer", "Unreachable"],
    ]);
  });

  describe("as a bundle", () => {
    let text = "";
    let inputs: string[] = [];
    beforeAll(async () => {
      const made = await build({ ...OPTIONS, format: "esm" });
      text = made.outputFiles[0]?.text ?? "";
      inputs = Object.keys(made.metafile.inputs);
    });

    it(`is smaller than ${MAX_BYTES} bytes`, () => {
      console.log(`the client: ${Buffer.byteLength(text)} bytes, minified`);
      expect(text.length).toBeGreaterThan(10_000);
      expect(Buffer.byteLength(text)).toBeLessThan(MAX_BYTES);
    });

    it("has its own files and the contracts' alone, and imports nothing", () => {
      expect(inputs.filter((path) => !/src\/sdk\/(client|contract)\//.test(path))).toEqual([]);
      expect(text).not.toMatch(/\bimport\s*[("'{*]|\brequire\s*\(|\bprocess\.|\bBuffer\b|\b__dirname\b/);
    });

    it("works where there is neither Node nor a page", async () => {
      const made = await build({ ...OPTIONS, format: "iife", globalName: "client" });
      const server = await FlakyServer.open(json(202, { run_id: "r-1" }));
      try {
        // What browsers, Deno, Bun and edge runtimes all have.
        const names = [
          "fetch",
          "URL",
          "URLSearchParams",
          "AbortController",
          "setTimeout",
          "clearTimeout",
          "performance",
        ];
        const all = [...names, "crypto", "TextDecoder"].map((name) => [name, Reflect.get(globalThis, name)]);
        const context = createContext(Object.fromEntries(all));
        runInContext(made.outputFiles[0]?.text ?? "", context);
        const saga = `new client.SagaClient({ url: ${JSON.stringify(server.url)} })`;
        const run = await runInContext(`${saga}.start("order", { inputs: { sku: "tea" } })`, context);
        expect(run.id).toBe("r-1");
        expect(server.asked).toMatchObject([{ body: '{"workflow_id":"order","inputs":{"sku":"tea"}}' }]);
      } finally {
        await server.close();
      }
    });
  });

  it("has types that need neither Node's nor a package's", { tags: "long" }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-client-types-"));
    try {
      const sources = readdirSync(join(packageRoot(), "src/sdk/client"), { recursive: true, encoding: "utf8" });
      expect(sources.length).toBeGreaterThan(10);
      const compilerOptions = {
        ...{ target: "es2022", module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom", "dom.iterable"] },
        ...{ strict: true, skipLibCheck: false, noEmit: true, types: [], exactOptionalPropertyTypes: false },
      };
      writeFileSync(
        join(folder, "use.ts"),
        `import { SagaClient } from ${JSON.stringify(ENTRY.replace(/\.ts$/, ".js"))};
export const saga = new SagaClient({ url: "https://saga.example.com", fetch, webSocket: WebSocket });
export const run = saga.start("order", { inputs: { sku: "tea" } });
`,
      );
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
      const tsc = join(packageRoot(), "node_modules/typescript/bin/tsc");
      const { stdout } = await promisify(execFile)(process.execPath, [tsc, "-p", folder]).catch((error) => error);
      expect(stdout).toBe("");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
