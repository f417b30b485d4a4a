// One run on the machine alone, with a virtual clock, a scripted worker and a store in memory. It can discard the actor after every commit and
// go on from the stored state; the world has the other faults of commits.
import { createHash } from "node:crypto";
import {
  type ActionFact,
  type Answer,
  type AuditEvent,
  asRunId,
  type Dispatch,
  type DispatchId,
  decide,
  decodeRun,
  type Facts,
  isHalted,
  isReady,
  isTerminal,
  type Json,
  type JsonObject,
  movedActor,
  type Program,
  type Row,
  type Rule,
  type RunActor,
  type RunColumns,
  type RunCommand,
  type RunContext,
  type RunId,
  type RunLimits,
  ruleFor,
  type Schemas,
  type Send,
  STANDARD_RUN_LIMITS,
  startActor,
  storedRun,
  type Transition,
  type Write,
  wakeAt,
} from "../../machines/index.js";
import { type CarriedOut, startOf } from "../../machines/memory/commit.js";
import { EVERYTHING } from "../../src/access/index.js";
import {
  type CommittedBy,
  type FaultsOf,
  type KeptTask,
  type OwnedUndo,
  START,
  type Tried,
  WorldOf,
  type WorldRun,
} from "./world.js";

export { START } from "./world.js";

export const RUN_ID = asRunId("01900000-0000-7000-8000-000000000042");

/** What the scripted worker does with an attempt. */
export type WorkerMove =
  | { readonly kind: "result"; readonly result: JsonObject }
  | {
      readonly kind: "failure";
      readonly code: string;
      readonly retryable: boolean;
      readonly outcomeUnknown: boolean;
      readonly retryAfterMs?: number;
    }
  | { readonly kind: "silence" };

export interface SimulationOptions {
  readonly program: Program;
  readonly inputs?: JsonObject;
  readonly worker?: (dispatch: Dispatch) => WorkerMove;
  readonly actions?: Readonly<Record<string, Partial<ActionFact>>>;
  /** Transitions per commit. */
  readonly budget?: number;
  /** Discard the actor after every commit, and load the stored state. */
  readonly reload?: boolean;
  /** Whether a worker has credit. */
  readonly credit?: () => boolean;
  readonly identity?: Partial<RunContext["run"]>;
  readonly licensed?: boolean;
  /** Absent: of a schema only `required` counts. */
  readonly schemas?: Pick<Schemas, "conforms">;
  readonly rules?: readonly Rule[];
  readonly limits?: Partial<RunLimits>;
  readonly variables?: JsonObject;
  /** For jitter. */
  readonly random?: number;
  /** The number of step entries after which the run is not advanced any more. */
  readonly entries?: number;
  /** The workflows that sub-sagas may run, by id. */
  readonly workflows?: Readonly<Record<string, Program>>;
  /** The published versions of its own workflow. */
  readonly versions?: Readonly<Record<number, Program>>;
  /** Sees every commit of its world. */
  readonly watch?: (tried: Tried) => void;
}

export type World = WorldOf<Simulation>;
export type Committed = CommittedBy<Simulation>;
export type Faults = FaultsOf<Simulation>;

/** A commit that is not written yet. */
interface Drafted {
  readonly done: CarriedOut;
  readonly transitions: readonly Committed[];
  readonly writes: readonly Write[];
  readonly sends: readonly Send[];
}

/** The start of a child run. */
export interface Birth {
  readonly world: World;
  readonly runId: RunId;
  readonly program: Program;
}

export class Simulation implements WorldRun {
  readonly world: World;
  /** The program of the version that the run began with. */
  private readonly first: Program;
  readonly rows: (AuditEvent & { seq: number })[] = [];
  /** With the worker. */
  readonly dispatches = new Map<DispatchId, Dispatch>();
  private readonly moves = new Map<string, WorkerMove>();
  /** All that were ever handed over. */
  readonly sent: Dispatch[] = [];
  readonly cancelled: string[] = [];
  readonly queued = new Map<string, Send & { kind: "dispatch.request" }>();
  /** The outbox rows of posts. */
  readonly posts: Row<"outbox_row">[] = [];
  /** What the last commit let out. */
  released: readonly Send[] = [];
  /** What the last commit wrote. */
  wrote: readonly Write[] = [];
  commits = 0;
  private actor: RunActor;

  constructor(
    readonly options: SimulationOptions,
    birth?: Birth,
  ) {
    this.world = birth?.world ?? new WorldOf<Simulation>(options.watch);
    this.first = birth?.program ?? options.program;
    this.actor = startActor(this.first, decodeRun(storedRun(this.columns(birth?.runId ?? this.start()))));
    this.world.runs.set(this.id, this);
  }

  /** The program of the version that the run is of now. */
  get program(): Program {
    return this.programOf(this.context.run);
  }

  private programOf({ version, workflowId }: RunContext["run"]): Program {
    const program = this.options.versions?.[version];
    return program?.workflowId === workflowId ? program : this.first;
  }

  private start(): RunId {
    const { options, world } = this;
    const identity = {
      id: RUN_ID,
      workflowId: options.program.workflowId,
      version: options.program.version,
      definitionId: "01900000-0000-7000-8000-000000000001",
      dryRun: false,
      features: {},
      inputs: options.inputs ?? {},
      entrypoint: "",
      startedAt: START,
      ...options.identity,
    };
    world.start(startOf(identity, options.variables, world.store.newFence));
    return identity.id;
  }

  startChild(runId: RunId, program: Program): void {
    new Simulation(this.options, { world: this.world, runId, program });
  }

  get id(): RunId {
    return this.actor.context.run.id;
  }

  get now(): number {
    return this.world.now;
  }

  set now(now: number) {
    this.world.now = now;
  }

  /** Its own signals, and its own undo list. */
  get signals() {
    return this.world.signals.filter(({ runId }) => runId === this.id);
  }

  get undo(): OwnedUndo[] {
    return this.world.undo.filter(({ owner }) => owner === this.id);
  }

  get tasks(): KeptTask[] {
    return this.world.tasksOf(this.id);
  }

  get context(): RunContext {
    return this.actor.context;
  }

  get state(): string {
    return this.context.state;
  }

  get ended(): boolean {
    return isTerminal(this.context.state);
  }

  /** Carries out a command and everything that follows without the outside. */
  command(command: RunCommand, id?: string): Answer {
    return this.world.together(() => {
      const answer = this.once(command, id);
      for (let next = this.next(); next; next = this.next()) this.once(next);
      return answer;
    });
  }

  /** Carries out a command alone: one commit, of as many transitions as the budget lets follow. */
  once(command: RunCommand, id?: string): Answer {
    const answer = this.tryOnce(command, id);
    if (!answer) throw new Error("the commit was lost, and this simulation has no faults");
    return answer;
  }

  /**
   * Tries to carry out a command in one commit. A repeat gets the recorded answer. Undefined: the commit was lost, or its outcome is
   * unknown; the actor is discarded, and the command must be sent again with the same id (law 2).
   */
  tryOnce(command: RunCommand, id?: string): Answer | undefined {
    const recorded = id === undefined ? undefined : this.world.store.repeatedAnswer(this.id, id);
    if (recorded) return recorded;
    const { faults } = this.world;
    const drafted = this.draft(command, id);
    if (!this.write(drafted)) return undefined;
    const heard = faults?.afterCommit(this) ?? true;
    if (!heard) this.reload();
    else this.release(drafted.sends);
    return heard ? drafted.done.answer : undefined;
  }

  private draft(command: RunCommand, id: string | undefined): Drafted {
    const place = this.world.store.placeOf(this.id);
    if (!place) throw new Error(`there is no run ${this.id}`);
    const { now } = this;
    const decision = this.decide(command);
    const taken: Transition[] = [];
    const transitions: Committed[] = [];
    let next: typeof decision | undefined = decision;
    while (next) {
      for (const transition of next.transitions) {
        this.apply(transition);
        taken.push(transition);
        const { type: edge, audit: rows, writes, sends } = transition;
        transitions.push({ run: this, edge, rows, writes, sends, context: this.context, program: this.program });
      }
      // Nothing follows a refusal or a no-op.
      if (next.transitions.length === 0 || transitions.length >= (this.options.budget ?? 64)) break;
      next = undefined;
      const following = this.next();
      if (!following) break;
      const after = decide(this.program, this.context, following, this.facts(), EVERYTHING);
      if (!("need" in after)) next = after;
    }
    const { answer, owed } = decision;
    const { writes = [], sends = [] } = owed ?? {};
    return {
      done: { context: this.context, place, command, id, answer, transitions: taken, owed, now },
      transitions,
      writes: [...writes, ...transitions.flatMap((one) => one.writes)],
      sends: [...sends, ...transitions.flatMap((one) => one.sends)],
    };
  }

  private apply(transition: Transition): void {
    const { moved } = transition;
    if (!moved) return this.actor.apply(transition);
    this.actor = movedActor(this.actor, this.programOf({ ...this.context.run, ...moved }), transition);
  }

  /** False: the commit was lost, and the run is as it is stored. */
  private write({ done, transitions, writes }: Drafted): boolean {
    const { actor: mine, world } = this;
    const { faults } = world;
    // Others move before the commit, on the stored state: another node may move this very run.
    if (faults) this.actor = this.stored();
    const isKept = faults?.beforeCommit(this) ?? true;
    const won = isKept && world.commit(this.id, done, writes);
    if (!won) {
      if (this.actor === mine) this.actor = this.stored();
      mine.stop();
      return false;
    }
    if (this.actor !== mine) this.actor.stop();
    this.actor = mine;
    world.committed(this, transitions, writes);
    this.commits++;
    for (const { rows } of transitions) for (const row of rows) this.rows.push({ ...row, seq: this.rows.length + 1 });
    this.wrote = writes;
    for (const { to, row } of writes) if (to === "outbox_row" && row.kind === "webhook") this.posts.push(row);
    if (this.options.reload) this.reload();
    return true;
  }

  /** Commits the next move of the run itself. False if there is none. */
  follow(): boolean {
    const next = this.state === "pending" ? ({ type: "advance" } as const) : this.next();
    if (next) this.once(next);
    return next !== undefined;
  }

  /** The next command of the run itself. An endless loop is left after a number of step entries, which does not depend on commits. */
  private next(): RunCommand | undefined {
    const { wait } = this.context;
    if (isReady(this.context)) return this.goesOn ? { type: "advance" } : undefined;
    if (wait?.kind !== "queued" || isHalted(this.context) || !(this.options.credit?.() ?? true)) return undefined;
    return { type: "offer", dispatchId: wait.dispatchId, workerId: "w" };
  }

  get goesOn(): boolean {
    const { entries, ending, unwinding } = this.context;
    return entries < (this.options.entries ?? 60) || ending !== undefined || unwinding !== undefined;
  }

  /** The next move of the run. Undefined: it has ended, or waits for the clock or another run. */
  get nextMove(): (() => void) | undefined {
    const { state, run, wait, quarantined } = this.context;
    if (this.ended || quarantined) return undefined;
    const isDelayed = (run.delayedUntil ?? 0) > this.now;
    const next: RunCommand | undefined = state === "pending" && !isDelayed ? { type: "advance" } : this.next();
    if (next) return () => void this.obey(next);
    if (wait?.kind !== "dispatched") return undefined;
    const { dispatchId } = wait;
    // It was committed, but the node that should have sent it died: the poll finds it.
    if (!this.dispatches.has(dispatchId)) return () => void this.obey({ type: "carry", dispatchId });
    return this.moveFor(dispatchId).kind === "silence" ? undefined : () => void this.work();
  }

  /** Carries out a command. With `stepwise`, in a single commit. */
  obey(command: RunCommand, id?: string): Answer | undefined {
    return this.world.stepwise ? this.tryOnce(command, id) : this.command(command, id);
  }

  /** The worker's move for a dispatch. Undefined: it has not been asked. */
  readonly moveOf = (dispatchId: string): WorkerMove | undefined => this.moves.get(dispatchId);

  /** The worker is asked once for each dispatch. */
  private moveFor(dispatchId: DispatchId): WorkerMove {
    const dispatch = this.dispatches.get(dispatchId);
    const move = this.moves.get(dispatchId) ??
      (dispatch && this.options.worker?.(dispatch)) ?? { kind: "result", result: {} };
    this.moves.set(dispatchId, move);
    return move;
  }

  advance(): Answer {
    return this.command({ type: "advance" });
  }

  signal(name: string, payload: Json = {}): Answer {
    return this.command({ type: "signal", id: `signal-${this.world.signals.length}`, name, payload, actor: "api" });
  }

  /** Publishes an event and offers it to the waiting runs at once. */
  publish(topic: string, payload: Json = {}, headers: Record<string, string> = {}): string {
    const id = `event-${this.world.events.length}`;
    this.world.publish({ id, topic, headers, payload });
    const told = this.world.inbox.filter(({ command }) => command.type === "event" && command.eventId === id);
    for (const message of told) this.world.deliver(message);
    return id;
  }

  /** Submits the newest task unless another is named. */
  submit(result: JsonObject, { by, taskId = this.tasks.at(-1)?.id ?? "none" }: { by?: string; taskId?: string } = {}) {
    return this.command({ type: "submit", taskId, result, submittedBy: by, actor: "api" });
  }

  cancel(compensate = true): Answer {
    return this.command({ type: "cancel", reason: "asked to", compensate, actor: "api" });
  }

  result(
    result: JsonObject,
    about: { dispatchId?: DispatchId; attempt?: number; stepId?: string; arrivedAt?: number } = {},
  ): Answer {
    return this.command({ type: "result", result, actor: "worker:w", ...about });
  }

  failure(
    code: string,
    {
      retryable = true,
      outcomeUnknown = false,
      dispatchId,
      retryAfterMs,
    }: { retryable?: boolean; outcomeUnknown?: boolean; dispatchId?: DispatchId; retryAfterMs?: number } = {},
  ): Answer {
    return this.command({
      type: "failure",
      code,
      message: `${code}!`,
      retryable,
      outcomeUnknown,
      dispatchId,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      actor: "worker:w",
    });
  }

  /** Advances the clock to the next due time, if there is one, and the run. */
  elapse(ms?: number): boolean {
    const wake = wakeAt(this.context);
    const to = ms === undefined ? (typeof wake === "number" ? wake : undefined) : this.now + ms;
    if (to === undefined) return false;
    this.now = Math.max(this.now, to);
    this.advance();
    return true;
  }

  /** The scripted worker answers the open dispatch. */
  work(): boolean {
    const { wait } = this.context;
    const report = wait?.kind === "dispatched" ? this.reportOn(wait.dispatchId) : undefined;
    if (report) this.obey(report, `${report.dispatchId}/report`);
    return report !== undefined;
  }

  /** The worker's report on a dispatch, always the same. Undefined: it is silent. */
  reportOn(dispatchId: DispatchId): Extract<RunCommand, { type: "result" | "failure" }> | undefined {
    const move = this.moveFor(dispatchId);
    const about = { dispatchId, actor: "worker:w" };
    if (move.kind === "silence") return undefined;
    if (move.kind === "result") return { type: "result", result: move.result, ...about };
    const { code, retryable, outcomeUnknown } = move;
    return { type: "failure", code, message: `${code}!`, retryable, outcomeUnknown, ...about };
  }

  /** Lets the worker, the clock and the family move until the run has ended or only the outside can move it. */
  drain(limit = 2_000): void {
    for (let moves = 0; moves < limit && !this.ended; moves++) if (!this.world.move()) return;
  }

  facts(): Facts {
    return {
      limits: { ...STANDARD_RUN_LIMITS, ...this.options.limits },
      now: this.now,
      random: this.options.random ?? 0.5,
      uuid: (_, seed) => derivedId(seed),
      action: (service, name, version) => this.action(service, name, version),
      rule: (ruleId, tenantId) =>
        ruleFor(
          tenantId,
          this.options.rules?.find((rule) => rule.ruleId === ruleId),
        ),
      licensed: () => this.options.licensed ?? true,
      conforms: (schema, value) => {
        if (this.options.schemas) return this.options.schemas.conforms(schema, value);
        const required = (schema as { required?: string[] }).required ?? [];
        return required.filter((key) => !Object.hasOwn(value as object, key)).map((key) => `lacks ${key}`);
      },
    };
  }

  private action(service: string, name: string, version?: number): ActionFact | undefined {
    const found = this.options.actions?.[`${service}.${name}`];
    if (!found || (version !== undefined && version !== (found.version ?? 1))) return undefined;
    return {
      service,
      name,
      version: 1,
      transport: "grpc",
      compensable: false,
      dryRunSupported: false,
      inputSchema: {},
      outputSchema: {},
      ...found,
    };
  }

  private decide(command: RunCommand) {
    let facts = this.facts();
    for (;;) {
      const decision = decide(this.program, this.context, command, facts, EVERYTHING);
      if (!("need" in decision)) return decision;
      facts = { ...facts, ...this.world.fetch(this, decision.need) };
    }
  }

  private release(sends: readonly Send[]): void {
    this.released = sends;
    for (const send of sends) this.carryOut(send);
  }

  /** Goes on from what is stored. */
  reload(): void {
    this.actor.stop();
    this.actor = this.stored();
  }

  /** The run as a node that loads it has it. */
  private stored(): RunActor {
    const context = decodeRun(storedRun(JSON.parse(JSON.stringify(this.columns(this.id)))));
    return startActor(this.programOf(context.run), context);
  }

  private columns(runId: RunId): RunColumns {
    const columns = this.world.store.columnsOf(runId);
    if (!columns) throw new Error(`there is no run ${runId}`);
    return columns;
  }

  private carryOut(send: Send): void {
    switch (send.kind) {
      case "dispatch.request":
        this.queued.set(send.dispatchId, send);
        break;
      case "dispatch.send":
        this.dispatches.set(send.dispatch.dispatchId, send.dispatch);
        this.sent.push(send.dispatch);
        break;
      case "dispatch.cancel":
        this.cancelled.push(send.dispatchId);
        break;
      case "dispatch.resolved":
        this.queued.delete(send.dispatchId);
        this.dispatches.delete(send.dispatchId);
        break;
    }
  }
}

function derivedId(seed: string): string {
  const hex = createHash("sha256").update(seed).digest("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}
