// Runs the compiler of types on a source that a test has written. It is not the check of the repository: that is `npm run build`.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

const ROOT = resolve(import.meta.dirname, "../../..");
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

/** What the compiler prints about files that lie in a folder of the repository, so that imports are found. */
export async function compile(
  files: Readonly<Record<string, string>>,
  options: readonly string[] = [],
): Promise<string> {
  mkdirSync(join(ROOT, "dist"), { recursive: true });
  const folder = mkdtempSync(join(ROOT, "dist", "types-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const compilerOptions = {
    ...{ composite: false, incremental: false, declaration: false, emitDeclarationOnly: false, noEmit: true },
    ...{ rootDir: ROOT, noUnusedLocals: false, noUnusedParameters: false },
    tsBuildInfoFile: null,
  };
  const config = {
    extends: join(ROOT, "tsconfig.json"),
    compilerOptions,
    include: ["*.ts"],
    exclude: [],
    references: [],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const run = promisify(execFile)(process.execPath, [TSC, "-p", folder, "--pretty", "false", ...options]);
  return run.then(({ stdout }) => stdout).catch((error: { stdout: string }) => error.stdout);
}
