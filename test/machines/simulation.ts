// Runs one workflow on the machine alone: a virtual clock, a scripted worker, signals and undo list in memory, derived from the
// effects alone as the store would. It can throw the actor away after every commit and go on from what was stored.
import { createHash } from "node:crypto";
import {
  type ActionFact,
  type Answer,
  type AuditEvent,
  type Dispatch,
  decide,
  decodeRun,
  type Effect,
  encodeRecord,
  type Facts,
  isReady,
  isTerminal,
  type Json,
  type JsonObject,
  newRun,
  type Program,
  type RunActor,
  type RunCommand,
  type RunContext,
  type RunLimits,
  STANDARD_RUN_LIMITS,
  startActor,
  type UndoEntry,
  wakeAt,
} from "../../machines/index.js";

export const RUN_ID = "01900000-0000-7000-8000-000000000042";
export const START = 1_700_000_000_000;

/** What the scripted worker does with an attempt. */
export type WorkerMove =
  | { readonly kind: "result"; readonly result: JsonObject }
  | { readonly kind: "failure"; readonly code: string; readonly retryable: boolean; readonly outcomeUnknown: boolean }
  | { readonly kind: "silence" };

export interface SimulationOptions {
  readonly program: Program;
  readonly inputs?: JsonObject;
  readonly worker?: (dispatch: Dispatch) => WorkerMove;
  readonly actions?: Readonly<Record<string, Partial<ActionFact>>>;
  /** Transitions per commit. */
  readonly budget?: number;
  /** Throw the actor away after every commit, and load what was stored. */
  readonly reload?: boolean;
  /** Whether a worker has credit. */
  readonly credit?: () => boolean;
  readonly identity?: Partial<RunContext["run"]>;
  readonly licensed?: boolean;
  readonly limits?: Partial<RunLimits>;
  readonly variables?: JsonObject;
  /** For jitter. */
  readonly random?: number;
  /** After how many step entries the run is left alone. */
  readonly entries?: number;
}

export class Simulation {
  now = START;
  readonly rows: (AuditEvent & { seq: number })[] = [];
  /** With the worker. */
  readonly dispatches = new Map<string, Dispatch>();
  /** All that were ever handed over. */
  readonly sent: Dispatch[] = [];
  readonly cancelled: string[] = [];
  readonly signals: { id: string; name: string; payload: Json; consumed: boolean }[] = [];
  readonly undo: (UndoEntry & { ordinal: string; state: string })[] = [];
  readonly queued = new Map<string, Effect & { kind: "dispatch.request" }>();
  /** What the last commit let out. */
  released: readonly Effect[] = [];
  commits = 0;
  private actor: RunActor;

  constructor(readonly options: SimulationOptions) {
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
    this.actor = startActor(options.program, newRun(identity, options.variables ?? {}));
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
  command(command: RunCommand): Answer {
    const answer = this.once(command);
    for (let next = this.next(); next; next = this.next()) this.once(next);
    return answer;
  }

  /** Carries out a command alone: one commit, of as many transitions as the budget lets follow. */
  once(command: RunCommand): Answer {
    const decision = this.decide(command);
    let transitions = 0;
    const effects: Effect[] = [...(decision.effects ?? [])];
    let next: typeof decision | undefined = decision;
    while (next) {
      for (const transition of next.transitions) {
        this.actor.take(transition);
        transitions++;
        for (const row of transition.audit) this.rows.push({ ...row, seq: this.rows.length + 1 });
        effects.push(...transition.effects);
      }
      // A refusal or a no-op is confirmed as it is: nothing follows it.
      if (next.transitions.length === 0 || transitions >= (this.options.budget ?? 64)) break;
      next = undefined;
      const following = this.next();
      if (!following) break;
      const after = decide(this.options.program, this.context, following, this.facts());
      if (!("need" in after)) next = after;
    }
    this.commit(effects);
    return decision.answer;
  }

  /** What follows by itself. A loop without an end is left by a count of entries, the same however commits fall. */
  private next(): RunCommand | undefined {
    const { wait, entries, ending } = this.context;
    if (isReady(this.context))
      return entries < (this.options.entries ?? 60) || ending ? { type: "advance" } : undefined;
    if (wait?.kind !== "queued" || this.context.quarantined || !(this.options.credit?.() ?? true)) return undefined;
    return { type: "offer", dispatchId: wait.dispatchId, workerId: "w" };
  }

  advance(): Answer {
    return this.command({ type: "advance" });
  }

  signal(name: string, payload: Json = {}): Answer {
    return this.command({ type: "signal", id: `signal-${this.signals.length}`, name, payload, actor: "api" });
  }

  cancel(compensate = true): Answer {
    return this.command({ type: "cancel", reason: "asked to", compensate, actor: "api" });
  }

  result(result: JsonObject, about: { dispatchId?: string; attempt?: number; stepId?: string } = {}): Answer {
    return this.command({ type: "result", result, actor: "worker:w", ...about });
  }

  failure(
    code: string,
    {
      retryable = true,
      outcomeUnknown = false,
      dispatchId,
    }: { retryable?: boolean; outcomeUnknown?: boolean; dispatchId?: string } = {},
  ): Answer {
    return this.command({
      type: "failure",
      code,
      message: `${code}!`,
      retryable,
      outcomeUnknown,
      dispatchId,
      actor: "worker:w",
    });
  }

  /** Moves the clock to the next due time, if there is one, and looks. */
  elapse(ms?: number): boolean {
    const wake = wakeAt(this.context);
    const to = ms === undefined ? (typeof wake === "number" ? wake : undefined) : this.now + ms;
    if (to === undefined) return false;
    this.now = Math.max(this.now, to);
    this.advance();
    return true;
  }

  /** The scripted worker answers what is open. */
  work(): boolean {
    const wait = this.context.wait;
    if (wait?.kind !== "dispatched") return false;
    const dispatch = this.dispatches.get(wait.dispatchId);
    const move: WorkerMove = (dispatch && this.options.worker?.(dispatch)) ?? { kind: "result", result: {} };
    if (move.kind === "silence") return false;
    if (move.kind === "result") this.result(move.result, { dispatchId: wait.dispatchId });
    else this.failure(move.code, { ...move, dispatchId: wait.dispatchId });
    return true;
  }

  /** Lets worker and clock do what they do until the run has ended or only the outside could move it. */
  drain(limit = 2_000): void {
    for (let moves = 0; moves < limit && !this.ended; moves++) if (!this.work() && !this.elapse()) return;
  }

  facts(): Facts {
    return {
      limits: { ...STANDARD_RUN_LIMITS, ...this.options.limits },
      now: this.now,
      random: this.options.random ?? 0.5,
      uuid: (_, seed) => createHash("sha256").update(seed).digest("hex").slice(0, 32),
      action: (service, name, version) => this.action(service, name, version),
      licensed: () => this.options.licensed ?? true,
      conforms: (schema, value) => {
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
      const decision = decide(this.options.program, this.context, command, facts);
      if (!("need" in decision)) return decision;
      if (decision.need.kind === "undo") {
        const undo = this.undo.filter(({ state, action }) => state === "owed" && action !== undefined).at(-1) ?? null;
        facts = { ...facts, undo };
      } else {
        const { name } = decision.need;
        facts = { ...facts, signal: this.signals.find((signal) => signal.name === name && !signal.consumed) ?? null };
      }
    }
  }

  private commit(effects: readonly Effect[]): void {
    this.commits++;
    this.released = effects;
    for (const effect of effects) this.apply(effect);
    if (this.options.reload) this.reload();
  }

  private reload(): void {
    const { context } = this;
    const stored = JSON.parse(
      JSON.stringify({
        identity: context.run,
        state: context.state,
        currentStep: context.step,
        requiresManualReview: context.requiresManualReview,
        record: encodeRecord(context),
        call: context.call,
        variables: context.variables,
        output: context.output,
      }),
    );
    this.actor.stop();
    this.actor = startActor(this.options.program, decodeRun(stored));
  }

  private apply(effect: Effect): void {
    switch (effect.kind) {
      case "dispatch.request":
        this.queued.set(effect.dispatchId, effect);
        break;
      case "dispatch.send":
        this.dispatches.set(effect.dispatch.dispatchId, effect.dispatch);
        this.sent.push(effect.dispatch);
        break;
      case "dispatch.cancel":
        this.cancelled.push(effect.dispatchId);
        break;
      case "dispatch.resolved":
        this.queued.delete(effect.dispatchId);
        this.dispatches.delete(effect.dispatchId);
        break;
      case "signal.recorded":
        this.signals.push({ id: effect.id, name: effect.name, payload: effect.payload, consumed: effect.consumed });
        break;
      case "signal.consumed":
        for (const signal of this.signals) if (signal.id === effect.id) signal.consumed = true;
        break;
      case "undo.owed":
        this.undo.push({ ...effect.entry, ordinal: String(this.undo.length + 1), state: "owed" });
        break;
      case "undo.settled":
        for (const entry of this.undo) if (entry.ordinal === effect.ordinal) entry.state = effect.state;
        break;
      case "undo.passed":
        for (const entry of this.undo) if (entry.action === undefined) entry.state = "passed";
        break;
    }
  }
}
