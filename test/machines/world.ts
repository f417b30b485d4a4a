// The world of a simulation, in place of the store: signals, undo lists, the inbox, stored scopes, parents and children. It is derived from
// the writes of commits only, and gives decisions their facts.

import {
  type Answer,
  type AuditEvent,
  asRunId,
  type EndedChild,
  type EventConditions,
  type Fetched,
  isTerminal,
  type Json,
  type JsonObject,
  type Need,
  type NewChild,
  newRun,
  type Program,
  type PublishedEvent,
  pausedReason,
  type Row,
  type RunCommand,
  type RunContext,
  type RunId,
  type Send,
  type SentCommand,
  type UndoEntry,
  versionFact,
  type Write,
  wakeAt,
} from "../../machines/index.js";

export type TaskWrite = Extract<Write, { to: "opened_task" | "closed_task" }>;

export const START = 1_700_000_000_000;

/** A run as its world sees it. */
export interface WorldRun {
  readonly id: RunId;
  readonly context: RunContext;
  readonly program: Program;
  readonly options: {
    readonly workflows?: Readonly<Record<string, Program>>;
    readonly versions?: Readonly<Record<number, Program>>;
  };
  readonly rows: readonly AuditEvent[];
  readonly undo: readonly OwnedUndo[];
  readonly ended: boolean;
  /** The next move of the run itself. Undefined: it has ended, or waits for the clock or another run. */
  readonly nextMove: (() => void) | undefined;
  obey(command: RunCommand, id?: string): Answer | undefined;
  reload(): void;
  /** Another run's commit has changed its row: a commit that it is about to make is lost. */
  fence(): void;
  keepTask(write: TaskWrite): void;
  startChild(context: RunContext, program: Program): void;
}

export type OwnedUndo = UndoEntry & { ordinal: string; owner: string; state: string };

/** One transition as it was committed. */
export interface CommittedBy<Run> {
  readonly run: Run;
  /** The label of its edge. */
  readonly edge: string;
  readonly rows: readonly AuditEvent[];
  readonly writes: readonly Write[];
  readonly sends: readonly Send[];
  readonly context: RunContext;
  /** Of the version that the run is of after it. */
  readonly program: Program;
}

/** Faults of commits, and the moves of others around them. */
export interface FaultsOf<Run> {
  /** Other runs may move here. False: the commit is lost before it is written. */
  beforeCommit(run: Run): boolean;
  /** False: the commit is written, but its node does not learn that, and lets nothing out. */
  afterCommit(run: Run): boolean;
}

export class WorldOf<Run extends WorldRun> {
  now = START;
  /** In the order of their creation. */
  readonly runs = new Map<string, Run>();
  readonly signals: {
    id: string;
    runId: RunId;
    name: string;
    payload: Json;
    promisedTo?: RunId;
    consumed: boolean;
  }[] = [];
  /** The runs that were promised a signal and have not moved since. */
  private readonly promised = new Set<string>();
  readonly undo: OwnedUndo[] = [];
  inbox: SentCommand[] = [];
  /** Every message that was ever sent. */
  readonly sent: SentCommand[] = [];
  /** The recorded answers of commands with an id, for repeats. */
  readonly answers = new Map<string, Answer>();
  /** Every transition of every run, in the order of their commits. */
  readonly history: CommittedBy<Run>[] = [];
  /** Runs by the idempotency keys that they were started with. */
  private readonly keys = new Map<string, { id: RunId }>();
  /** In the order of their publication. */
  readonly events: PublishedEvent[] = [];
  /** `run/event` of the events that were consumed. */
  readonly taken = new Set<string>();
  /** The waits for events, as the store has them. */
  readonly waits = new Map<string, Row<"event_wait">>();
  /** The tickets for slots, in the order in which they were asked for. */
  readonly tickets: { readonly row: Row<"ticket">; granted: boolean }[] = [];
  private readonly scopes = new Map<string, JsonObject>();
  /** Chooses among the possible moves; the first by default. */
  choose: (count: number) => number = () => 0;
  /** A move is one commit. Otherwise a run goes on until it needs another run or the outside. */
  stepwise = false;
  faults: FaultsOf<Run> | undefined;

  /** One move: a message is delivered, a run steps, a worker answers, or the clock goes to the next due time. */
  move(): boolean {
    return this.moveNow() || this.elapse();
  }

  /** Makes all moves that need no clock. */
  settle(): void {
    while (this.moveNow());
  }

  private moveNow(): boolean {
    const moves = this.moves();
    const move = moves[this.choose(moves.length)];
    move?.();
    return move !== undefined;
  }

  /** Moves until nothing can. */
  drain(limit: number): void {
    for (let moves = 0; moves < limit && !this.ended; moves++) if (!this.move()) return;
  }

  moves(): (() => void)[] {
    const runs = [...this.runs.values()].map((run) => run.nextMove).filter((move) => move !== undefined);
    return [...this.inbox.map((message) => () => this.deliver(message)), ...runs];
  }

  elapse(): boolean {
    const due = [...this.runs.values()].flatMap((run) => {
      const wake = wakeAt(run.context);
      return typeof wake === "number" ? [{ run, wake }] : [];
    });
    const [first] = due.sort((left, right) => left.wake - right.wake);
    if (!first) return false;
    this.now = Math.max(this.now, first.wake);
    first.run.obey({ type: "advance" });
    return true;
  }

  /** The commit of the answer deletes the inbox row. */
  deliver({ to, id, command }: SentCommand): void {
    this.runs.get(to)?.obey(command, id);
  }

  /** The node dies, and everything in memory is lost. */
  crash(): void {
    for (const run of this.runs.values()) run.reload();
  }

  /** Whether the signals are still unconsumed, and the runs that are promised one still wait for it. If not, the commit is lost. */
  canClaim(writes: readonly Write[]): boolean {
    return writes.every(({ to, row }) => {
      if (to === "signal_claim") return this.signals.some(({ id, consumed }) => id === row.id && !consumed);
      if (to !== "promise") return true;
      const waiter = this.runs.get(row.waiter);
      return waiter !== undefined && this.isFreeFor(waiter, row.name);
    });
  }

  childrenOf(runId: RunId): Run[] {
    return [...this.runs.values()].filter(({ context }) => context.run.parentRunId === runId);
  }

  fetch(asking: Run, need: Need): Fetched {
    const { run } = asking.context;
    switch (need.kind) {
      case "signal":
        return { signal: this.signalFor(run, need.name) };
      case "events":
        return { events: this.eventsFor(run, need) };
      case "moment":
        return { moment: String(this.events.length) };
      case "undo": {
        const { since } = need;
        const owed = asking.undo.filter(({ state, action }) => state === "owed" && action !== undefined);
        const newest = owed
          .filter(({ entry }) => entry > since)
          .sort(byOrdinal)
          .at(-1);
        return { undo: { since, newest: newest ?? null } };
      }
      case "ended":
        return { ended: this.endedChildren(run.id, need) };
      case "living":
        return {
          living: this.childrenOf(run.id)
            .filter((child) => !child.ended && (child.context.run.parentEntry ?? 0) >= need.from)
            .map(({ id }) => id),
        };
      case "workflow":
        return { workflow: this.workflow(asking, need.workflowId) };
      case "target":
        return { target: this.runs.has(need.runId) ? { id: need.runId } : null };
      case "waiter":
        return { waiter: this.waiting(run.id, need.name)[this.unconsumed(run.id, need.name).length] ?? null };
      case "unmatched": {
        const waiting = this.waiting(run.id, need.name);
        const signals = this.unconsumed(run.id, need.name);
        const pairs = waiting.map(({ id: waiter }, nth) => ({ signalId: signals[nth]?.id ?? "", waiter }));
        return { unmatched: pairs.slice(0, signals.length) };
      }
      case "kept_signals":
        return { keptSignals: this.signals.filter(({ runId, consumed }) => runId === run.id && !consumed).length };
      case "startup":
        return { startup: this.runs.get(need.runId)?.context.run.startup ?? {} };
      case "output_schema":
        return { outputSchema: null };
      case "keyed_run":
        return { keyedRun: this.keys.get(need.key) ?? null };
      case "version": {
        const program = asking.options.versions?.[need.version];
        const isOurs = program?.workflowId === asking.program.workflowId;
        const published = isOurs && { definitionId: `version-${need.version}`, program };
        return { version: published ? versionFact(asking.program, published) : null };
      }
    }
  }

  /** Pages of two, so that a scan needs several. */
  private eventsFor(
    { id, tenantId }: RunContext["run"],
    { topic, headers, since = "0", after = since, named }: Extract<Need, { kind: "events" }>,
  ): Fetched["events"] {
    const may = this.events
      .map((event, index) => ({ ...event, ordinal: String(index + 1) }))
      .filter((event) => event.topic === topic && bears(event, headers) && Number(event.ordinal) > Number(since))
      .filter((event) => event.tenantId === undefined || event.tenantId === tenantId)
      .filter((event) => !this.taken.has(`${id}/${event.id}`));
    const above = may.filter(({ ordinal }) => Number(ordinal) > Number(after));
    const page = may.filter((event) => event.id === named || above.slice(0, 2).includes(event));
    return { page, more: above.length > 2 };
  }

  /** As the announcer does: offers the event to the runs that wait now, in a message that may be late. */
  publish(event: PublishedEvent): void {
    if (this.events.some(({ id }) => id === event.id)) throw new Error(`the event ${event.id} was published twice`);
    this.events.push(event);
    for (const [runId, { topic, headers, conditions }] of this.waits) {
      if (topic !== event.topic || !bears(event, headers as PublishedEvent["headers"])) continue;
      if (!meets(event, conditions as EventConditions | undefined)) continue;
      const command = { type: "event", eventId: event.id } as const;
      this.inbox.push({ to: asRunId(runId), id: `${event.id}/${runId}`, command });
    }
  }

  private endedChildren(runId: RunId, { entry, child }: Extract<Need, { kind: "ended" }>): EndedChild[] {
    const ended = this.childrenOf(runId).filter(
      ({ id, ended, context }) => ended && context.run.parentEntry === entry && (child === undefined || id === child),
    );
    return ended
      .map(({ context }): EndedChild => {
        const { state, output = null, ending, run } = context;
        const error = ending?.error ?? { code: "cancelled", message: ending?.reason ?? "" };
        return {
          branch: run.parentBranchId ?? "",
          state: state as EndedChild["state"],
          output,
          ...(state !== "succeeded" && { error }),
        };
      })
      .sort((left, right) => left.branch.length - right.branch.length || (left.branch < right.branch ? -1 : 1));
  }

  private workflow({ options }: Run, workflowId: string): Fetched["workflow"] {
    const program = options.workflows?.[workflowId];
    if (!program) return null;
    const { version, timeoutMs, inputSchema } = program;
    return {
      workflowId,
      version,
      definitionId: workflowId,
      timeoutMs,
      inputSchema,
      enters: (entry) => entry === "" || Object.hasOwn(program.entrypoints, entry),
    };
  }

  /** The signal that the run was promised, or the oldest one that it may take. */
  private signalFor({ id, family = [] }: RunContext["run"], wanted: string): Fetched["signal"] {
    const seen = this.signals.filter(
      ({ runId, name, consumed }) => !consumed && name === wanted && (runId === id || family.includes(runId)),
    );
    const promised = seen.find(({ promisedTo }) => promisedTo === id);
    return promised ? { ...promised, promised: true } : (seen.find((signal) => this.isFree(signal)) ?? null);
  }

  /** Neither consumed nor promised. A promise to a run that has ended is void. */
  isFree({ consumed, promisedTo }: WorldOf<Run>["signals"][number]): boolean {
    return !consumed && (promisedTo === undefined || (this.runs.get(promisedTo)?.ended ?? true));
  }

  private unconsumed(of: string, wanted: string) {
    return this.signals.filter((signal) => this.isFree(signal) && signal.runId === of && signal.name === wanted);
  }

  private isFreeFor({ id, context }: Run, name: string): boolean {
    const { wait } = context;
    const waits = pausedReason(context) === "signal" && wait?.kind === "signal" && wait.name === name;
    return waits && !this.promised.has(id);
  }

  /** Those that have waited longest first. */
  private waiting(runId: RunId, name: string): { id: RunId }[] {
    const waiting = [...this.runs.values()].filter(
      (waiter) =>
        waiter.context.run.family?.includes(runId) &&
        this.isFreeFor(waiter, name) &&
        !this.inbox.some(({ to, command }) => command.type === "cancel" && isPartOf(waiter.context, to)),
    );
    return waiting.sort((left, right) => (left.rows.at(-1)?.at ?? 0) - (right.rows.at(-1)?.at ?? 0));
  }

  /** A message is carried out, or had been before its repeat. */
  done(messageId: string): void {
    this.inbox = this.inbox.filter(({ id }) => id !== messageId);
  }

  /** Applies the writes of a commit of the run. */
  commit(
    committing: Run,
    transitions: readonly CommittedBy<Run>[],
    writes: readonly Write[],
    about: { id: string; answer: Answer } | undefined,
  ): void {
    this.history.push(...transitions);
    if (transitions.length > 0) this.promised.delete(committing.id);
    if (about) {
      this.answers.set(about.id, about.answer);
      this.done(about.id);
    }
    for (const write of writes) this.apply(committing, write);
  }

  private apply(committing: Run, write: Write): void {
    const { id: owner } = committing;
    switch (write.to) {
      case "signal": {
        const { id, name, payload, promised_to, consumed } = write.row;
        const promisedTo = promised_to === undefined ? undefined : asRunId(promised_to);
        this.signals.push({ id, runId: owner, name, payload: payload as Json, promisedTo, consumed });
        break;
      }
      case "promise":
        this.promised.add(write.row.waiter);
        this.runs.get(write.row.waiter)?.fence();
        break;
      case "signal_claim": {
        const signal = this.signals.find(({ id }) => id === write.row.id);
        if (!signal || signal.consumed) throw new Error(`the signal ${write.row.id} was taken twice`);
        signal.consumed = true;
        break;
      }
      case "opened_task":
      case "closed_task":
        committing.keepTask(write);
        break;
      case "published_event": {
        const { id, tenant_id, topic, headers, payload } = write.row;
        const about = { headers: headers as PublishedEvent["headers"], payload: payload as Json };
        this.publish({ id, topic, ...about, ...(tenant_id !== undefined && { tenantId: tenant_id }) });
        break;
      }
      case "event_claim": {
        const taken = `${owner}/${write.row.event_id}`;
        if (this.taken.has(taken)) throw new Error(`${owner} has taken ${write.row.event_id} twice`);
        this.taken.add(taken);
        break;
      }
      case "event_wait":
        this.waits.set(owner, write.row);
        break;
      case "event_wait_gone":
        if (!this.waits.delete(owner)) throw new Error(`${owner} left a wait that it was not in`);
        break;
      case "undo_entry":
        this.undo.push({ ...undoOf(write.row), ordinal: String(this.undo.length + 1), owner, state: "owed" });
        break;
      case "undo_settled":
        for (const entry of this.undo) if (entry.ordinal === write.row.ordinal) entry.state = write.row.state;
        break;
      case "undo_passed": {
        const { every, since } = write.row;
        for (const entry of committing.undo)
          if (entry.state === "owed" && (every || (entry.action === undefined && entry.entry > since)))
            entry.state = "passed";
        break;
      }
      case "undo_handed": {
        const { heir, entry } = write.row;
        for (const one of this.undo)
          if (one.owner === owner && one.state === "owed")
            Object.assign(one, { owner: heir, entry, childRunId: one.childRunId ?? owner });
        break;
      }
      case "scope":
        this.scopes.set(`${owner}/${write.row.entry}`, write.row.variables);
        break;
      case "new_run":
        this.birth(committing, write.row);
        break;
      case "ticket":
        if (this.ticketOf(owner, write.row.entry)) throw new Error(`${owner} asked twice for the same slot`);
        this.tickets.push({ row: write.row, granted: false });
        this.grant();
        break;
      case "ticket_gone": {
        const ticket = this.ticketOf(owner, write.row.entry);
        if (!ticket) throw new Error(`${owner} gave back a slot that it did not ask for`);
        this.tickets.splice(this.tickets.indexOf(ticket), 1);
        this.grant();
        break;
      }
      case "inbox_row": {
        const { id, run_id, command } = write.row;
        const message = { id, to: asRunId(run_id), command: command as RunCommand };
        this.sent.push(message);
        if (!this.inbox.some((other) => other.id === id)) this.inbox.push(message);
        break;
      }
    }
  }

  private ticketOf(owner: RunId, entry: number) {
    return this.tickets.find(({ row }) => row.run_id === owner && row.entry === entry);
  }

  /** As the store does: those that have waited longest first, while fewer are granted than the limit of a key. */
  private grant(): void {
    for (const ticket of this.tickets) {
      const { row } = ticket;
      const sharing = this.tickets.filter((other) => isSameKey(other.row, row));
      if (ticket.granted || sharing.filter(({ granted }) => granted).length >= row.slot_limit) continue;
      ticket.granted = true;
      const command = { type: "slot_granted", entry: row.entry } as const;
      const message: SentCommand = { id: `slot/${this.sent.length}`, to: asRunId(row.run_id), command };
      this.sent.push(message);
      this.inbox.push(message);
    }
  }

  private birth(parent: Run, { identity, variables, variablesSize, idempotencyKey }: NewChild): void {
    if (idempotencyKey !== undefined) this.keys.set(idempotencyKey, { id: identity.id });
    if (this.runs.has(identity.id)) throw new Error(`the run ${identity.id} was created twice`);
    const kept = this.scopes.get(`${identity.parentRunId}/${identity.parentEntry}`);
    const context = newRun(identity, variables ?? kept ?? {}, variables && variablesSize);
    const program =
      identity.definitionId === parent.context.run.definitionId
        ? parent.program
        : parent.options.workflows?.[identity.definitionId];
    if (!program) throw new Error(`there is no program ${identity.definitionId}`);
    parent.startChild(context, program);
  }

  get ended(): boolean {
    return [...this.runs.values()].every(({ context }) => isTerminal(context.state));
  }
}

function undoOf({ step_id, entry, action, inputs, forward_key, child_run_id }: Row<"undo_entry">): UndoEntry {
  return {
    ...{ stepId: step_id, entry, action, forwardIdempotencyKey: forward_key },
    ...(inputs !== undefined && { inputs: inputs as JsonObject }),
    ...(child_run_id !== undefined && { childRunId: asRunId(child_run_id) }),
  };
}

const isPartOf = ({ run }: RunContext, other: string) =>
  run.id === other || (run.family?.includes(asRunId(other)) ?? false);

/** The store compares as JSON what is at a path; where nothing is, it finds null. */
export function meets(
  event: Pick<PublishedEvent, "headers" | "payload">,
  conditions: EventConditions | undefined,
): boolean {
  const at = (path: string) =>
    (JSON.parse(path) as string[]).reduce<unknown>((value, name) => memberOf(value, name), event) ?? null;
  return Object.entries(conditions?.equal ?? {}).every(([path, value]) => at(path) === value);
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;

function bears(event: PublishedEvent, headers: Readonly<Record<string, string>>): boolean {
  return Object.entries(headers).every(([name, value]) => event.headers[name] === value);
}

function byOrdinal(left: { ordinal: string }, right: { ordinal: string }): number {
  return Number(left.ordinal) - Number(right.ordinal);
}

const isSameKey = (one: Row<"ticket">, other: Row<"ticket">) =>
  one.tenant_id === other.tenant_id && one.scope === other.scope && one.key === other.key;
