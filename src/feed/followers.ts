// Those who only want to know how far a run has come: requests that wait for its end or for a later audit row. They get no events,
// so an event need not be made for them, and a look at the store is one statement for all of them.

import type { Sql } from "postgres";
import { isTerminal, type RunContext, type RunId, type RunState } from "../../machines/index.js";
import { nextTurn, setImmediate } from "../ambient.js";
import type { Logger } from "../log.js";

/** How far a run has come. */
export interface Head {
  readonly seq: number;
  readonly terminal: boolean;
  /** There is no such run any more. */
  readonly gone?: true;
  /** The run as it was committed there, where this process made the commit. */
  readonly committed?: CommittedRun;
}

export interface CommittedRun {
  readonly context: RunContext;
  /** Epoch milliseconds: the time of the audit row. */
  readonly at: number;
}

/** The run has an event that led to this state. */
interface Reached extends Pick<Head, "seq" | "committed"> {
  readonly state: string;
}

/** May be called with the same head more than once. */
export type OnHead = (head: Head) => void;

const GONE: Head = { seq: 0, terminal: true, gone: true };

export class Followers {
  private readonly following = new Map<RunId, Set<OnHead>>();
  /** Runs that began here in this turn of the event loop. A follower that comes now has missed nothing else. */
  private readonly begun = new Map<RunId, Head>();
  /** Runs whose row is to be read. */
  private readonly unsure = new Set<RunId>();
  private looking: Promise<void> | undefined;

  constructor(
    private readonly sql: Sql,
    private readonly log: Logger,
  ) {}

  has(runId: RunId): boolean {
    return this.following.has(runId);
  }

  runs(): Iterable<RunId> {
    return this.following.keys();
  }

  /** `isOurs`: the run is committed by this process, so that each of its commits is heard of, and a run that just began need not be looked at. */
  add(runId: RunId, onHead: OnHead, isOurs: boolean): void {
    const known = this.following.get(runId);
    if (known) known.add(onHead);
    else this.following.set(runId, new Set([onHead]));
    const head = isOurs ? this.begun.get(runId) : undefined;
    if (!head) return this.look(runId);
    queueMicrotask(() => {
      if (this.following.get(runId)?.has(onHead)) onHead(head);
    });
  }

  /** Whether it followed the run. */
  remove(runId: RunId, onHead: OnHead): boolean {
    const known = this.following.get(runId);
    if (!known?.delete(onHead)) return false;
    if (known.size === 0) this.following.delete(runId);
    return true;
  }

  /** The run began here: with its first commit it has come this far. */
  began(runId: RunId, reached: Reached): void {
    if (this.begun.size === 0) setImmediate(() => this.begun.clear());
    this.begun.set(runId, headOf(reached));
    this.reached(runId, reached);
  }

  reached(runId: RunId, reached: Reached): void {
    const followers = this.following.get(runId);
    if (followers) this.tell(followers, headOf(reached));
  }

  /** The run may have come further: its row is read soon. Never throws. */
  look(runId: RunId): void {
    if (!this.following.has(runId)) return;
    this.unsure.add(runId);
    this.looking ??= this.lookAtAll()
      .catch((error: unknown) =>
        this.log.warn({ err: String(error) }, "reading followed runs failed, the poll reads them"),
      )
      .finally(() => {
        this.looking = undefined;
      });
  }

  /** Resolves when no row is being read. */
  async idle(): Promise<void> {
    await this.looking;
  }

  clear(): void {
    this.following.clear();
    this.begun.clear();
    this.unsure.clear();
  }

  private async lookAtAll(): Promise<void> {
    // The requests of one turn of the event loop share a look.
    await nextTurn();
    while (this.unsure.size > 0) {
      const ids = [...this.unsure];
      this.unsure.clear();
      const rows = await this.sql<(Head & { id: RunId })[]>`
        select id, last_seq as seq, terminal_at is not null as terminal from runs where id = any(${ids}::text[]::uuid[])`;
      const heads = new Map(rows.map(({ id, ...head }) => [id, head]));
      for (const id of ids) this.tell(this.following.get(id) ?? [], heads.get(id) ?? GONE);
    }
  }

  /** A follower may leave when it is told. */
  private tell(followers: Iterable<OnHead>, head: Head): void {
    for (const onHead of [...followers]) onHead(head);
  }
}

function headOf({ state, ...reached }: Reached): Head {
  return { ...reached, terminal: isTerminal(state as RunState) };
}
