// THE commit statement. One round trip writes a whole group: it updates the run rows that win their compare-and-set and, for
// those runs only, everything that their transitions owe. There is no retry here: the group commit (src/run) handles failures.
import type { Sql } from "postgres";
import type { Relation } from "../../../../machines/index.js";
import { sqlStateOf } from "../failure.js";
import {
  AUDIT_EVENTS,
  CLAIMED,
  type Clause,
  COMMANDS_RECORDED,
  CONFIRMATIONS,
  CREATION,
  EVENT_CLAIMS,
  fromItems,
  MESSAGES,
  NO_EVENT_CONFLICT,
  NO_PROMISE_CONFLICT,
  NO_SIGNAL_CONFLICT,
  NO_START_KEY_CONFLICT,
  NOTHING_CREATED,
  OCCASIONAL,
  OUTBOX,
  OUTGOING_EVENTS,
  REVISIONS,
  SIGNAL_CLAIMS,
  SIGNAL_PROMISES,
  START_KEYS,
  STARTS,
  type Statement,
  TICKETS,
  UNDO_ADDED,
  UNDO_CHANGED,
  UPDATE,
  VARIABLES,
  WAKES,
  WAKES_GONE,
  WON,
} from "./clauses.js";
import { type EncodedRun, GroupRows } from "./encoding.js";
import { isPlain, PlainStatements, SOME_LOST } from "./plain.js";

/**
 * Clauses that a group without rows for them does without: opening a table costs time even where nothing is written. There are
 * few sections, because each set of them is a statement of its own, planned once a connection.
 */
interface Section {
  readonly relations: readonly Relation[];
  /** The fences that later clauses refer to. */
  readonly fences?: readonly Clause[];
  /** The same names with no rows: for statements without the section. */
  readonly withoutFences?: readonly Clause[];
  /** The clauses that write rows of the runs that have won. */
  readonly writes: readonly Clause[];
}

const EVERY_GROUP: readonly Relation[] = [
  "run_update",
  "confirm",
  "command",
  "audit_event",
  "variable",
  "wake",
  "wake_gone",
];
const HISTORY: readonly Clause[] = [COMMANDS_RECORDED, AUDIT_EVENTS, VARIABLES, WAKES, WAKES_GONE];

const claims: Section = {
  relations: ["signal_claim", "promise", "event_claim"],
  fences: [...SIGNAL_CLAIMS, ...SIGNAL_PROMISES, ...EVENT_CLAIMS],
  withoutFences: [NO_SIGNAL_CONFLICT, NO_PROMISE_CONFLICT, NO_EVENT_CONFLICT],
  writes: CLAIMED,
};
/** Runs that are started, or made by others in the group. */
const newRuns: Section = {
  relations: ["new_run"],
  fences: START_KEYS,
  withoutFences: [NO_START_KEY_CONFLICT],
  writes: STARTS,
};
const outbox: Section = { relations: ["outbox_row", "outbox_gone"], writes: OUTBOX };
const messages: Section = { relations: ["signal", "inbox_row", "inbox_gone"], writes: MESSAGES };
const undo: Section = {
  relations: ["undo_entry", "undo_settled", "undo_passed", "undo_handed"],
  writes: [...UNDO_ADDED, ...UNDO_CHANGED],
};
const occasional: Section = {
  relations: [
    ...(["label", "scope", "scope_value", "published_event"] as const),
    ...(["event_wait", "event_wait_gone", "opened_task", "closed_task"] as const),
  ],
  writes: OCCASIONAL,
};
const outgoingEvents: Section = { relations: ["outgoing_event"], writes: OUTGOING_EVENTS };
const tickets: Section = { relations: ["ticket", "ticket_gone", "ticket_returned"], writes: TICKETS };

/** The order in which tables are written. */
const SECTIONS: readonly Section[] = [claims, newRuns, outbox, messages, undo, occasional, outgoingEvents, tickets];

/** General statements by the sections that are present, each a bit. */
const generalStatements: Statement[] = [];

const plainStatements = new PlainStatements();

/**
 * Writes the group; resolves with the ids of the runs that won. A run is in the group once at most, children and runs that are
 * promised a signal included. Most groups have no loser: they are written by the plain statement. If it fails because one may have lost, it
 * has left nothing behind, and the general statement finds out who has.
 */
export async function commitRuns(
  sql: Sql,
  group: readonly EncodedRun[],
  statements = plainStatements,
): Promise<ReadonlySet<string>> {
  const rows = new GroupRows(group);
  const plain = isPlain(rows) ? statements.of(rows) : undefined;
  if (plain) {
    const { text, relations } = plain;
    try {
      await sql.unsafe(text, [...parametersOf(rows, relations), String(deciding(rows))], { prepare: true });
      return new Set(group.map(({ runId }) => runId));
    } catch (error) {
      if (!SOME_LOST.has(sqlStateOf(error) ?? "")) throw error;
    }
  }
  const { text, relations } = generalStatement(rows);
  const found = await sql.unsafe<{ id: string }[]>(text, parametersOf(rows, relations), { prepare: true });
  const won = new Set(found.map(({ id }) => id));
  // It names the runs that are created by others, too.
  return new Set(group.map(({ runId }) => runId).filter((id) => won.has(id)));
}

/** The rows that decide who wins. */
function deciding(rows: GroupRows): number {
  return rows.count("run_update") + rows.count("confirm") + rows.count("new_run");
}

function parametersOf(rows: GroupRows, relations: readonly Relation[]): string[] {
  return relations.flatMap((relation) => rows.parameters(relation));
}

/** The statement that finds out who wins. */
export function generalStatement(rows: GroupRows): Statement {
  const present = SECTIONS.filter(({ relations }) => relations.some((relation) => rows.has(relation)));
  const shape = present.reduce((bits, section) => bits | (1 << SECTIONS.indexOf(section)), 0);
  generalStatements[shape] ??= statementWith(new Set(present));
  return generalStatements[shape];
}

function statementWith(present: ReadonlySet<Section>): Statement {
  const relations = [...EVERY_GROUP, ...[...present].flatMap((section) => section.relations)];
  const from = fromItems(relations);
  const fences = (section: Section) => (present.has(section) ? section.fences : section.withoutFences) ?? [];
  const clauses: readonly Clause[] = [
    ...fences(claims),
    ...REVISIONS,
    ...fences(newRuns),
    UPDATE,
    CONFIRMATIONS,
    ...(present.has(newRuns) ? CREATION : [NOTHING_CREATED]),
    WON,
    ...HISTORY,
    ...[...present].flatMap(({ writes }) => writes),
  ];
  const won = (column: string) => `${column} in (select id from won)`;
  const text = clauses.map((clause) => clause(from, won)).join(",");
  return { relations, text: `with ${text}\nselect id from won` };
}
