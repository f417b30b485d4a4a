// The example workflows, and runs of them on the machine alone, whose worker answers what every step of every example understands.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { compileWorkflow, type JsonObject, type Program } from "../../../machines/index.js";
import { Simulation } from "../simulation.js";

const FOLDER = join(import.meta.dirname, "../../../examples");
export const EXAMPLES = readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".workflow.json"))
  .map((name) => join(FOLDER, name));

/** With its folder: two examples have an `order.workflow.json`. */
export const exampleName = (file: string): string => relative(FOLDER, file);

export const EXAMPLE_INPUTS = {
  ...{ order_id: "o", email: "e", sku: "s", scenario: "plain", asset: "a", business_key: "b", trip_id: "t" },
  ...{ quantity: 2, unit_price_cents: 40_000, amount: 3, count: 1, total: 42, address: "a", branch: "b", order: "o" },
  trigger: { scheduled_at: "2026-11-21T03:00:00.000Z" },
};

export function exampleProgram(file: string): Program {
  const { program } = compileWorkflow(JSON.parse(readFileSync(file, "utf8")));
  if (!program) throw new Error(`${file} is not valid`);
  return program;
}

/** A run to its end; `after` moves it is cancelled. */
export function play(compiled: Program, inputs: JsonObject, after = 1_000): Simulation {
  const actions = [...JSON.stringify(compiled.document).matchAll(/"action":"([^"]+)"/g)].map(([, name = ""]) => [
    name,
    {},
  ]);
  const result = {
    state: "done",
    reduced: true,
    file: "f",
    url: "u",
    reservation: "r",
    receipt: "r",
    label: "l",
    picked: 1,
  };
  const worker = () => ({ kind: "result", result }) as const;
  const run = new Simulation({ program: compiled, actions: Object.fromEntries(actions), inputs, worker });
  run.advance();
  for (let moves = 0; moves < 1_000 && !run.ended; moves++) {
    const { wait } = run.context;
    if (moves === after) run.cancel();
    else if (wait?.kind === "signal") run.signal(wait.name, { status: "delivered", tracking: "t", by: "ann" });
    else run.world.move();
  }
  return run;
}
