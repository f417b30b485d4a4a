// The commands of the bench as processes, as `npm run bench` and `npm run bench:report` start them.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { type ResultFile, readResult } from "../../bench/result.js";
import { packageRoot } from "../../src/config/package.js";
import { atFileEnd } from "../harness/file-end.js";

export interface Ended {
  readonly code: number;
  readonly pid: number;
  readonly output: string;
}

let folder: string | undefined;

/** A path in a folder that lives as long as the test file. */
export function inFolder(name: string): string {
  folder ??= createFolder();
  return join(folder, name);
}

function createFolder(): string {
  const created = mkdtempSync(join(tmpdir(), "saga-bench-"));
  atFileEnd(async () => {
    folder = undefined;
    rmSync(created, { recursive: true, force: true });
  });
  return created;
}

/** `command`: "main" or "report". */
export function run(command: string, ...args: string[]): Promise<Ended> {
  const file = join(packageRoot(), "dist", "bench", `${command}.js`);
  const { PATH = "", HOME = "" } = process.env;
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [file, ...args], { env: { PATH, HOME } }, (error, stdout, stderr) =>
      resolve({ pid: child.pid ?? 0, code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

/** Measures on the Postgres server of the tests. Throws with the output if something was not measured. */
export async function measured(name: string, ...args: string[]): Promise<ResultFile & { readonly pid: number }> {
  const file = inFolder(name);
  const own = args.includes("--target") ? [] : ["--database", inject("databaseUrl")];
  const { pid, code, output } = await run("main", ...own, "--repetitions", "1", "--json", file, ...args);
  if (code !== 0) throw new Error(`the bench ended with ${code}: ${output}`);
  return { ...readResult(file), pid };
}
