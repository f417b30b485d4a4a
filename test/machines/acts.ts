// What a person does to runs: every act, and how people end what stands still.
import type { OperatorAct } from "../../machines/index.js";
import type { Simulation, World } from "./simulation.js";

const by = { actor: "user:ops" } as const;

export const ACTS: { readonly [T in OperatorAct["type"]]: Extract<OperatorAct, { type: T }> } = {
  pause: { type: "pause", ...by },
  resume: { type: "resume", ...by },
  retry_step: { type: "retry_step", ...by },
  skip_step: { type: "skip_step", output: { skipped: true }, ...by },
  fail: { type: "fail", ...by },
  retry_undo: { type: "retry_undo", ...by },
  skip_undo: { type: "skip_undo", ...by },
  terminate: { type: "terminate", reason: "asked to", ...by },
  migrate: { type: "migrate", version: 2, ...by },
};

/** The act that ends the run's incident, if it stands at one: what was tried twice is given up. */
export function decisionOn({ context: { wait, entry } }: Simulation, nth: number): OperatorAct | undefined {
  if (wait?.kind !== "incident") return undefined;
  if (wait.phase === "compensation") return nth % 3 === 0 ? ACTS.retry_undo : ACTS.skip_undo;
  if ((entry?.retried ?? 0) < 2 && nth % 3 === 0) return ACTS.retry_step;
  return nth % 3 === 1 ? ACTS.skip_step : ACTS.fail;
}

/** Resumes every run, and decides incidents until none is left. */
export function help(world: World): void {
  for (let round = 0; round < 500; round++) {
    const acts = [...world.runs.values()].flatMap((run, nth) => {
      const act = run.context.held ? ACTS.resume : decisionOn(run, round + nth);
      return act ? [() => run.command(act)] : [];
    });
    if (acts.length === 0) return;
    for (const act of acts) act();
    world.drain(200);
  }
}
