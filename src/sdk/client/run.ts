// A run as a handle: its id, and all that may be asked of it and done to it. It keeps no state of the run; every call asks the service.
import { Conflict, SagaCancelled, SagaFailed, SagaNotEnded } from "./errors.js";
import type { SagaRun, SagaRunEvent, SagaSignal, UndoEntry, UserTask } from "./generated/resources.js";
import type { Answered, Call, List, Sent } from "./operations.js";
import type { Pages } from "./pages.js";
import { afterRound, now } from "./pause.js";
import type { CallOptions } from "./transport.js";
import type { SignalLike } from "./types.js";
import { type Watched, type WatchOptions, watchRun } from "./watch.js";

/** How long the service is asked to wait in one request. Proxies often give up after a minute. */
const ROUND_MS = 30_000;

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in milliseconds. Default: until the run has ended. */
  readonly timeoutMs?: number | undefined;
}

/** Of a signal or a submit. */
export interface RestOptions extends CallOptions {
  /** How long the answer waits until the run waits again or has ended, up to 60000: the answer has the `run` then. Default: it does not wait. */
  readonly waitMs?: number | undefined;
}

/** `matched: false`: the signal is recorded, and the next wait for its name takes it, unless the run has ended. `message` says which. */
export type SignalAnswer =
  | { readonly matched: true; readonly signal_id: string; readonly run?: SagaRun }
  | { readonly matched: false; readonly signal_id: string; readonly message: string };

export type Act = Answered<"pauseSaga">;

export interface RunLinks extends Watched {
  readonly call: Call;
  readonly list: List;
}

export class Run<Output = unknown> {
  constructor(
    readonly id: string,
    private readonly links: RunLinks,
    /** The answer to the start, of a run that this client started. */
    readonly started?: Answered<"startSaga"> | undefined,
  ) {}

  /** The run as it is now. */
  get(options?: CallOptions): Promise<SagaRun> {
    return this.links.call("getSaga", { path: { id: this.id } }, options);
  }

  /** The output of the run, when it has succeeded. Throws SagaFailed, SagaCancelled, and SagaNotEnded where `timeoutMs` is over. */
  async result(options?: WaitOptions): Promise<Output> {
    const run = await this.ended(options);
    if (run.state === "failed") throw new SagaFailed(run);
    if (run.state === "cancelled") throw new SagaCancelled(run);
    return run.output as Output;
  }

  /** The run when it has ended, however it ended. Throws SagaNotEnded where `timeoutMs` is over. */
  async ended({ signal, timeoutMs = Number.POSITIVE_INFINITY }: WaitOptions = {}): Promise<SagaRun> {
    const until = now() + timeoutMs;
    for (;;) {
      const wait_ms = Math.floor(Math.max(0, Math.min(ROUND_MS, until - now())));
      const beganAt = now();
      const run = await this.links.call("getSaga", { path: { id: this.id }, query: { wait_ms } }, { signal });
      if (run.terminal_at !== undefined) return run;
      if (now() >= until) throw new SagaNotEnded(run, timeoutMs);
      await afterRound(beganAt, wait_ms, signal);
    }
  }

  /** The run's audit events in their order, those to come included, until the run has ended. After a lost connection it goes on where it was. */
  watch(options?: WatchOptions): AsyncGenerator<SagaRunEvent, void, undefined> {
    return watchRun(this.id, this.links, options);
  }

  /** The audit events that there are. */
  events(options?: CallOptions): Pages<SagaRunEvent> {
    return this.links.list("listSagaEvents", { path: { id: this.id } }, options);
  }

  signals(options?: CallOptions): Pages<SagaSignal> {
    return this.links.list("listSagaSignals", { path: { id: this.id } }, options);
  }

  /** What was undone, and what would be. */
  undo(options?: CallOptions): Pages<UndoEntry> {
    return this.links.list("listSagaUndo", { path: { id: this.id } }, options);
  }

  /** The user tasks of the run, its branches and its items. */
  tasks(options?: CallOptions): Pages<UserTask> {
    return this.links.list("listSagaUserTasks", { path: { id: this.id } }, options);
  }

  children(
    query?: { readonly parent_step_id?: string; readonly state?: SagaRun["state"][] },
    options?: CallOptions,
  ): Pages<SagaRun> {
    return this.links.list("listSagaChildren", { path: { id: this.id }, ...(query && { query }) }, options);
  }

  /** Why the run stands where it stands, and what may be done. */
  explain(options?: CallOptions): Promise<Answered<"explainSaga">> {
    return this.links.call("explainSaga", { path: { id: this.id } }, options);
  }

  /**
   * The value of a CEL expression about the run as it stands: `run.query("vars.lines.size()")`. It changes nothing. Throws Invalid if it is no expression, or
   * has no value for this run.
   */
  async query<Value = unknown>(expression: string, options?: CallOptions): Promise<Value> {
    const asked = { path: { id: this.id }, body: { expression } };
    const { value } = await this.links.call("querySaga", asked, options);
    return value as Value;
  }

  /** Throws Conflict if the signal was not recorded. */
  signal<Payload>(
    signal: SignalLike<Payload>,
    ...rest: undefined extends Payload
      ? [payload?: Payload, options?: RestOptions]
      : [payload: Payload, options?: RestOptions]
  ): Promise<SignalAnswer>;
  signal(name: string, payload?: object, options?: RestOptions): Promise<SignalAnswer>;
  async signal(
    signal: string | SignalLike,
    payload: unknown = {},
    { waitMs, ...options }: RestOptions = {},
  ): Promise<SignalAnswer> {
    const name = typeof signal === "string" ? signal : signal.name;
    const query = waitMs === undefined ? {} : { query: { wait_ms: waitMs } };
    const asked = { path: { run_id: this.id, name }, body: { payload: payload as object }, ...query };
    try {
      const answer = await this.links.call("signalSaga", asked, options);
      return { matched: true, signal_id: answer.signal_id, ...("run" in answer && { run: answer.run }) };
    } catch (error) {
      if (!(error instanceof Conflict)) throw error;
      const { signal_id, recorded } = error.envelope;
      if (signal_id === undefined || recorded !== true) throw error;
      return { matched: false, signal_id, message: error.message };
    }
  }

  /** Submits a user task: the task or its id, and the result. Throws Invalid if the result does not fit, and Conflict if the task is not open. */
  submit(
    task: string | Pick<UserTask, "id">,
    result: object,
    { submittedBy, waitMs, ...options }: RestOptions & { readonly submittedBy?: string } = {},
  ): Promise<Answered<"submitUserTask">> {
    const path = { run_id: this.id, task_id: typeof task === "string" ? task : task.id };
    const body = { result, ...(submittedBy !== undefined && { submitted_by: submittedBy }) };
    const query = waitMs === undefined ? {} : { query: { wait_ms: waitMs } };
    return this.links.call("submitUserTask", { path, body, ...query }, options);
  }

  /** Undoes what was done, and then ends the run as cancelled; with `compensate: false` it ends at once. */
  cancel(body: Sent<"cancelSaga"> = {}, options?: CallOptions): Promise<Answered<"cancelSaga">> {
    return this.links.call("cancelSaga", { path: { id: this.id }, body }, options);
  }

  pause(body: Sent<"pauseSaga"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("pauseSaga", { path: { id: this.id }, body }, options);
  }

  resume(body: Sent<"resumeSaga"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("resumeSaga", { path: { id: this.id }, body }, options);
  }

  /** Tries the step again that the run stands at: at an incident, or before its next attempt. `variables` are corrected first. */
  retry(body: Sent<"retrySagaStep"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("retrySagaStep", { path: { id: this.id }, body }, options);
  }

  /** The step at an incident counts as succeeded, with this output. */
  skip(body: Sent<"skipSagaStep"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("skipSagaStep", { path: { id: this.id }, body }, options);
  }

  /** The error of the step at an incident takes its course. */
  fail(body: Sent<"failSaga"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("failSaga", { path: { id: this.id }, body }, options);
  }

  /** Begins the undo anew that a rollback stands at. */
  retryUndo(body: Sent<"retrySagaCompensation"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("retrySagaCompensation", { path: { id: this.id }, body }, options);
  }

  /** The undo that a rollback stands at counts as failed, and the rollback goes on. */
  skipUndo(body: Sent<"skipSagaCompensation"> = {}, options?: CallOptions): Promise<Act> {
    return this.links.call("skipSagaCompensation", { path: { id: this.id }, body }, options);
  }

  /** Ends the run without undoing anything. */
  terminate(body: Sent<"terminateSaga">, options?: CallOptions): Promise<Act> {
    return this.links.call("terminateSaga", { path: { id: this.id }, body }, options);
  }

  /** Out of quarantine. */
  release(options?: CallOptions): Promise<Answered<"releaseSaga">> {
    return this.links.call("releaseSaga", { path: { id: this.id } }, options);
  }

  /** To another published version; with `check: true` only whether it could. Throws Conflict with every reason in `details`. */
  migrate(body: Sent<"migrateSaga">, options?: CallOptions): Promise<Answered<"migrateSaga">> {
    return this.links.call("migrateSaga", { path: { id: this.id }, body }, options);
  }

  /** Starts a run that has ended again, as a new one. */
  async rerun(body: Sent<"rerunSaga"> = {}, options?: CallOptions): Promise<Run<Output>> {
    const { run_id } = await this.links.call("rerunSaga", { path: { id: this.id }, body }, options);
    return new Run(run_id, this.links);
  }

  /** Starts a new run that begins at a step of this one, with the outputs before it. A run that waits ends with that. */
  async fork(body: Sent<"forkSaga">, options?: CallOptions): Promise<Run<Output>> {
    const { run_id } = await this.links.call("forkSaga", { path: { id: this.id }, body }, options);
    return new Run(run_id, this.links);
  }

  /** Deletes a run that has ended, with its children and everything that is stored of them. */
  erase(options?: CallOptions): Promise<undefined> {
    return this.links.call("eraseSaga", { path: { id: this.id } }, options);
  }
}
