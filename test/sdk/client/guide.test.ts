// docs/client.md is true as far as the compiler can say: each of its blocks compiles against the client, with what the page introduced before.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../../src/config/package.js";

/** What the first blocks of the page have made. */
const KNOWN = `import { type Run, SagaClient, type SagaContract } from "@saga-orchestrator/client";
declare const saga: SagaClient;
declare const order: SagaContract<{ sku: string; quantity: number }, { receipt: string }>;
`;

describe("docs/client.md", () => {
  it("has blocks that compile", async () => {
    const page = readFileSync(join(packageRoot(), "docs/client.md"), "utf8");
    const blocks = [...page.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, text = ""]) => text);
    expect(blocks.length).toBeGreaterThan(7);
    const folder = mkdtempSync(join(tmpdir(), "saga-client-guide-"));
    try {
      const files = blocks.map((text, index) => {
        const introduces = /new SagaClient\(/.test(text);
        const run =
          /\brun\b/.test(text) && !/const run =/.test(text) ? "declare const run: Run<{ receipt: string }>;\n" : "";
        const name = `block-${index}.ts`;
        writeFileSync(join(folder, name), introduces ? text : `${KNOWN}${run}${text}\nexport {};\n`);
        return name;
      });
      const compilerOptions = {
        ...{ target: "es2022", module: "esnext", moduleResolution: "bundler", lib: ["es2022", "dom", "dom.iterable"] },
        ...{ strict: true, noEmit: true, types: [], skipLibCheck: true },
        paths: { "@saga-orchestrator/client": [join(packageRoot(), "src/sdk/client/index.ts")] },
      };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
      const tsc = join(packageRoot(), "node_modules/typescript/bin/tsc");
      const run = await promisify(execFile)(process.execPath, [tsc, "-p", folder]).catch((error) => error);
      expect(run.stdout).toBe("");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
