// The memory store and Postgres side by side: every commit goes to both, which must let the same runs win, and all their tables must be equal
// after it. Columns of other processes (leases, tries, the times at which Postgres itself writes) are left out.
import { expect } from "vitest";
import {
  asRunId,
  decodeRun,
  RELATIONS,
  type Relation,
  type Rows,
  type RunCommit,
  type RunContext,
  type RunId,
  type RunIdentity,
  STANDARD_RUN_LIMITS,
  storedRun,
} from "../../machines/index.js";
import type { StoreNeed } from "../../machines/memory/facts.js";
import { MemoryStore } from "../../machines/memory/store.js";
import type { Tables } from "../../machines/memory/tables.js";
import { MAX_KEPT_SIGNALS } from "../../machines/values/limits.js";
import { derivedUuid, isUuid } from "../../src/ids.js";
import { encodeRun } from "../../src/store/engine/commit/encoding.js";
import { PlainStatements } from "../../src/store/engine/commit/plain.js";
import { commitRuns } from "../../src/store/engine/commit/statement.js";
import { scanEvents } from "../../src/store/engine/event-scan.js";
import { sqlStateOf } from "../../src/store/engine/failure.js";
import {
  endedChildren,
  keptSignals,
  livingChildren,
  nextWaiter,
  signalFor,
  startupVariables,
  unmatchedSignals,
} from "../../src/store/engine/family.js";
import { loadRun, newestOwed } from "../../src/store/engine/load.js";
import { hashOfKey } from "../../src/store/engine/start-keys.js";
import type { TestDatabase } from "../harness/database.js";

interface TableReading {
  /** The columns of Postgres that have another name in the memory store. */
  readonly renamed?: Readonly<Record<string, string>>;
  /** Columns that only one of the two has, or that have the time of Postgres. */
  readonly without?: readonly string[];
  /** A column that Postgres has as a hash. */
  readonly hashed?: string;
  /** The column that numbers the rows: only their order is compared. */
  readonly numbered?: string;
  /** A column of the memory store that Postgres has as a time. */
  readonly isSet?: Readonly<Record<string, string>>;
}

const LEASED = ["tries", "trial_deaths"];

/** A table of the memory store without its reading does not compile. */
const TABLES: { readonly [Name in keyof Tables]: TableReading } = {
  runs: {
    renamed: { current_step: "step", requires_manual_review: "review" },
    without: ["ended_as", "ended_in", "ended_with", "held_as"],
  },
  run_starts: {},
  start_keys: { hashed: "key" },
  held_keys: { hashed: "key" },
  run_labels: {},
  run_commands: {},
  run_events: {},
  run_variables: {},
  kept_scopes: {},
  kept_values: {},
  kept_entries: {},
  forks: {},
  wakes: { without: LEASED },
  signals: { renamed: { signal_name: "name" }, numbered: "ordinal" },
  outbox: { without: LEASED },
  inbox: { without: LEASED },
  events: {
    without: [
      ...["size", "idempotency_key", "request_hash", "xid", "due_at", "told_to"],
      ...["published_at", "announced"],
    ],
    numbered: "ordinal",
  },
  event_takes: {},
  event_waits: {},
  outgoing_events: { numbered: "ordinal" },
  user_tasks: {},
  undo: {
    renamed: { owner_run_id: "owner", forward_idempotency_key: "forward_key" },
    numbered: "ordinal",
  },
  rate_buckets: {},
  rate_tickets: { without: ["at_us", "before_us", "after_us"], numbered: "ticket" },
  concurrency_tickets: {
    without: ["requested_at", "reserved_until"],
    numbered: "ticket",
    isSet: { granted_at: "granted", cancelled_at: "cancelled" },
  },
};

export const TABLE_NAMES = Object.keys(TABLES) as readonly (keyof Tables)[];

type Dumped = Readonly<Record<string, unknown>>;
export type Dump = { readonly [Name in keyof Tables]: readonly Dumped[] };

/** Both stores, with a clock for the one in memory. */
export class BothStores {
  now = 0;
  readonly memory = new MemoryStore(this, { limits: STANDARD_RUN_LIMITS, page: 50 });

  /** `plain`: without it, Postgres is written by the general statement alone. */
  constructor(
    private readonly database: TestDatabase,
    private readonly plain = new PlainStatements(),
  ) {}

  get sql() {
    return this.database.sql;
  }

  /** Empties Postgres: the store in memory is new. */
  async empty(): Promise<void> {
    await this.sql.unsafe(TABLE_NAMES.map((name) => `delete from ${name}`).join(";"));
  }

  /** The runs that win, of a group that is one commit in Postgres. The store in memory writes them one by one. */
  async commit(...group: RunCommit[]): Promise<ReadonlySet<string>> {
    const commits = group.map(({ runId, rows }) => ({ runId, rows: withUuids(rows) }));
    const inPostgres = await this.inPostgres(await Promise.all(commits.map((commit) => this.numbered(commit))));
    await this.published(commits.flatMap(({ rows: { published_event = [] } }) => published_event.map(({ id }) => id)));
    const inMemory = commits.filter((commit) => this.memory.commit(commit)).map(({ runId }) => runId);
    expect(new Set(inMemory)).toEqual(inPostgres);
    return inPostgres;
  }

  /** Postgres gives events a time of its own: here they have that of the clock. */
  private async published(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const now = new Date(this.now);
    await this.sql`update events set published_at = ${now} where id = any(${[...ids]}::text[]::uuid[])`;
  }

  /** Commits as the committer does: a key that exists already is a loss. */
  private async inPostgres(group: readonly RunCommit[]): Promise<ReadonlySet<string>> {
    try {
      return await commitRuns(
        this.sql,
        group.map((commit) => encodeRun(commit)),
        this.plain,
      );
    } catch (error) {
      if (sqlStateOf(error) === "23505") return new Set();
      throw error;
    }
  }

  /** Both have the same entries in the same order, but Postgres may leave numbers out. */
  private async numbered({ runId, rows }: RunCommit): Promise<RunCommit> {
    if (!rows.undo_settled) return { runId, rows };
    const ordinals = await this.sql<{ ordinal: string }[]>`select ordinal::text from undo order by undo.ordinal`;
    const undo_settled = rows.undo_settled.map((row) => ({
      ...row,
      ordinal: ordinals[Number(row.ordinal) - 1]?.ordinal ?? "0",
    }));
    return { runId, rows: { ...rows, undo_settled } };
  }

  /** All rows of both stores. Fails where they differ. */
  async same(): Promise<Dump> {
    const [stored, kept] = [await this.stored(), this.kept()];
    expect(kept).toEqual(stored);
    return stored;
  }

  private async stored(): Promise<Dump> {
    const dumped = TABLE_NAMES.map(async (name) => {
      const reading = TABLES[name];
      const order = reading.numbered ? `order by ${reading.numbered}` : "";
      const rows = await this.sql.unsafe<Dumped[]>(`select * from ${name} ${order}`);
      return [name, dumpOf(rows, reading)] as const;
    });
    return Object.fromEntries(await Promise.all(dumped)) as unknown as Dump;
  }

  private kept(): Dump {
    const dumped = TABLE_NAMES.map((name) => {
      const { hashed } = TABLES[name];
      const rows = [...(this.memory.tables[name] as Iterable<Dumped>)].map((row) =>
        hashed === undefined ? row : { ...row, [hashed]: hashOfKey(String(row[hashed])) },
      );
      return [name, dumpOf(rows, TABLES[name])] as const;
    });
    return Object.fromEntries(dumped) as unknown as Dump;
  }

  /** The run as a node loads it of Postgres. Fails if the store in memory gives another context. */
  async load(runId: RunId): Promise<RunContext> {
    const loaded = await loadRun(this.sql, runId);
    const columns = this.memory.columnsOf(runId);
    if (!loaded || !columns) throw new Error(`there is no run ${runId}`);
    const { stored, ...place } = loaded;
    expect(this.memory.placeOf(runId)).toEqual(place);
    const context = decodeRun(stored);
    expect(plain(decodeRun(storedRun(columns)))).toEqual(plain(context));
    return context;
  }

  /** Fails if a fact that decisions of the run may ask for differs. */
  async sameFacts(runId: RunId): Promise<void> {
    const { sql, memory } = this;
    const { run } = await this.load(runId);
    const facts = (need: StoreNeed) => memory.fetch(run, need);
    for (const name of ["go", "stop"]) {
      expect(facts({ kind: "signal", name })).toEqual({ signal: await signalFor(sql, run, name) });
      expect(facts({ kind: "waiter", name })).toEqual({ waiter: await nextWaiter(sql, run, name) });
      expect(facts({ kind: "unmatched", name })).toEqual({ unmatched: [...(await unmatchedSignals(sql, run, name))] });
    }
    expect(facts({ kind: "kept_signals" })).toEqual({ keptSignals: await keptSignals(sql, runId, MAX_KEPT_SIGNALS) });
    expect(facts({ kind: "living", from: 2 })).toEqual({ living: [...(await livingChildren(sql, runId, 2))] });
    expect(facts({ kind: "startup", runId })).toEqual({ startup: await startupVariables(sql, runId) });
    for (const entry of [1, 2, 3]) {
      for (const child of this.askedFor(runId, entry)) {
        const which = { entry, ...(child && { child }) };
        expect(facts({ kind: "ended", ...which })).toEqual({ ended: await endedChildren(sql, runId, which, 1e9) });
      }
      await this.sameUndo(run, entry - 1);
    }
    for (const topic of ["made", "sent", "t"]) await this.sameEvents(run, topic);
  }

  /** Branches and items are asked for together; of a sub-saga each try is a child, which is asked for alone: they have no order. */
  private askedFor(runId: RunId, entry: number): readonly (RunId | undefined)[] {
    const children = this.memory.tables.runs.of(runId).filter(({ parent_entry }) => parent_entry === entry);
    const tries = children
      .filter(({ parent_branch_id }) => parent_branch_id === undefined)
      .map(({ id }) => asRunId(id));
    return tries.length > 0 ? tries : [undefined];
  }

  /** Postgres may leave ordinals out. */
  private async sameUndo(run: RunIdentity, since: number): Promise<void> {
    const [owed] = await newestOwed(this.sql, [{ runId: run.id, since }]);
    const [newest] = owed?.entries ?? [];
    const found = this.memory.fetch(run, { kind: "undo", since }).undo?.newest;
    expect(found && { ...found, ordinal: "" }).toEqual(newest ? { ...newest, ordinal: "" } : null);
  }

  private async sameEvents(run: RunIdentity, topic: string): Promise<void> {
    const need = { kind: "events", topic, headers: {} } as const;
    const scanned = await scanEvents(this.sql, run, need);
    const { events } = this.memory.fetch(run, need);
    const known = ({ page, more }: typeof scanned) => [page.map(({ ordinal: _, ...found }) => found), more];
    expect(events && known(events)).toEqual(known(scanned));
  }
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

/** Rows with the names of the memory store, without nulls; in their order if they are numbered, else in any. */
function dumpOf(rows: readonly Dumped[], reading: TableReading): readonly Dumped[] {
  const { renamed = {}, without = [], numbered, isSet = {} } = reading;
  const left = new Set([...without, "ordinal", ...(numbered ? [numbered] : [])]);
  const dumped = rows.map((row) => {
    const cells = Object.entries(row).flatMap(([column, value]): [string, unknown][] => {
      if (left.has(column)) return [];
      const set = isSet[column];
      if (set !== undefined) return [[set, value !== null]];
      if (value === null || value === undefined) return [];
      return [[renamed[column] ?? column, cell(column, value)]];
    });
    return Object.fromEntries(cells.sort(([one], [other]) => (one < other ? -1 : 1)));
  });
  if (numbered) return dumped;
  return dumped.sort((one, other) => (sorted(one) < sorted(other) ? -1 : 1));
}

/** Times have whole milliseconds in Postgres. */
function cell(column: string, value: unknown): unknown {
  if (value instanceof Date) return value.getTime();
  if (typeof value === "number" && column.endsWith("_at")) return Math.trunc(value);
  return typeof value === "object" ? plain(value) : value;
}

/** JSON with its members in order: `jsonb` has an order of its own. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1)))
      : each,
  );
}

/** The columns of each relation. The ids of a simulation need be no UUIDs: in columns of that type they become some. */
function withUuids(rows: Rows): Rows {
  const named = Object.entries(rows).map(([relation, some]) => {
    const columns = Object.entries(RELATIONS[relation as Relation]);
    const changed = (some as readonly Dumped[] | undefined)?.map((row) =>
      Object.fromEntries(columns.map(([column, type]) => [column, uuidIn(type, row[column])])),
    );
    return [relation, changed];
  });
  return Object.fromEntries(named);
}

function uuidIn(type: string, value: unknown): unknown {
  return type.startsWith("uuid") && typeof value === "string" && !isUuid(value) ? derivedUuid(value) : value;
}
