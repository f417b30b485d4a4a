// Short ways to run a few steps and to read their results. `attribute` is a test of the attributes that it names; coverage.test.ts reads
// those names.
import { expect, it } from "vitest";
import { type AuditEvent, compileWorkflow, type JsonObject } from "../../../machines/index.js";
import { violations } from "../chain.js";
import { program, type StepDocument } from "../definitions.js";
import { Simulation, type SimulationOptions } from "../simulation.js";

/** A step without an id gets the id `s`. Without a type it is not a step. */
export type Draft = Record<string, unknown> & { type: string };

export const PLAIN_ACTIONS = {
  "shop.charge": { compensable: true },
  "shop.refund": {},
  "shop.notify": {},
  "shop.strict": { outputSchema: { required: ["ok"] }, inputSchema: { required: ["n"] } },
  "shop.dry": { dryRunSupported: true },
} satisfies SimulationOptions["actions"];

type Options = Partial<Omit<SimulationOptions, "program">> & { readonly head?: Record<string, unknown> };

/** A run that has not been advanced. */
export function prepare(steps: readonly Draft[], { head, ...options }: Options = {}): Simulation {
  return new Simulation({ program: program(withIds(steps), head), actions: PLAIN_ACTIONS, ...options });
}

/** A run, advanced until it needs the outside. */
export function start(steps: readonly Draft[], options: Options = {}): Simulation {
  const simulation = prepare(steps, options);
  simulation.advance();
  return simulation;
}

/** A run, drained to its end. Fails if it breaks a law. */
export function finish(steps: readonly Draft[], options: Options = {}): Simulation {
  const simulation = start(steps, options);
  simulation.drain();
  expect(violations(simulation)).toEqual([]);
  return simulation;
}

function withIds(steps: readonly Draft[]): StepDocument[] {
  return steps.map((step, index) => ({ id: index === 0 ? "s" : `s${index + 1}`, ...step }));
}

/** Problems of the definition as `path: message`. */
export function problems(steps: readonly unknown[], head: Record<string, unknown> = {}): string[] {
  return compileWorkflow({ id: "test", name: "test", start: "s", steps, ...head }).problems.map(
    ({ path, message }) => `${path}: ${message}`,
  );
}

/** Problems of one step `s`, its path left out. */
export function problemsOf(step: Draft, ...others: readonly Draft[]): string[] {
  return problems(withIds([step, ...others])).map((problem) => problem.replace("$.steps[0]", ""));
}

export function rowsOf(simulation: Simulation, stepId: string): (AuditEvent & { seq: number })[] {
  return simulation.rows.filter((row) => row.stepId === stepId);
}

export function typesOf(simulation: Simulation, stepId?: string): string[] {
  const rows = stepId === undefined ? simulation.rows : rowsOf(simulation, stepId);
  return rows.map(({ type }) => type);
}

/** The metadata of the only row of the type. */
export function metadataOf(simulation: Simulation, type: AuditEvent["type"], stepId = "s"): JsonObject | undefined {
  const rows = rowsOf(simulation, stepId).filter((row) => row.type === type);
  expect(rows.length, `${type} rows of ${stepId}`).toBe(1);
  return rows[0]?.metadata;
}

/** The code and message that the run failed with. */
export function failureOf(simulation: Simulation): string {
  expect(simulation.state).toBe("failed");
  const { code, message } = simulation.context.ending?.error ?? {};
  return `${code}: ${message}`;
}

/** The steps of the published chart, each with its edges as `label -> target`. */
export function chartOf(steps: readonly Draft[], head?: Record<string, unknown>): Record<string, string[]> {
  const { states } = program(withIds(steps), head).chart.states.active;
  const edges = Object.entries(states).map(([key, { on = {} }]) => {
    const targets = Object.entries(on).map(([label, { target }]) => [label, target.replace("#test.", "")] as const);
    return [key, targets.map(([label, target]) => `${label} -> ${target}`)] as const;
  });
  return Object.fromEntries(edges);
}

/** A test about these attributes (`type.attribute`, comma between several). */
export function attribute(names: string, promise: string, body: () => void): void {
  it(`${names}: ${promise}`, body);
}
