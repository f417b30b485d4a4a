// A loaded run: its actor in memory, as of one revision of its row, and what is known of its undo list. It is restored from the store, or
// built for a run that was just created here. Its next steps are resident.ts.

import type { Sql } from "postgres";
import {
  decodeRun,
  type Fetched,
  firstWake,
  movedActor,
  type Program,
  type RecordFormats,
  type RunActor,
  type RunContext,
  type RunId,
  type StoredRun,
  startActor,
  type Transition,
  UnreadableRecord,
  type Write,
} from "../../machines/index.js";
import type { Catalog } from "../catalog/catalog.js";
import { Unreadable } from "../errors.js";
import { loadRun, type OwedEntries } from "../store/engine/load.js";
import { asRevision, type Revision } from "../store/engine/revision.js";

export interface LoadedRun {
  actor: RunActor;
  program: Program;
  /** The version that it was last asked to move to. */
  next?: Program;
  /** The revision that holds the actor's state. The next commit expects it. */
  revision: Revision;
  /** The token beside that revision (law 1). */
  fence: string;
  lastSeq: number;
  lastEventAt: number;
  /** What is known of the undo list. */
  readonly owedUndos: OwedUndos;
  /** The key of some of its values was destroyed, and the context has markers in their places: no decision may read them. */
  readonly dataLost?: true;
  /** The due time of the stored wake row; null: there is none; absent: unknown, or the poll has leased the row. */
  wake?: number | null;
}

/** Undefined: there is no such run. Throws Unreadable if this build cannot read its record. */
export async function restoreRun(
  sql: Sql,
  catalog: Pick<Catalog, "program">,
  runId: RunId,
  formats?: RecordFormats,
): Promise<LoadedRun | undefined> {
  const found = await loadRun(sql, runId);
  if (!found) return undefined;
  const context = readable(found.stored, formats);
  const program = await catalog.program(context.run.definitionId);
  const { revision, fence, lastSeq, lastEventAt, dataLost } = found;
  const actor = startActor(program, context);
  const lost = dataLost && { dataLost };
  return { actor, program, revision, fence, lastSeq, lastEventAt, owedUndos: new OwedUndos(), ...lost };
}

/** A transition that moves the run to another version begins a new actor, and what follows is decided by the program of that version. */
export function applyTo(loaded: LoadedRun, transition: Transition): void {
  const { moved } = transition;
  if (!moved) return loaded.actor.apply(transition);
  const { next } = loaded;
  if (next?.version !== moved.version) throw new Error(`the program of version ${moved.version} is not at hand`);
  loaded.actor = movedActor(loaded.actor, next, transition);
  loaded.program = next;
}

function readable(stored: StoredRun, formats: RecordFormats | undefined): RunContext {
  try {
    return decodeRun(stored, formats);
  } catch (error) {
    throw error instanceof UnreadableRecord ? new Unreadable(error.message) : error;
  }
}

/** A run that this node creates: its first revision need not be read back. `stored`: its start is committed. */
export function createdRun(
  { program, context, fence }: { program: Program; context: RunContext; fence: string },
  startedAt: number,
  stored = true,
): LoadedRun {
  return {
    actor: startActor(program, context),
    program,
    revision: asRevision(1),
    fence,
    lastSeq: 1,
    lastEventAt: startedAt,
    owedUndos: new OwedUndos(),
    wake: stored ? firstWake(context) : null,
  };
}

const NONE: OwedEntries = { entries: [], complete: false };

/**
 * The undo entries that one read has brought, for a run in memory that works them off: its next undo then needs no read, and can be dispatched in
 * the commit that records the one before. The store is right: entries are dropped with the actor, and with every other change of the list.
 */
export class OwedUndos {
  private since = 0;
  private owed = NONE;

  /** Entries of the step entries after `since`, newest first. */
  keep(since: number, owed: OwedEntries): void {
    this.since = since;
    this.owed = owed;
  }

  /** What a decision may know of the list. */
  get facts(): Pick<Fetched, "undo"> {
    const { entries, complete } = this.owed;
    const [newest] = entries;
    return newest || complete ? { undo: { since: this.since, newest: newest ?? null } } : {};
  }

  /** The transition with these writes was applied to the actor. */
  apply(writes: readonly Write[]): void {
    for (const write of writes) if (write.to.startsWith("undo_")) this.owed = this.without(write);
  }

  /** Only the newest entry is worked off. */
  private without({ to, row }: Write): OwedEntries {
    const { entries, complete } = this.owed;
    const [newest, ...rest] = entries;
    const settled = to === "undo_settled" && row.ordinal === newest?.ordinal;
    return settled ? { entries: rest, complete } : NONE;
  }
}
