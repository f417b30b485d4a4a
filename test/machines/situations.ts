// Every situation of a run in which a command can arrive, reached on one workflow by ordinary moves; and every command as it would arrive
// there. answers.ts has the expected answers.
import { asDispatchId, type DispatchId, type JsonObject, type RunCommand } from "../../machines/index.js";
import { ACTS, help } from "./acts.js";
import { program, type StepDocument } from "./definitions.js";
import { RUN_ID, Simulation, START } from "./simulation.js";

const STEPS: StepDocument[] = [
  { id: "first", type: "noop", next: "charge" },
  {
    id: "charge",
    type: "action",
    action: "shop.charge",
    compensation: { action: "shop.refund" },
    retry: { max_attempts: 3, initial_backoff_ms: 1000, jitter: false },
    timeout_ms: 20_000,
    heartbeat_timeout_ms: 5_000,
    next: "pack",
  },
  {
    id: "pack",
    type: "action",
    action: "shop.pack",
    retry: { max_attempts: 1, initial_backoff_ms: 0 },
    timeout_ms: 20_000,
    next: "nap",
  },
  { id: "nap", type: "wait_duration", duration_ms: 60_000, next: "hold" },
  { id: "hold", type: "wait_for_signal", signal_name: "go", timeout_ms: 120_000, on_timeout: "continue" },
  { id: "ask", type: "manual_approval", assignee: "ann", due_in_ms: 120_000, on_timeout: "continue" },
  { id: "hear", type: "wait_for_event", topic: "shipped", match: "event.payload.n > 0", timeout_ms: 120_000 },
];

const HEAD = { entrypoints: { ask: "ask", hear: "hear" } };
const WORKFLOW = program(STEPS, HEAD);
/** The same, where a person decides what follows an error. */
const INCIDENTS = { on_failure: "incident", on_undo_failure: "incident" };
const HELPED = program(STEPS, { ...HEAD, ...INCIDENTS });

/** The next version: whatever is neither called nor undone has another id there. */
const RENAMED = { nap: "rest", hold: "stand", ask: "request", hear: "listen" };
const renamed = (id: string) => (Object.hasOwn(RENAMED, id) ? RENAMED[id as keyof typeof RENAMED] : id);
const NEXT = STEPS.map(({ next, ...step }) => ({
  ...{ ...step, id: renamed(step.id) },
  ...(next !== undefined && { next: renamed(String(next)) }),
})) as StepDocument[];
const next = (head: object) =>
  program(NEXT, {
    ...{ ...head, version: 2, entrypoints: { ask: "request", hear: "listen" } },
    migrations: { 1: RENAMED },
  });
const NEXT_PLAIN = next({});
const NEXT_HELPED = next(INCIDENTS);
/** A version that no run may move to: its one step is of no run's. */
const FOREIGN = program([{ id: "stranger", type: "noop" }], { version: 3 });

/** The same, where the run and its first action each need a slot of a key. */
const LIMITED = program(
  STEPS.map((step) => (step.id === "charge" ? { ...step, concurrency: { key: "all", limit: 2 } } : step)),
  { ...HEAD, concurrency: { key: "${inputs.x}", limit: 1 } },
);

/** The same, where the run and its first action each wait for their turn of a key. */
const RATED = program(
  STEPS.map((step) =>
    step.id === "charge" ? { ...step, rate_limit: { key: "all", limit: 1, per_ms: 60_000, burst: 1 } } : step,
  ),
  { ...HEAD, rate_limit: { key: "${inputs.x}", limit: 1, per_ms: 60_000 } },
);

const ACTIONS = {
  "shop.charge": { compensable: true },
  "shop.refund": { defaultRetry: { max_attempts: 2, initial_backoff_ms: 500, jitter: false } },
  "shop.pack": {},
};

/** A run whose worker can be removed and returned. */
export class Situated extends Simulation {
  private readonly worker: { credit: boolean };

  constructor(identity: { delayedUntil?: number; entrypoint?: string; inputs?: JsonObject } = {}, workflow = WORKFLOW) {
    const worker = { credit: true };
    const versions = { 2: workflow === HELPED ? NEXT_HELPED : NEXT_PLAIN, 3: FOREIGN };
    super({ program: workflow, versions, actions: ACTIONS, identity, budget: 1, credit: () => worker.credit });
    this.worker = worker;
  }

  set credit(credit: boolean) {
    this.worker.credit = credit;
  }

  /** The run state, with the wait of the token. */
  get shape(): string {
    const { state, wait, quarantined, held } = this.context;
    return `${state}${wait ? ` ${wait.kind}` : ""}${quarantined ? " quarantined" : ""}${held ? " held" : ""}`;
  }

  get dispatchId(): DispatchId {
    const { wait } = this.context;
    return wait && "dispatchId" in wait ? wait.dispatchId : asDispatchId("none");
  }

  /** The step entry whose turn it waits for, or 0 for the run. */
  get turnEntry(): number {
    const { wait } = this.context;
    return wait?.kind === "rate_limit" ? wait.entry : 0;
  }

  /** The step entry whose slot it waits for, or 0 for the run. */
  get slotEntry(): number {
    const { wait } = this.context;
    return wait?.kind === "concurrency" ? wait.entry : 0;
  }

  get taskId(): string {
    return this.tasks.at(-1)?.id ?? "none";
  }

  get attempt(): number {
    const { wait } = this.context;
    return wait && "attempt" in wait ? wait.attempt : 1;
  }

  /** Everything that a command without an effect must leave unchanged. */
  get everything(): unknown {
    const { context, rows, undo, signals, tasks, queued, dispatches, cancelled } = this;
    return JSON.parse(
      JSON.stringify({
        context,
        rows,
        undo,
        signals,
        tasks,
        cancelled,
        open: [...queued.keys(), ...dispatches.keys()],
      }),
    );
  }

  /** Lets the outside answer until the run has ended. */
  finish(): void {
    this.credit = true;
    this.command({ type: "release", actor: "api" });
    help(this.world);
    this.grantAll();
    if (this.context.wait?.kind === "queued")
      this.command({ type: "offer", dispatchId: this.dispatchId, workerId: "w" });
    this.advance();
    this.drain();
    help(this.world);
  }

  /** No other run wants a slot. */
  private grantAll(): void {
    this.advance();
    while (this.context.wait?.kind === "concurrency" || this.context.wait?.kind === "rate_limit") {
      const { wait } = this.context;
      if (wait.kind === "rate_limit") {
        // A turn that was given comes with the time alone.
        if (wait.dueAt === undefined) this.command({ type: "turn_given", entry: this.turnEntry, at: this.now });
        else this.now = Math.max(this.now, wait.dueAt);
        this.advance();
        continue;
      }
      this.command({ type: "slot_granted", entry: this.slotEntry });
      this.advance();
    }
  }
}

type Build = () => Situated;

const from = (build: Build, ...moves: ((run: Situated) => void)[]): Build => {
  return () => {
    const run = build();
    for (const move of moves) move(run);
    return run;
  };
};

const workless = (run: Situated) => {
  run.credit = false;
};
const advance = (run: Situated) => void run.advance();
const work = (run: Situated) => void run.work();
const busy = (run: Situated) => void run.failure("busy", { dispatchId: run.dispatchId });
const declined = (run: Situated) => void run.failure("declined", { retryable: false, dispatchId: run.dispatchId });
const quarantine = (run: Situated) => void run.command({ type: "quarantine" });
const pause = (run: Situated) => void run.command(ACTS.pause);

const pending: Build = () => new Situated();
const delayed: Build = () => new Situated({ delayedUntil: START + 3_600_000 });
const ready = from(pending, (run) => void run.once({ type: "advance" }));
const queued = from(pending, workless, advance);
const dispatched = from(pending, advance);
const backoff = from(dispatched, busy);
const packing = from(dispatched, work);
const timer = from(packing, work);
const signal = from(timer, (run) => void run.elapse());
const task = from(
  () => new Situated({ entrypoint: "ask" }),
  (run) => void run.advance(),
);
const eventLook = from(
  () => new Situated({ entrypoint: "hear" }),
  (run) => void run.once({ type: "advance" }),
);
const event = from(eventLook, advance);
const cutOff = from(dispatched, (run) => void run.cancel());
const undoReady = from(packing, (run) => {
  const { dispatchId } = run;
  run.once({
    type: "failure",
    code: "declined",
    message: "no",
    retryable: false,
    outcomeUnknown: false,
    dispatchId,
    actor: "worker:w",
  });
});
const undoQueued = from(packing, workless, declined);
const undoDispatched = from(packing, declined);
const undoBackoff = from(undoDispatched, busy);
const helped = from(() => new Situated({}, HELPED), advance);
const incident = from(helped, declined);
const undoIncident = from(helped, work, declined, (run) => void run.command(ACTS.fail), declined);

const limited: Build = () => new Situated({ inputs: { x: "a" } }, LIMITED);
const refusedSlot = (run: Situated) => void run.once({ type: "slot_refused", entry: run.slotEntry, reason: "full" });
const slot = from(limited, advance);
const stepSlot = from(slot, (run) => void run.command({ type: "slot_granted", entry: 0 }));

const rated: Build = () => new Situated({ inputs: { x: "a" } }, RATED);
const noTurn = (run: Situated) => void run.once({ type: "turn_refused", entry: run.turnEntry });
const turnLater = (run: Situated) => void run.once({ type: "turn_given", entry: run.turnEntry, at: run.now + 5_000 });
const turn = from(rated, advance);
const stepTurn = from(turn, (run) => void run.command({ type: "turn_given", entry: 0, at: run.now }));
const turnUsed = from(
  stepTurn,
  workless,
  (run) => void run.command({ type: "turn_given", entry: run.turnEntry, at: run.now }),
);

export const SITUATIONS = {
  pending,
  delayed,
  ready,
  queued,
  dispatched,
  backoff,
  timer,
  signal,
  task,
  "event, looking": eventLook,
  event,
  "cut off": cutOff,
  "undo ready": undoReady,
  "undo queued": undoQueued,
  "undo dispatched": undoDispatched,
  "undo backoff": undoBackoff,
  "pending, quarantined": from(pending, quarantine),
  "ready, quarantined": from(ready, (run) => void run.once({ type: "quarantine" })),
  "queued, quarantined": from(queued, quarantine),
  "dispatched, quarantined": from(dispatched, quarantine),
  "backoff, quarantined": from(backoff, quarantine),
  "timer, quarantined": from(timer, quarantine),
  "signal, quarantined": from(signal, quarantine),
  "task, quarantined": from(task, quarantine),
  "event, quarantined": from(event, quarantine),
  "task submitted, quarantined": from(task, quarantine, (run) => void run.submit({ approved: true })),
  "cut off, quarantined": from(cutOff, quarantine),
  "undo queued, quarantined": from(undoQueued, quarantine),
  "undo dispatched, quarantined": from(undoDispatched, quarantine),
  "undo backoff, quarantined": from(undoBackoff, quarantine),
  incident,
  "incident, quarantined": from(incident, quarantine),
  "undo incident": undoIncident,
  "pending, paused": from(pending, pause),
  "ready, paused": from(ready, (run) => void run.once(ACTS.pause)),
  "queued, paused": from(queued, pause),
  "dispatched, paused": from(dispatched, pause),
  "dispatched, paused and quarantined": from(dispatched, pause, quarantine),
  "backoff, paused": from(backoff, pause),
  "timer, paused": from(timer, pause),
  "signal, paused": from(signal, pause),
  "task, paused": from(task, pause),
  "event, paused": from(event, pause),
  "task submitted, paused": from(task, pause, (run) => void run.submit({ approved: true })),
  "incident, paused": from(incident, pause),
  "cut off, paused": from(cutOff, pause),
  "undo queued, paused": from(undoQueued, pause),
  "undo dispatched, paused": from(undoDispatched, pause),
  "undo backoff, paused": from(undoBackoff, pause),
  "undo incident, paused": from(undoIncident, pause),
  slot,
  "slot, quarantined": from(slot, quarantine),
  "slot, paused": from(slot, pause),
  "slot refused, paused": from(slot, pause, refusedSlot),
  "step slot": stepSlot,
  "step slot, quarantined": from(stepSlot, quarantine),
  "step slot, paused": from(stepSlot, pause),
  "step slot refused, paused": from(stepSlot, pause, refusedSlot),
  "step slot held": from(
    stepSlot,
    (run) => void run.command({ type: "slot_granted", entry: run.slotEntry }),
    advance,
    busy,
  ),
  turn,
  "turn later": from(turn, turnLater),
  "turn, paused": from(turn, pause),
  "turn refused, paused": from(turn, pause, noTurn),
  "turn, quarantined": from(turn, quarantine),
  "step turn": stepTurn,
  "step turn later": from(stepTurn, turnLater),
  "step turn, paused": from(stepTurn, pause),
  "step turn refused, paused": from(stepTurn, pause, noTurn),
  "step turn, quarantined": from(stepTurn, quarantine),
  "turn used": turnUsed,
  "turn over": from(turnUsed, (run) => {
    run.now += 5_001;
    run.credit = true;
  }),
  succeeded: from(signal, (run) => void run.signal("go")),
  failed: from(undoDispatched, work),
  cancelled: from(signal, (run) => void run.cancel(), work),
} satisfies Record<string, Build>;

export type SituationName = keyof typeof SITUATIONS;

const STRANGER = asDispatchId("00000000-0000-8000-8000-000000000000");
const aFailure = { type: "failure", code: "busy", message: "busy!", outcomeUnknown: false, actor: "worker:w" } as const;
const aSubmit = { type: "submit", result: { approved: true, why: "paid" }, submittedBy: "ann", actor: "api" } as const;
const aResult = { type: "result", result: { n: 1 }, actor: "worker:w" } as const;

/** The command of the announcer to a run that waits, or that has just stopped waiting. */
function published({ world }: Situated, payload: JsonObject): RunCommand {
  const id = `event-${world.events.length}`;
  world.publish({ id, topic: "shipped", headers: {}, payload });
  return { type: "event", eventId: id };
}

/** A command for the run that receives it. `due` first advances the clock to the end of the run's wait. */
export const COMMANDS = {
  advance: () => ({ type: "advance" }),
  due: () => ({ type: "advance" }),
  "signal go": () => ({ type: "signal", id: `${RUN_ID}/go`, name: "go", payload: { by: "x" }, actor: "api" }),
  "signal other": () => ({ type: "signal", id: `${RUN_ID}/other`, name: "other", payload: {}, actor: "api" }),
  "signal of a task": (run) => ({
    type: "signal",
    id: `${RUN_ID}/s`,
    name: `user_task.${run.taskId}.submitted`,
    payload: { approved: true },
    actor: "api",
  }),
  "submit right": (run) => ({ ...aSubmit, taskId: run.taskId }),
  "submit unfit": (run) => ({ ...aSubmit, taskId: run.taskId, result: { approved: "yes" } }),
  "submit of stranger": () => ({ ...aSubmit, taskId: STRANGER }),
  grant: (run) => ({ type: "slot_granted", entry: run.slotEntry }),
  refusal: (run) => ({ type: "slot_refused", entry: run.slotEntry, reason: "refused" }),
  turn: (run) => ({ type: "turn_given", entry: run.turnEntry, at: run.now }),
  "turn to come": (run) => ({ type: "turn_given", entry: run.turnEntry, at: run.now + 5_000 }),
  "no turn": (run) => ({ type: "turn_refused", entry: run.turnEntry }),
  cancel: () => ({ type: "cancel", reason: "asked to", compensate: true, actor: "api" }),
  abandon: () => ({ type: "cancel", reason: "asked to", compensate: false, actor: "api" }),
  "event right": (run) => published(run, { n: 1 }),
  "event wrong": (run) => published(run, { n: 0 }),
  "event unfit": (run) => published(run, {}),
  "offer right": (run) => ({ type: "offer", dispatchId: run.dispatchId, workerId: "w" }),
  "offer wrong": () => ({ type: "offer", dispatchId: STRANGER, workerId: "w" }),
  "result right": (run) => ({ ...aResult, dispatchId: run.dispatchId }),
  "result by attempt": (run) => ({ ...aResult, attempt: run.attempt }),
  "result of stale attempt": (run) => ({ ...aResult, attempt: run.attempt + 1 }),
  "result of stranger": () => ({ ...aResult, dispatchId: STRANGER }),
  "result of another step": (run) => ({ ...aResult, dispatchId: run.dispatchId, stepId: "hold" }),
  "result bare": () => aResult,
  "failure right": (run) => ({ ...aFailure, retryable: true, dispatchId: run.dispatchId }),
  "failure final": (run) => ({ ...aFailure, retryable: false, dispatchId: run.dispatchId }),
  "failure of stale attempt": (run) => ({ ...aFailure, retryable: true, attempt: run.attempt + 1 }),
  "failure of stranger": () => ({ ...aFailure, retryable: true, dispatchId: STRANGER }),
  "failure bare": () => ({ ...aFailure, retryable: true }),
  "heartbeat right": (run) => ({ type: "heartbeat", dispatchId: run.dispatchId, actor: "worker:w" }),
  "heartbeat of stranger": () => ({ type: "heartbeat", dispatchId: STRANGER, actor: "worker:w" }),
  "heartbeat bare": () => ({ type: "heartbeat", actor: "worker:w" }),
  "carry right": (run) => ({ type: "carry", dispatchId: run.dispatchId }),
  "carry wrong": () => ({ type: "carry", dispatchId: STRANGER }),
  quarantine: () => ({ type: "quarantine" }),
  release: () => ({ type: "release", actor: "user:ops" }),
  pause: () => ACTS.pause,
  resume: () => ACTS.resume,
  "retry step": () => ACTS.retry_step,
  "skip step": () => ACTS.skip_step,
  fail: () => ACTS.fail,
  "retry undo": () => ACTS.retry_undo,
  "skip undo": () => ACTS.skip_undo,
  "skip another undo": () => ({ ...ACTS.skip_undo, ordinal: "0" }),
  terminate: () => ACTS.terminate,
  "data lost": () => ({ type: "data_lost" }),
  migrate: () => ACTS.migrate,
  "migrate to here": () => ({ ...ACTS.migrate, version: 1 }),
  "migrate to a foreign version": () => ({ ...ACTS.migrate, version: 3 }),
  "migrate to no version": () => ({ ...ACTS.migrate, version: 4 }),
} satisfies Record<string, (run: Situated) => RunCommand>;

export type CommandName = keyof typeof COMMANDS;
