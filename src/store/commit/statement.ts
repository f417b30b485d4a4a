// THE commit statement. One round trip writes a whole group: it updates the run rows that win their compare-and-set and, for
// those runs only, everything that their transitions owe. There is no retry here: the group commit (src/run) handles failures.
import type { Sql } from "postgres";
import { unnest } from "./columns.js";
import {
  CONFIRMATIONS,
  CREATION,
  EVENT_CLAIMS,
  NO_EVENT_CONFLICT,
  NO_PROMISE_CONFLICT,
  NO_SIGNAL_CONFLICT,
  NO_START_KEY_CONFLICT,
  NOTHING_CREATED,
  REVISIONS,
  SIGNAL_CLAIMS,
  SIGNAL_PROMISES,
  START_KEYS,
  UPDATE,
  WON,
} from "./fences.js";
import { inputOf } from "./input.js";
import { type Clause, type From, RELATIONS, type Relation, type Section } from "./relations.js";
import type { RunCommit } from "./rows.js";
import { CLAIMED, HISTORY, MESSAGES, OCCASIONAL, OUTBOX, OUTGOING_EVENTS, STARTS, TICKETS, UNDO } from "./writes.js";

const EVERY_GROUP: readonly Relation[] = [
  "run_update",
  "confirm",
  "command",
  "audit_event",
  "variable",
  "wake",
  "wake_gone",
];

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
const undo: Section = { relations: ["undo_entry", "undo_settled", "undo_passed", "undo_handed"], writes: UNDO };
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

interface Statement {
  /** In the order of its parameters. */
  readonly relations: readonly Relation[];
  readonly text: string;
}

/** By the sections that are present, each a bit. */
const statements: Statement[] = [];

/** Writes the group; resolves with the ids of the runs that won. A run is in the group once at most, children and runs that are
 * promised a signal included. */
export async function commitRuns(sql: Sql, group: readonly RunCommit[]): Promise<ReadonlySet<string>> {
  const { text, parameters } = encodeGroup(group);
  const won = await sql.unsafe<{ id: string }[]>(text, parameters, { prepare: true });
  return new Set(won.map(({ id }) => id));
}

/** The group as a statement. It is not sent. */
export function encodeGroup(group: readonly RunCommit[]) {
  const input = inputOf(group);
  const present = SECTIONS.filter(({ relations }) => relations.some((name) => input[name].length > 0));
  const shape = present.reduce((bits, section) => bits | (1 << SECTIONS.indexOf(section)), 0);
  statements[shape] ??= statementWith(new Set(present));
  const { relations, text } = statements[shape];
  return { text, parameters: relations.flatMap((name) => input[name].parameters()) };
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
    present.has(newRuns) ? CREATION : NOTHING_CREATED,
    WON,
    ...HISTORY,
    ...[...present].flatMap(({ writes }) => writes),
  ];
  const text = clauses.map((clause) => clause(from)).join(",");
  return { relations, text: `with ${text}\nselect id from won` };
}

/** The FROM item of each relation, its parameters numbered through. */
function fromItems(relations: readonly Relation[]): From {
  let first = 1;
  const items = relations.map((name) => {
    const item = unnest(name, RELATIONS[name], first);
    first += Object.keys(RELATIONS[name]).length;
    return [name, item];
  });
  return Object.fromEntries(items) as From;
}
