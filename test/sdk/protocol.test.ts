// The generated types of the worker protocol are those of worker.proto.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const GENERATED = "src/sdk/protocol/generated";

/** The text of every file in the folder, by its path. */
function filesOf(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

/** Runs the script of package.json with another output folder. */
function generateInto(folder: string): void {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: { proto: string } };
  const PATH = [join(ROOT, "node_modules", ".bin"), process.env.PATH].join(delimiter);
  const [command = "", ...args] = scripts.proto.replace(GENERATED, folder).split(" ");
  execFileSync(command, args, { cwd: ROOT, env: { ...process.env, PATH } });
}

describe("the types of the worker protocol", () => {
  it("are what `npm run proto` generates from worker.proto", () => {
    const folder = mkdtempSync(join(tmpdir(), "saga-proto-"));
    try {
      generateInto(folder);
      expect(filesOf(join(ROOT, GENERATED)), "run `npm run proto`").toEqual(filesOf(folder));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
