// A store in memory: the same commits, fences and reads as the engine of src/store, on tables that are maps. Rehearsals and the simulations of
// the tests run on it. It is not durable, has no leases and no other processes; test/store/contract.test.ts shows that it is equal to Postgres.

import type { Answer } from "../messages/command.js";
import type { Fetched } from "../messages/fact.js";
import type { PublishedEvent } from "../messages/owed.js";
import type { Relation, Row, Rows } from "../messages/relations.js";
import type { RunIdentity } from "../state/identity.js";
import { asRunId, type RunId } from "../values/ids.js";
import type { Json, JsonObject } from "../values/json.js";
import type { RunColumns, StoredIdentity } from "../writes/run-row.js";
import type { RunCommit } from "../writes/unit.js";
import { type ReadOptions, readFact, type StoreNeed } from "./facts.js";
import { keptVariables } from "./kept.js";
import { announce, giveTurns, grantSlots } from "./messages.js";
import { type Moment, ORDER, WRITTEN } from "./relations.js";
import { isWaitingFor, keyOf, type RunRow, type RunStart, Tables } from "./tables.js";

/** The place of a run in its history, which the next commit is based on. */
export interface RunPlace {
  readonly revision: number;
  readonly fence: string;
  readonly lastSeq: number;
  readonly lastEventAt: number;
}

/** Audit rows among which a worker's answer is looked for, as in src/store/engine/load.ts. */
const ANSWER_AMONG = 1_000;

export class MemoryStore {
  readonly tables = new Tables();
  private fences = 0;

  /** `clock`: the time of the store. */
  constructor(
    private readonly clock: Moment,
    private readonly options: ReadOptions,
  ) {}

  /** A token that no commit has had yet. */
  readonly newFence = (): string => String(++this.fences);

  /** Writes the commit, or nothing of it. False: the run has lost. */
  commit(commit: RunCommit): boolean {
    const { tables, clock } = this;
    const { rows } = commit;
    const winners = this.winners(commit);
    if (winners.size === 0) return false;
    const present = ORDER.filter((relation) => rows[relation]);
    for (const relation of present)
      for (const row of won(relation, rows, winners)) if (WROTE[relation].collides?.(tables, row)) return false;
    for (const relation of present)
      for (const row of won(relation, rows, winners)) WROTE[relation].write(tables, row, clock);
    return true;
  }

  /** The run, and the runs that it creates, whose rows are written. Empty: it loses. */
  private winners({ runId, rows }: RunCommit): ReadonlySet<string> {
    const winners = new Set<string>();
    if (!this.wins(runId, rows)) return winners;
    const created = (rows.new_run ?? []).filter(({ id }) => !this.tables.runs.has(id)).map(({ id }) => id);
    const starts = rows.new_run?.some(({ id }) => id === runId) ?? false;
    if (!starts || created.includes(runId)) for (const id of [runId, ...created]) winners.add(id);
    return winners;
  }

  /** The conditions of the commit statement: src/store/engine/commit/clauses.ts. */
  private wins(runId: RunId, rows: Rows): boolean {
    const { runs, run_commands } = this.tables;
    const run = runs.get(runId);
    const [update] = rows.run_update ?? [];
    const [based] = rows.run_update ?? rows.confirm ?? [];
    if (based && (run?.revision !== based.expected || run.fence !== based.expected_fence)) return false;
    if (run && based && !isOfTenants(run, based.within)) return false;
    if ((rows.command ?? []).some((command) => run_commands.has(keyOf(runId, command.command_id)))) return false;
    if (update && run?.terminal_at !== undefined) return false;
    if (update && this.isClaimLost(rows)) return false;
    if ((rows.held_key ?? []).some((held) => this.holderOf(held) !== held.expected)) return false;
    if ((rows.fork ?? []).some(({ run_id, inherits }) => inherits && this.hasHeir(run_id))) return false;
    // A run that creates another under a key loses with it.
    return (rows.new_run ?? []).every(({ id, scope, key }) => key === undefined || this.isFree({ id, scope, key }));
  }

  /** A signal goes to one run, to one that waits for it if it is promised, and a run takes an event at most once (law 9). */
  private isClaimLost({ signal_claim = [], promise = [], event_claim = [] }: Rows): boolean {
    const { signals, runs, event_takes } = this.tables;
    const isTaken = ({ id }: Row<"signal_claim">) => signals.get(id)?.consumed_at !== undefined || !signals.has(id);
    const isLost = ({ waiter, name }: Row<"promise">) => !isWaitingFor(runs.get(waiter), name);
    return (
      signal_claim.some(isTaken) ||
      promise.some(isLost) ||
      event_claim.some(({ run_id, event_id }) => event_takes.has(keyOf(run_id, event_id)))
    );
  }

  private holderOf({ scope, key }: Row<"held_key">): string | undefined {
    return this.tables.held_keys.get(keyOf(scope, key))?.run_id;
  }

  private hasHeir(runId: string): boolean {
    return this.tables.forks.of(runId).some(({ inherits }) => inherits);
  }

  private isFree({ id, scope = "", key }: { id: string; scope?: string; key: string }): boolean {
    const { runs, start_keys } = this.tables;
    return !runs.has(id) && !start_keys.has(keyOf(scope, key));
  }

  /** A fact that a decision of the run needs. */
  fetch(run: RunIdentity, need: StoreNeed): Fetched {
    return readFact(this.tables, run, need, this.options);
  }

  /** An event from outside. One with the same id is published already. */
  publish({ id, topic, headers, payload, tenantId: tenant_id }: PublishedEvent): void {
    const { events } = this.tables;
    if (events.has(id)) return;
    const row = { id, topic, headers, payload, tenant_id };
    events.put({ ...row, ordinal: events.next(), published_at: this.clock.now, announced: false });
  }

  /** Offers published events to the runs that wait for them. */
  announce(): void {
    announce(this.tables, this.clock.now);
  }

  /** Gives free slots to those that have waited longest. `every`: there is a slot for each ticket. */
  grantSlots(every = false): void {
    grantSlots(this.tables, this.clock.now, every);
  }

  /** Gives each that has asked for one its turn. `every`: at once. */
  giveTurns(every = false): void {
    giveTurns(this.tables, this.clock.now, every);
  }

  /** Undefined: there is no such run. */
  placeOf(runId: RunId): RunPlace | undefined {
    const run = this.tables.runs.get(runId);
    return run && { revision: run.revision, fence: run.fence, lastSeq: run.last_seq, lastEventAt: run.last_event_at };
  }

  /** The columns of a run, for the decoder. Undefined: there is no such run. */
  columnsOf(runId: RunId): RunColumns | undefined {
    const { runs, run_starts } = this.tables;
    const run = runs.get(runId);
    const start = run_starts.get(runId);
    if (!run || !start) return undefined;
    const above = start.inputs === undefined ? run_starts.get(run.family_run_id ?? "") : start;
    return {
      ...columnsOf(run),
      identity: start.identity as StoredIdentity,
      inputs: (above as RunStart).inputs as JsonObject,
      ...this.variablesOf(run),
    };
  }

  private variablesOf({ id, family_run_id, parent_run_id = "", parent_entry = 0 }: RunRow) {
    const { run_variables, kept_scopes } = this.tables;
    const own = run_variables.of(id);
    const set = own.filter(({ value }) => value !== undefined).map(({ name, value }) => [name, value as Json]);
    const gone = own.filter(({ value }) => value === undefined).map(({ name }) => name);
    const scope = family_run_id === undefined ? undefined : kept_scopes.get(keyOf(parent_run_id, parent_entry));
    return {
      variables: set.length > 0 ? (Object.fromEntries(set) as JsonObject) : null,
      gone: gone.length > 0 ? gone : null,
      inherited: scope ? keptVariables(this.tables, scope) : null,
    };
  }

  /**
   * The recorded answer of a command (law 6). A worker's answer that counted has its id beside its audit row instead. An inbox row that brings
   * the command again is removed.
   */
  repeatedAnswer(runId: RunId, commandId: string): Answer | undefined {
    const { run_commands, run_events, inbox } = this.tables;
    const recorded = run_commands.get(keyOf(runId, commandId))?.answer as Answer | undefined;
    const newest = recorded === undefined ? run_events.of(runId).slice(-ANSWER_AMONG) : [];
    const counted = newest.some(({ command_id }) => command_id === commandId);
    if (recorded === undefined && !counted) return undefined;
    inbox.delete(commandId);
    return recorded ?? { type: "report", stale: false };
  }
}

/** `within` is an array literal of uuids. */
function isOfTenants({ tenant_id }: RunRow, within: string | undefined): boolean {
  return within === undefined || (tenant_id !== undefined && within.slice(1, -1).split(",").includes(tenant_id));
}

/** The entries of all relations, for rows of any. */
const WROTE = WRITTEN as unknown as Readonly<
  Record<
    Relation,
    {
      readonly by: (row: unknown) => string | undefined;
      readonly collides?: (tables: Tables, row: unknown) => boolean;
      readonly write: (tables: Tables, row: unknown, at: Moment) => void;
    }
  >
>;

/** The rows of the relation that the winners have written. */
function won(relation: Relation, rows: Rows, winners: ReadonlySet<string>): readonly unknown[] {
  const some: readonly unknown[] = rows[relation] ?? [];
  return some.filter((row) => winners.has(WROTE[relation].by(row) ?? ""));
}

function columnsOf(run: RunRow): Omit<RunColumns, "identity" | "inputs" | "variables" | "inherited" | "gone"> {
  const { parent_run_id, root_run_id } = run;
  return {
    id: run.id,
    state: run.state as RunColumns["state"],
    current_step: run.step ?? null,
    requires_manual_review: run.review,
    record: run.record as JsonObject,
    call: (run.call as JsonObject | undefined) ?? null,
    output: (run.output as Json | undefined) ?? null,
    frames: (run.frames as readonly JsonObject[] | undefined) ?? null,
    items: (run.items as readonly Json[] | undefined) ?? null,
    workflow_id: run.workflow_id,
    version: run.version,
    definition_id: run.definition_id,
    tenant_id: run.tenant_id ?? null,
    business_key: run.business_key ?? null,
    trigger_id: run.trigger_id ?? null,
    parent_run_id: parent_run_id === undefined ? null : asRunId(parent_run_id),
    parent_step_id: run.parent_step_id ?? null,
    parent_branch_id: run.parent_branch_id ?? null,
    parent_entry: run.parent_entry ?? null,
    root_run_id: root_run_id === undefined ? null : asRunId(root_run_id),
    started_at: run.started_at,
  };
}
