// Runs at the stands where a person helps, one for each act: how a run comes there, the act, and the end that the run has then. The worker
// of these runs fails what is to break, once for each key.
import { expect } from "vitest";
import type { DispatchId, OperatorAct, RunCommand, RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import { uuidv7 } from "../../src/ids.js";
import type { Runs, StartRequest } from "../../src/run/ports.js";
import type { TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import type { Reply } from "./hand-dispatcher.js";
import { type Half, publish, registerActions, type Step, signal, start } from "./rig.js";
import { look, type Seen } from "./seen.js";

const by = { actor: "user:ops" } as const;

/** The first attempt of each of these calls fails for good. A dispatch that is sent twice gets the same answer twice. */
export function breaksOnce(): Reply {
  const broken = new Map<string, DispatchId>();
  return ({ dispatchId, call: { idempotencyKey: key, inputs } }) => {
    if (inputs.breaks === true && !broken.has(key)) broken.set(key, dispatchId);
    return broken.get(key) === dispatchId ? { code: "broken", retryable: false } : { result: { receipt: key } };
  };
}

const charge = (id: string, { undo = {}, ...more }: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "action", action: "shop.charge", inputs: {}, ...more },
  compensation: { action: "shop.refund", inputs: undo },
});
/** A retry may correct what a step reads. */
const breaks = { breaks: true, n: "${has(vars.n) ? vars.n : 0}" };

export async function publishHelped(database: TestDatabase): Promise<void> {
  await registerActions(database, "charge", "refund");
  const head = { on_failure: "incident", on_undo_failure: "incident" };
  await publish(database, "helped-wait", [
    charge("pay", { next: "wait" }),
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
  await publish(database, "helped-step", [charge("pay", { next: "ship" }), charge("ship", { inputs: breaks })], head);
  const moves = (id: string) => [charge("pay", { next: id }), { id, type: "wait_for_signal", signal_name: "go" }];
  await publish(database, "helped-move", moves("hold"), { version: 1 });
  await publish(database, "helped-move", moves("wait"), { version: 2 });
  await publish(
    database,
    "helped-undo",
    [
      charge("pay", { next: "ship" }),
      charge("ship", { undo: breaks, next: "no" }),
      { id: "no", type: "error", code: "no", on_failure: "rollback" },
    ],
    head,
  );
}

export interface Stand {
  readonly act: OperatorAct | Extract<RunCommand, { type: "release" }>;
  readonly workflow: string;
  /** The run as the API shows it before the act: the state, and why it is paused or at an incident. */
  readonly at: string;
  /** To get there from where the workflow first waits. */
  readonly before?: RunCommand;
  readonly answer: string;
  /** What lets the run end after the act. */
  readonly then?: readonly ("resume" | "go")[];
  readonly end: string;
  /** Actions and undo list at the end. */
  readonly sent: readonly string[];
  readonly undo: readonly string[];
}

const pause: OperatorAct = { type: "pause", reason: "look at it", ...by };
const proof = { end: "ended", trials: 3, heap_mb: 1, ms: 1 } as const;
const quarantine: RunCommand = { type: "quarantine", proof };
const rolledBack = { sent: ["charge", "charge", "refund"], end: "failed" };

export const STANDS: readonly Stand[] = [
  {
    ...{ act: pause, workflow: "helped-wait", at: "paused signal", answer: "paused", then: ["resume", "go"] },
    ...{ end: "succeeded", sent: ["charge"], undo: ["pay owed"] },
  },
  {
    ...{ act: { type: "resume", ...by }, workflow: "helped-wait", at: "paused operator", before: pause },
    ...{ answer: "paused", then: ["go"], end: "succeeded", sent: ["charge"], undo: ["pay owed"] },
  },
  {
    ...{ act: { type: "release", ...by }, workflow: "helped-wait", at: "paused quarantine", before: quarantine },
    ...{ answer: "paused", then: ["go"], end: "succeeded", sent: ["charge"], undo: ["pay owed"] },
  },
  {
    ...{ act: { type: "retry_step", variables: { n: 1 }, ...by }, workflow: "helped-step", at: "paused incident" },
    ...{ answer: "running", end: "succeeded", sent: ["charge", "charge", "charge"], undo: ["pay owed", "ship owed"] },
  },
  {
    ...{ act: { type: "skip_step", output: { by: "hand" }, ...by }, workflow: "helped-step", at: "paused incident" },
    ...{ answer: "succeeded", end: "succeeded", sent: ["charge", "charge"], undo: ["pay owed", "ship owed"] },
  },
  {
    ...{ act: { type: "fail", ...by }, workflow: "helped-step", at: "paused incident", answer: "compensating" },
    ...{ ...rolledBack, undo: ["pay done"] },
  },
  {
    ...{ act: { type: "retry_undo", ...by }, workflow: "helped-undo", at: "compensating incident" },
    ...{ answer: "compensating", ...rolledBack, sent: ["charge", "charge", "refund", "refund", "refund"] },
    undo: ["pay done", "ship done"],
  },
  {
    ...{ act: { type: "skip_undo", ...by }, workflow: "helped-undo", at: "compensating incident" },
    ...{ answer: "compensating", ...rolledBack, sent: ["charge", "charge", "refund", "refund"] },
    undo: ["pay done", "ship failed"],
  },
  {
    ...{ act: { type: "terminate", reason: "stuck", ...by }, workflow: "helped-undo", at: "compensating incident" },
    ...{ answer: "failed", end: "failed", sent: ["charge", "charge", "refund"], undo: ["pay owed", "ship owed"] },
  },
  {
    ...{ act: { type: "terminate", reason: "stuck", ...by }, workflow: "helped-wait", at: "paused signal" },
    ...{ answer: "cancelled", end: "cancelled", sent: ["charge"], undo: ["pay owed"] },
  },
  {
    act: { type: "migrate", version: 1, steps: { wait: "hold" }, ...by },
    ...{ workflow: "helped-move", at: "paused signal", answer: "paused", then: ["go"] },
    ...{ end: "succeeded", sent: ["charge"], undo: ["pay owed"] },
  },
];

/** Starts a run that comes to the stand. */
export async function comeTo(
  stand: Stand,
  database: TestDatabase,
  { starter, runtime }: Half,
  more: Partial<StartRequest> = {},
): Promise<RunId> {
  const runId = await start(starter, stand.workflow, more);
  const first = stand.workflow === "helped-wait" ? "paused signal" : stand.at;
  await untilAt(database, runId, first);
  if (stand.before) await runtime.command(runId, stand.before, { id: uuidv7(), reach: EVERYTHING });
  await untilAt(database, runId, stand.at);
  return runId;
}

async function untilAt(database: TestDatabase, runId: RunId, at: string): Promise<void> {
  await until(async () => standOf(await look(database.sql, runId)) === at, { what: `the run at ${at}` });
}

const standOf = ({ run: { state, paused_reason: reason, incident } }: Seen & { run: { incident?: object } }) =>
  `${state} ${reason ?? (incident ? "incident" : "")}`.trim();

/** What lets the run end after the act. */
export async function goOn({ then = [] }: Stand, runs: Runs, runId: RunId): Promise<void> {
  for (const what of then) {
    const id = uuidv7();
    const command: RunCommand = what === "resume" ? { type: "resume", ...by } : signal(id, "go");
    await runs.command(runId, command, { id, reach: EVERYTHING });
  }
}

/** The run has ended as it should, and the act is in its log once. */
export async function expectHelped({ act, end, undo }: Stand, { sql }: TestDatabase, { run, events }: Seen) {
  const rows = await sql<{ step: string; state: string }[]>`
    select step_id as step, state from undo where owner_run_id = ${run.id} order by undo.ordinal`;
  expect([run.state, ...rows.map(({ step, state }) => `${step} ${state}`)]).toEqual([end, ...undo]);
  const logged = events.filter(({ event_type: type, metadata }) => type === "log" && metadata?.kind === act.type);
  expect(logged.map(({ metadata }) => metadata?.by)).toEqual([act.actor]);
}
