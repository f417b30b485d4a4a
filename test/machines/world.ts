// The outside of simulated runs: the clock, the order of moves, messages on their way, and the faults of commits. What commits do is the
// memory store's matter (machines/memory); the world has views of its tables for tests, and says what no machine must write.

import {
  type Answer,
  type AuditEvent,
  asRunId,
  type Fetched,
  forkFault,
  isTerminal,
  type Json,
  type JsonObject,
  type Need,
  type NewChild,
  type OpenedTask,
  type Program,
  type PublishedEvent,
  type Row,
  type RunCommand,
  type RunCommit,
  type RunContext,
  type RunId,
  type Send,
  type SentCommand,
  STANDARD_RUN_LIMITS,
  type UndoEntry,
  versionFact,
  type Write,
  wakeAt,
} from "../../machines/index.js";
import { type CarriedOut, commitOf } from "../../machines/memory/commit.js";
import { isFree, undoEntry } from "../../machines/memory/facts.js";
import { MemoryStore } from "../../machines/memory/store.js";
import { keyOf } from "../../machines/memory/tables.js";

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
  readonly ended: boolean;
  /** The next move of the run itself. Undefined: it has ended, or waits for the clock or another run. */
  readonly nextMove: (() => void) | undefined;
  obey(command: RunCommand, id?: string): Answer | undefined;
  reload(): void;
  startChild(runId: RunId, program: Program): void;
}

export type OwnedUndo = UndoEntry & { ordinal: string; owner: string; state: string };
export type KeptTask = OpenedTask & { state: "open" | "submitted" | "closed"; result?: JsonObject; by?: string };

/** One transition as it was committed. */
export interface CommittedBy<Run> {
  readonly run: Run;
  /** The label of its edge. */
  readonly edge: string;
  readonly rows: readonly AuditEvent[];
  readonly writes: readonly Write[];
  readonly sends: readonly Send[];
  readonly context: RunContext;
  /** The program of the version that the run is of afterwards. */
  readonly program: Program;
}

/** Faults of commits, and the moves of others around them. */
export interface FaultsOf<Run> {
  /** Other runs may move here. False: the commit is lost before it is written. */
  beforeCommit(run: Run): boolean;
  /** False: the commit is written, but its node does not learn that, and lets nothing out. */
  afterCommit(run: Run): boolean;
}

/** A commit that the store was given. */
export interface Tried {
  /** Absent: a run starts from outside. */
  readonly done?: CarriedOut;
  readonly commit: RunCommit;
  readonly won: boolean;
}

export class WorldOf<Run extends WorldRun> {
  now = START;
  /** Events come in pages of two, so that a scan needs several. */
  readonly store = new MemoryStore(this, { limits: STANDARD_RUN_LIMITS, page: 2 });
  /** In the order of their creation. */
  readonly runs = new Map<string, Run>();
  /** Every message that was ever sent. */
  readonly sent: SentCommand[] = [];
  private readonly seen = new Set<string>();
  /** Every transition of every run, in the order of their commits. */
  readonly history: CommittedBy<Run>[] = [];
  /** Chooses among the possible moves; the first by default. */
  choose: (count: number) => number = () => 0;
  /** A move is one commit. Otherwise a run goes on until it needs another run or the outside. */
  stepwise = false;
  faults: FaultsOf<Run> | undefined;
  private isMoving = false;

  /** `watch` sees every commit. */
  constructor(private readonly watch: (tried: Tried) => void = () => {}) {}

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

  get ended(): boolean {
    return [...this.runs.values()].every(({ context }) => isTerminal(context.state));
  }

  // ---- Commits

  start(commit: RunCommit): void {
    const won = this.store.commit(commit);
    this.watch({ commit, won });
    if (!won) throw new Error(`the run ${commit.runId} was not started`);
  }

  /** False: the commit was lost. */
  commit(runId: RunId, done: CarriedOut, writes: readonly Write[]): boolean {
    const { store } = this;
    const mistakes = this.mistakes(runId, writes);
    const commit = commitOf(done, store.newFence);
    const won = store.commit(commit);
    this.watch({ done, commit, won });
    if (won && mistakes.length > 0) throw new Error(`${runId}: ${mistakes.join("; ")}`);
    return won;
  }

  committed(run: Run, transitions: readonly CommittedBy<Run>[], writes: readonly Write[]): void {
    this.history.push(...transitions);
    for (const { to, row } of writes) if (to === "new_run") this.startChild(run, row);
    if (!this.isMoving) this.tell();
  }

  /**
   * The commits of one move, after which the store sends its own messages: however many commits a move is made of, all messages have the same
   * order, and so the world has the same choices.
   */
  together<T>(move: () => T): T {
    if (this.isMoving) return move();
    this.isMoving = true;
    try {
      return move();
    } finally {
      this.isMoving = false;
      this.tell();
    }
  }

  /** The store's own messages; a message may be late. */
  private tell(): void {
    this.store.announce();
    this.store.grantSlots();
    this.store.giveTurns();
    for (const message of this.inbox) {
      if (this.seen.has(message.id)) continue;
      this.seen.add(message.id);
      this.sent.push(message);
    }
  }

  private startChild(parent: Run, { identity: { id, definitionId } }: NewChild): void {
    const isOwn = definitionId === parent.context.run.definitionId;
    const program = isOwn ? parent.program : parent.options.workflows?.[definitionId];
    if (!program) throw new Error(`there is no program ${definitionId}`);
    parent.startChild(id, program);
  }

  /** What no machine must write, though the store takes it: rows that are there already, and the removal of rows that are not. */
  private mistakes(runId: RunId, writes: readonly Write[]): string[] {
    const { event_waits, concurrency_tickets, user_tasks, events, runs } = this.store.tables;
    const written = new Set<string>();
    return writes.flatMap(({ to, row }): string[] => {
      const isWritten = (relation: Write["to"], key: string) => written.has(`${relation}/${key}`);
      const ticket = to === "ticket" || to === "ticket_gone" ? keyOf(runId, row.entry) : "";
      if (to === "event_wait") written.add(`event_wait/${runId}`);
      if (to === "ticket") written.add(`ticket/${ticket}`);
      const wrong =
        (to === "event_wait_gone" && !event_waits.has(runId) && !isWritten("event_wait", runId)) ||
        (to === "ticket" && concurrency_tickets.has(ticket)) ||
        (to === "ticket_gone" && !concurrency_tickets.has(ticket) && !isWritten("ticket", ticket)) ||
        (to === "opened_task" && user_tasks.has(row.id)) ||
        (to === "closed_task" && !isOpen(user_tasks.get(row.id))) ||
        (to === "published_event" && events.has(row.id)) ||
        (to === "new_run" && runs.has(row.identity.id));
      return wrong ? [`the row of ${to} cannot be: ${JSON.stringify(row)}`] : [];
    });
  }

  /** An event from outside. Waiting runs are offered it in a message that may be late. */
  publish(event: PublishedEvent): void {
    if (this.store.tables.events.has(event.id)) throw new Error(`the event ${event.id} was published twice`);
    this.store.publish(event);
    this.tell();
  }

  // ---- Facts

  fetch(asking: Run, need: Need): Fetched {
    switch (need.kind) {
      case "workflow":
        return { workflow: this.workflow(asking, need.workflowId) };
      case "output_schema":
        return { outputSchema: null };
      case "schema":
        return {};
      case "version": {
        const program = asking.options.versions?.[need.version];
        const isOurs = program?.workflowId === asking.program.workflowId;
        const published = isOurs && { definitionId: `version-${need.version}`, program };
        return { version: published ? versionFact(asking.program, published) : null };
      }
      default:
        return this.store.fetch(asking.context.run, need);
    }
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
      forkFault: (step) => forkFault(program, step),
      enters: (entry) => entry === "" || Object.hasOwn(program.entrypoints, entry),
    };
  }

  // ---- Views of the store, for tests

  childrenOf(runId: RunId): Run[] {
    return [...this.runs.values()].filter(({ context }) => context.run.parentRunId === runId);
  }

  get inbox(): SentCommand[] {
    const rows = [...this.store.tables.inbox];
    return rows.map(({ id, run_id, command }) => ({ id, to: asRunId(run_id), command: command as RunCommand }));
  }

  get signals() {
    return [...this.store.tables.signals].map(({ id, run_id, name, payload, promised_to, consumed_at }) => ({
      ...{ id, runId: asRunId(run_id), name, payload: payload as Json, consumed: consumed_at !== undefined },
      promisedTo: promised_to,
    }));
  }

  /** Neither consumed nor promised to a run that has not ended. */
  isFree({ id }: { readonly id: string }): boolean {
    const signal = this.store.tables.signals.get(id);
    return signal !== undefined && isFree(this.store.tables, signal);
  }

  get undo(): OwnedUndo[] {
    const rows = [...this.store.tables.undo];
    return rows.map((row) => ({ ...undoEntry(row), ordinal: String(row.ordinal), owner: row.owner, state: row.state }));
  }

  tasksOf(runId: RunId): KeptTask[] {
    const rows = [...this.store.tables.user_tasks].filter(({ run_id }) => run_id === runId);
    return rows.map(({ id, step_id: stepId, assignee, title, due_at: dueAt, form_schema: formSchema, ...end }) => {
      const optional = Object.entries({ title, dueAt, formSchema }).filter(([, value]) => value !== undefined);
      const task = { id, stepId, assignee, ...Object.fromEntries(optional) };
      if (end.submitted_at === undefined) return { ...task, state: end.closed_at === undefined ? "open" : "closed" };
      return { ...task, state: "submitted", result: end.result as JsonObject, by: end.submitted_by };
    });
  }

  /** The recorded answers of commands, by their ids. */
  get answers(): ReadonlyMap<string, Answer> {
    const rows = [...this.store.tables.run_commands];
    return new Map(rows.map(({ command_id, answer }) => [command_id, answer as Answer]));
  }

  /** In the order of their publication. */
  get events(): PublishedEvent[] {
    return [...this.store.tables.events].map(({ id, topic, headers, payload, tenant_id: tenantId }) => ({
      ...{ id, topic, headers: headers as PublishedEvent["headers"], payload: payload as Json },
      ...(tenantId !== undefined && { tenantId }),
    }));
  }

  /** `run/event` of the events that were consumed. */
  get taken(): ReadonlySet<string> {
    return new Set([...this.store.tables.event_takes].map(({ run_id, event_id }) => `${run_id}/${event_id}`));
  }

  /** The waits for events, by run. */
  get waits(): ReadonlyMap<string, Row<"event_wait">> {
    return new Map([...this.store.tables.event_waits].map((row) => [row.run_id, row]));
  }

  /** The tickets for slots, in the order in which they were asked for. */
  get tickets() {
    return [...this.store.tables.concurrency_tickets].map((row) => ({ row, granted: row.granted }));
  }
}

const isOpen = (task: { readonly closed_at: number | undefined } | undefined) =>
  task !== undefined && task.closed_at === undefined;
