// A rehearsal: one workflow run, with its whole family, on the machine alone. It says who moves next, plays the outside by the
// mocks, and turns the clock. Not the runtime: nothing is stored, nothing is sent, and there is no other clock than its own.
import type { AuditEvent } from "../audit.js";
import { isReady, type RunContext, type RunIdentity, type Wait, wakeAt } from "../context.js";
import type { Effect, NewChild } from "../effects.js";
import type { ActionFact, Facts, Fetched, Need } from "../facts.js";
import { measure } from "../json.js";
import { STANDARD_RUN_LIMITS } from "../limits.js";
import type { Program } from "../program.js";
import { newRun } from "../record.js";
import { formatInstant } from "../time.js";
import { type Child, childOf, StandIn } from "./child.js";
import { Memory, type Message } from "./memory.js";
import { Script } from "./mocks.js";
import { awaited, Outside } from "./outside.js";
import type { Move, RehearsalOptions, Rehearsed, RehearsedEvent, WantedWorkflow } from "./rehearsed.js";
import { RehearsedRun } from "./run.js";

const MOST_MOVES = 10_000;
const MOST_TIME_MS = 100 * 366 * 86_400_000;
/** Characters of variables, outputs and events: about 64 MiB. */
const MOST_KEPT = 64 * 1_048_576;
const DUE_ALONE: ReadonlySet<string> = new Set(["timer", "backoff"]);

/** Thrown while a decision is made, before anything has changed; never leaves `move`. */
class Lacking {
  constructor(readonly workflow: WantedWorkflow) {}
}

const keyOf = ({ workflowId, version }: WantedWorkflow) => `${workflowId}@${version ?? ""}`;

export class Rehearsal {
  private now: number;
  private moves = 0;
  private kept = 0;
  private left?: string;
  private readonly memory: Memory;
  private readonly script: Script;
  private readonly outside: Outside;
  private readonly root: RehearsedRun;
  private readonly living = new Set<RehearsedRun>();
  private readonly standIns = new Map<string, StandIn>();
  private readonly workflows = new Map<string, Program | null>();
  private readonly programs = new Map<string, Program>();
  private readonly ids = new Map<string, string>();
  private readonly events: RehearsedEvent[] = [];

  constructor(
    private readonly program: Program,
    private readonly options: RehearsalOptions,
  ) {
    const { startAt, mocks = {}, limits = STANDARD_RUN_LIMITS } = options;
    this.now = startAt;
    this.script = new Script(mocks, program.workflowId);
    this.outside = new Outside(
      this.script,
      (id) => this.memory.runs.get(id)?.program.workflowId,
      (event) => this.memory.publish(event),
    );
    this.memory = new Memory(() => this.children(), limits.output);
    this.root = this.born(this.first(), program);
  }

  private first(): RunContext {
    const { workflowId, version, timeoutMs } = this.program;
    const { inputs = {}, entrypoint = "", tenantId, dryRun = false, features = {} } = this.options;
    const definitionId = this.known(this.program);
    const expires = timeoutMs === undefined ? {} : { expiresAt: this.now + timeoutMs };
    return newRun(
      {
        ...{ id: this.uuid("run"), workflowId, version, definitionId, tenantId, dryRun, features, inputs, entrypoint },
        ...{ startedAt: this.now, ...expires },
      },
      {},
    );
  }

  /** Tells of a workflow that was lacking; null: there is none. */
  provide(wanted: WantedWorkflow, program: Program | null): void {
    this.workflows.set(keyOf(wanted), program);
    if (program) this.known(program);
  }

  /** One move of one run, or of the clock. */
  move(): Move {
    if (this.root.ended || this.left !== undefined) return "over";
    this.left = this.bound();
    const next = this.left === undefined ? this.next() : undefined;
    if (!next) {
      this.left ??= this.stuck();
      return "over";
    }
    try {
      next();
      this.moves++;
      return "moved";
    } catch (thrown) {
      if (thrown instanceof Lacking) return { lacks: thrown.workflow };
      throw thrown;
    }
  }

  get result(): Rehearsed {
    const { state, output, variables, ending, requiresManualReview } = this.root.context;
    return {
      state,
      ...(output !== undefined && { output }),
      variables,
      ...(ending?.error && { error: ending.error }),
      requires_manual_review: requiresManualReview,
      events: this.events,
      ...(this.left !== undefined && { left: this.left }),
    };
  }

  private bound(): string | undefined {
    if (this.moves >= MOST_MOVES) return `it did not end within ${MOST_MOVES} moves`;
    if (this.now - this.options.startAt > MOST_TIME_MS) return "it did not end within a hundred years of its clock";
    if (this.kept > MOST_KEPT) return `its variables, outputs and events are over ${MOST_KEPT} characters of JSON`;
    return undefined;
  }

  private stuck(): string {
    const waits = [...this.living].flatMap(({ context: { step, wait } }) =>
      wait && wait.kind !== "children" ? [`"${step}" (${wait.kind})`] : [],
    );
    return `nobody answers the step ${waits.slice(0, 5).join(", ")}, and it has no timeout`;
  }

  // ---- Who goes next

  private next(): (() => void) | undefined {
    for (const message of this.memory.inbox.values()) return () => this.deliver(message);
    for (const run of this.living) {
      const move = this.moveOf(run);
      if (move) return move;
    }
    return this.timer((wait) => wait !== undefined && DUE_ALONE.has(wait.kind)) ?? this.unmocked() ?? this.timer();
  }

  private moveOf(run: RehearsedRun): (() => void) | undefined {
    const { context } = run;
    const { wait } = context;
    if (context.state === "pending" || isReady(context)) return () => run.command({ type: "advance" });
    if (wait?.kind === "queued") {
      const { dispatchId } = wait;
      return () => run.command({ type: "offer", dispatchId, workerId: "mock" });
    }
    const asksMocks = wait?.kind === "dispatched" || this.isMocked(context.run, context.step);
    return asksMocks ? this.answerFor(run) : undefined;
  }

  /** Where the run waits for somebody outside who has not been found silent. */
  private answerFor(run: RehearsedRun): (() => void) | undefined {
    const asked = awaited(run.context);
    return asked === undefined || asked === run.silent ? undefined : () => this.play(run);
  }

  private unmocked(): (() => void) | undefined {
    for (const run of this.living) {
      const answer = this.answerFor(run);
      if (answer) return answer;
    }
    return undefined;
  }

  /** The clock goes to the first due time, of the waits asked for or of all. */
  private timer(isAsked?: (wait: Wait | undefined) => boolean): (() => void) | undefined {
    let first: { run: RehearsedRun; at: number } | undefined;
    for (const run of this.living) {
      if (isAsked && !isAsked(run.context.wait)) continue;
      const at = wakeAt(run.context);
      if (typeof at === "number" && (!first || at < first.at)) first = { run, at };
    }
    const due = first;
    return (
      due &&
      (() => {
        this.now = Math.max(this.now, due.at);
        due.run.command({ type: "advance" });
      })
    );
  }

  /** The outside answers, or is silent. */
  private play(run: RehearsedRun): void {
    const command = this.outside.answer(run);
    run.silent = command ? undefined : awaited(run.context);
    const answer = command && run.command(command);
    if (answer?.type === "unfit")
      this.left = `the result for the step "${run.context.step}" is not what it asks for: ${answer.problems.slice(0, 5).join("; ")}`;
  }

  private deliver(message: Message): void {
    const { to, command } = message;
    const standIn = this.standIns.get(to);
    if (command.type === "cancel") this.tell(standIn?.cancel());
    this.memory.runs.get(to)?.command(command);
    this.memory.take(message);
  }

  // ---- What runs find around them

  facts(): Facts {
    const { options } = this;
    return {
      limits: options.limits ?? STANDARD_RUN_LIMITS,
      now: this.now,
      random: 0.5,
      uuid: (_, seed) => this.uuid(seed),
      action: (service, name, version) =>
        options.action?.(service, name, version) ?? unregistered(service, name, version),
      rule: (ruleId) => options.rule?.(ruleId),
      licensed: () => true,
      conforms: (schema, value) => options.conforms?.(schema, value) ?? [],
    };
  }

  fetch(run: RehearsedRun, need: Need): Fetched {
    if (need.kind !== "workflow") return this.memory.fetch(run, need);
    const { workflowId, version } = need;
    if (this.isMocked(run.context.run, run.step))
      return { workflow: { workflowId, version: version ?? 1, definitionId: "mock", enters: () => true } };
    const program = this.workflows.get(keyOf(need));
    if (program === undefined) throw new Lacking({ workflowId, ...(version !== undefined && { version }) });
    if (program === null) return { workflow: null };
    const { timeoutMs, inputSchema, entrypoints } = program;
    return {
      workflow: {
        ...{ workflowId, version: program.version, definitionId: this.known(program), timeoutMs, inputSchema },
        enters: (entry) => entry === "" || Object.hasOwn(entrypoints, entry),
      },
    };
  }

  committed(run: RehearsedRun, events: readonly AuditEvent[], effects: readonly Effect[]): void {
    for (const event of events) this.record(run, event);
    for (const effect of effects) {
      this.memory.apply(run.id, effect);
      if (effect.kind === "child.start") this.birth(effect.child, run);
    }
    this.kept += run.weight;
    run.weight = 0;
    if (run.ended) this.living.delete(run);
  }

  private record({ context: { run } }: RehearsedRun, event: AuditEvent): void {
    const { type, stepId, attempt, from, to, actor, metadata, at } = event;
    this.kept += 200 + (metadata ? Number(measure(metadata)) : 0);
    this.events.push({
      ...{ seq: this.events.length + 1, run_id: run.id, workflow_id: run.workflowId },
      ...(stepId !== undefined && { step_id: stepId }),
      ...{ attempt, event_type: type, from_state: from, to_state: to, actor },
      ...(metadata && { metadata }),
      recorded_at: formatInstant(at),
    });
  }

  private birth({ identity, variables, variablesSize }: NewChild, maker: RehearsedRun): void {
    // Nobody waits for a detached run, and nothing of it comes back.
    if (identity.parentRunId === undefined) return;
    if (identity.definitionId === "mock") return this.standIn(identity, maker);
    const program = this.programs.get(identity.definitionId);
    if (!program) throw new Error(`a child is to run ${identity.workflowId}, which is not known`);
    const own = variables ?? this.memory.scope(identity.parentRunId, identity.parentEntry ?? 0);
    this.born(newRun(identity, own, variables && variablesSize), program);
  }

  private born(context: RunContext, program: Program): RehearsedRun {
    const run = new RehearsedRun(program, context, this);
    this.memory.runs.set(run.id, run);
    this.living.add(run);
    const { workflowId: workflow_id, version, entrypoint } = context.run;
    const metadata = { workflow_id, version, entrypoint };
    const at = this.now;
    const started = { type: "saga.started", attempt: 0, from: "pending", to: "pending", metadata, at } as const;
    this.record(run, { ...started, actor: context.run.parentRunId === undefined ? "api" : "coordinator" });
    return run;
  }

  // ---- Mocked sub-sagas

  private isMocked({ workflowId }: RunIdentity, step: string | undefined): boolean {
    return step !== undefined && this.script.has(workflowId, step);
  }

  private standIn(identity: RunIdentity, maker: RehearsedRun): void {
    const mock = this.script.next(maker.context.run.workflowId, identity.parentStepId ?? "");
    const standIn = new StandIn(identity);
    this.standIns.set(identity.id, standIn);
    this.tell(standIn.play(mock));
  }

  /** The parent hears of an end. */
  private tell(message: Omit<Message, "id"> | undefined): void {
    if (message) this.memory.send({ ...message, id: this.uuid(`ended/${this.ids.size}`) });
  }

  private *children(): Generator<Child> {
    for (const run of this.memory.runs.values()) yield childOf(run);
    for (const standIn of this.standIns.values()) yield standIn.child;
  }

  // ---- Names

  private known(program: Program): string {
    const id = keyOf(program);
    this.programs.set(id, program);
    return id;
  }

  /** Ids are numbers in the order in which they were asked for: the same rehearsal has the same ones. */
  private uuid(seed: string): string {
    const known = this.ids.get(seed) ?? `00000000-0000-8000-8000-${(this.ids.size + 1).toString(16).padStart(12, "0")}`;
    this.ids.set(seed, known);
    return known;
  }
}

function unregistered(service: string, name: string, version = 1): ActionFact {
  const schemas = { inputSchema: {}, outputSchema: {} };
  return { service, name, version, transport: "grpc", compensable: false, dryRunSupported: false, ...schemas };
}
