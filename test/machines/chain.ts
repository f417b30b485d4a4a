// The laws of one run's audit rows and undo list, held against a simulation.
import { isTerminal } from "../../machines/index.js";
import type { Simulation } from "./simulation.js";

export function violations(simulation: Simulation): string[] {
  const { rows, context, undo } = simulation;
  const found: string[] = [];
  const say = (sentence: string) => found.push(sentence);
  let state = "pending";
  for (const row of rows) {
    if (row.from !== state) say(`row ${row.seq} is from ${row.from}, the run was ${state}`);
    state = row.to;
  }
  if (state !== context.state) say(`the rows end in ${state}, the run in ${context.state}`);
  const terminal = rows.filter(({ type }) => type.startsWith("run."));
  if (!isTerminal(context.state)) say(`the run has not ended: ${context.state}, ${JSON.stringify(context.wait)}`);
  if (terminal.length !== 1 || terminal[0] !== rows.at(-1)) say("there is not one terminal row, last");
  if (rows.filter(({ type }) => type === "compensation.started").length > 1) say("more than one compensation.started");
  found.push(...dispatchViolations(simulation));
  const undone = rows.filter(({ type, metadata }) => metadata?.phase === "compensation" && type === "step.started");
  if (context.state === "succeeded" && undone.length > 0) say("a run that succeeded undid something");
  const abandoned = rows.some(({ metadata }) => metadata?.kind === "cancel" && metadata.compensate === false);
  if (context.state !== "succeeded" && !abandoned) {
    const owed = undo.filter((entry) => entry.state === "owed");
    if (owed.length > 0) say(`the run ended and owes ${owed.length} undos`);
    const order = undo.filter((entry) => entry.action !== undefined).map((entry) => entry.stepId);
    const did = undone.map((row) => row.stepId);
    if (JSON.stringify(did) !== JSON.stringify(order.reverse())) say(`undone ${did}, owed ${order}`);
  }
  if (
    context.state === "failed" &&
    context.requiresManualReview === false &&
    undo.some((entry) => entry.state === "failed")
  )
    say("an undo failed for good and nobody is asked to review");
  return found;
}

/** Every attempt that was dispatched is resolved once, and attempts count up. */
function dispatchViolations({ rows }: Simulation): string[] {
  const found: string[] = [];
  const attempts = new Map<string, number>();
  let open: string | undefined;
  for (const { type, stepId = "", attempt } of rows) {
    const name = `${stepId}#${attempt}`;
    if (type === "step.dispatched") {
      if (open) found.push(`${name} was dispatched while ${open} was open`);
      if (attempt !== (attempts.get(stepId) ?? 0) + 1) found.push(`${name} does not count on`);
      attempts.set(stepId, attempt);
      open = name;
    } else if ((type === "step.succeeded" || type === "step.failed") && attempt > 0) {
      if (open !== name) found.push(`${name} was resolved while ${open} was open`);
      open = undefined;
    } else if (type.startsWith("run.") && open) found.push(`the run ended while ${open} was open`);
  }
  return found;
}
