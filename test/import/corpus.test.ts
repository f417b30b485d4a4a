// Public documents of other systems, imported and rehearsed. They are not part of this repository: SAGA_IMPORT_CORPUS names a folder that has them.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkWorkflow, importWorkflow } from "../../machines/index.js";
import { execute } from "./interpreter.js";
import { comparedEnd, comparedRun, rehearse } from "./rehearsed.js";

const FOLDER = process.env.SAGA_IMPORT_CORPUS ?? "";
const files =
  FOLDER === ""
    ? []
    : readdirSync(FOLDER, { recursive: true, encoding: "utf8" }).filter(
        (name) => /\.json5?$/.test(name) && !/invalid/.test(name),
      );
const machines = files.flatMap((file) => {
  try {
    const d = JSON.parse(readFileSync(join(FOLDER, file), "utf8"));
    return d.StartAt && d.States ? [[file, d] as const] : [];
  } catch {
    return [];
  }
});
describe.skipIf(FOLDER === "")("public state machines", () => {
  it("x", () => {
    let [same, different, loop] = [0, 0, 0];
    const lines: string[] = [];
    for (const [file, d] of machines) {
      const x = importWorkflow(d, { name: "x" });
      if (!x?.faithful) continue;
      for (const script of [{}, "fail"] as const) {
        const s =
          script === "fail"
            ? Object.fromEntries(
                [...JSON.stringify(d).matchAll(/"([^"]+)":\{[^{}]*"Type":"Task"/g)].map((m) => [
                  m[1] ?? "",
                  [{ error: "Boom" }],
                ]),
              )
            : {};
        try {
          const want = comparedEnd(execute(d, { a: 1 }, s));
          const got = comparedRun(rehearse(x, { a: 1 }, s));
          if (JSON.stringify(want) === JSON.stringify(got)) same++;
          else {
            different++;
            lines.push(`${file} ${script} ${JSON.stringify(want).slice(0, 200)} ${JSON.stringify(got).slice(0, 200)}`);
          }
        } catch (e) {
          loop++;
          lines.push(`${file} ${(e as Error).message.slice(0, 200)}`);
        }
      }
    }
    console.log({ same, different, loop }, lines.slice(0, 40).join("\n"));
    expect(different).toBe(0);
  }, 200000);
});
