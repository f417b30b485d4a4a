// The machine and the build that a result was measured with.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { cpus, release, totalmem, type } from "node:os";
import { dirname, join, resolve } from "node:path";
import { packageRoot } from "../../src/config/package.js";
import type { ResultFile } from "../result.js";

export function thisMachine(postgres: string | undefined): ResultFile["machine"] {
  return {
    ...{ cpu: cpus()[0]?.model.trim() ?? "unknown", cores: cpus().length, memory_bytes: totalmem() },
    ...{ os: `${type()} ${release()}`, node: process.version },
    ...(postgres !== undefined && { postgres }),
  };
}

/** The build that a file belongs to, or this one. The commit is absent outside a clone. */
export function buildOf(file: string | undefined): Pick<ResultFile["subject"], "version" | "commit"> {
  const root = file === undefined ? packageRoot() : rootAbove(dirname(resolve(file)));
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const commit = commitOf(root);
  return { version, ...(commit !== undefined && { commit }) };
}

/** Throws if there is no package.json above the folder. */
function rootAbove(folder: string): string {
  if (existsSync(join(folder, "package.json"))) return folder;
  if (dirname(folder) === folder) throw new Error("there is no package.json above the file of --service");
  return rootAbove(dirname(folder));
}

/** Undefined outside a clone. */
export const thisCommit = () => commitOf(packageRoot());

function commitOf(cwd: string): string | undefined {
  try {
    const args = ["rev-parse", "--short", "HEAD"];
    return execFileSync("git", args, {
      cwd,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return undefined;
  }
}
