// What a definition costs the compiler: linear in its steps. The numbers are those of `tsc --extendedDiagnostics`.
// @module-tag long
import { describe, expect, it } from "vitest";
import { compile } from "./compiler.js";

const HEAD = `import { defineAction, saga } from "@saga-orchestrator/define";
import { Type } from "typebox";
const reserve = defineAction({
  ...{ service: "shop", name: "reserve", compensable: true },
  input: Type.Object({ sku: Type.String(), quantity: Type.Integer() }),
  output: Type.Object({ reservation: Type.String(), left: Type.Integer() }),
});
const release = defineAction({ service: "shop", name: "release", input: Type.Object({ of: Type.String() }), output: Type.Object({}) });
export const long = saga("long", { name: "Long", input: Type.Object({ sku: Type.String(), quantity: Type.Integer() }) })
`;

/** Each step reads the output of the one before, and has an undo with inputs. */
function sagaOf(steps: number): string {
  const step = (_: unknown, index: number) => `  .action("s${index}", reserve, {
    inputs: ({ inputs, steps }) => ({ sku: inputs.sku, quantity: ${index === 0 ? "1" : `steps.s${index - 1}.left`} }),
    undo: [release, ({ output }) => ({ of: output.reservation })],
  })\n`;
  const chain = Array.from({ length: steps }, step).join("").replace("{ inputs, steps }", "{ inputs }");
  return `${HEAD}${chain}  .end(({ steps }) => ({ last: steps.s${steps - 1}.left }));\n`;
}

async function instantiations(steps: number): Promise<number> {
  const told = await compile({ "long.ts": sagaOf(steps) }, ["--extendedDiagnostics"]);
  expect(told).not.toContain("error TS");
  return Number(/^Instantiations:\s+(\d+)/m.exec(told)?.[1]);
}

describe("the type of a definition", () => {
  it("costs the compiler at most 2.2 times as much for 100 steps as for 50", async () => {
    const [none, fifty, hundred] = [await instantiations(1), await instantiations(50), await instantiations(100)];
    console.log(
      `type instantiations: 1 step ${none}, 50 steps ${fifty}, 100 steps ${hundred}: ${(hundred / fifty).toFixed(2)} times as many, ` +
        `without what one step costs ${((hundred - none) / (fifty - none)).toFixed(2)} times`,
    );
    expect(hundred / fifty).toBeLessThanOrEqual(2.2);
    expect((hundred - none) / (fifty - none)).toBeLessThanOrEqual(2.2);
  });
});
