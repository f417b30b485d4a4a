// The plain commit statement, for groups in which nothing is out of the ordinary. All runs of the group win, or the statement fails and leaves
// nothing behind: then the general statement (general.ts) finds out who loses. So its parts stand alone, and no row is joined with the winners.
//
// The compare-and-set of each run is the condition of its update (law 1), as is that it has not ended (law 4); a repeated command or
// start key meets the key of its table (law 6), and a run that exists is not counted. The last line compares the number of runs that have won with that of the group.
import { RELATIONS } from "../../../../machines/index.js";
import { hashedKey } from "../start-keys.js";
import {
  AUDIT_EVENTS,
  type Clause,
  COMMANDS_RECORDED,
  fromItems,
  INSERT_RUNS,
  OWED,
  SET_RUN,
  type Section,
  STARTS,
  type Statement,
  VARIABLES,
  WAKES,
  WAKES_GONE,
  withinReach,
} from "./clauses.js";
import type { GroupRows } from "./encoding.js";

/**
 * The errors of a statement in which some run may have lost: a division by zero (not all have won), a key that exists already, a row
 * that another session holds.
 */
export const SOME_LOST: ReadonlySet<string> = new Set(["22012", "23505", "55P03"]);

/**
 * No commit waits long for another one (the general statement skips the rows that another session holds): two that each hold rows which the
 * other needs would wait for each other in a circle. The setting ends with the statement.
 */
const PATIENCE: Clause = () => `
patience as materialized (select set_config('lock_timeout', '10ms', true))`;

/**
 * A row is looked up by its id and updated where it was found: a join of the ids, planned while the table is nearly empty, would walk through
 * the whole index for ever. A row that another commit has moved meanwhile has another revision. With `is null` instead of `coalesce`, such a
 * plan walks through an index of unfinished runs.
 */
const UPDATE: Clause = (from) => `
updated as (
  update runs set ${SET_RUN}
  from (
    select run_update.*, found.place from ${from.run_update} cross join lateral (
      select runs.ctid as place from runs where runs.id = run_update.id limit 1
    ) found
  ) run_update, patience
  where runs.ctid = run_update.place and runs.revision = run_update.expected
    and runs.fence = run_update.expected_fence and coalesce(runs.terminal_at, 'infinity') = 'infinity'
    and ${withinReach("runs", "run_update")}
  returning runs.id
)`;

/** A decision that changes nothing is based on a revision, too (law 3). In key order: see clauses.ts. */
const CONFIRM: Clause = (from) => `
confirmed as (
  select locked.id from (select id, expected, expected_fence, within from ${from.confirm} order by id) confirm cross join lateral (
    select id, revision, fence, tenant_id from runs where runs.id = confirm.id limit 1 for no key update skip locked
  ) locked
  where locked.revision = confirm.expected and locked.fence = confirm.expected_fence and ${withinReach("locked", "confirm")}
)`;

const CREATE: readonly Clause[] = [
  (from) => `
new_run as materialized (select * from ${from.new_run})`,
  () => `
created as (
  ${INSERT_RUNS}
  on conflict do nothing returning id
)`,
  ...STARTS,
];

/** The keys of starts. If two runs have one key, the statement of one of them fails. */
const START_KEYS: Clause = () => `
start_keys_taken as (
  insert into start_keys (scope, key, run_id) select scope, ${hashedKey("key")}, id from new_run where key is not null
)`;

const COMMANDS: Clause = (from) => `
command as materialized (select * from ${from.command})`;

/**
 * Parts that a group without rows for them does without. Each set of them is a statement of its own, planned once a connection, so parts
 * that come and go together are one.
 */
interface Part extends Section {
  /** The clause whose rows are counted as runs that won; absent in a part that lets none win. */
  readonly counts?: string;
  readonly isIn?: (rows: GroupRows) => boolean;
}

const PARTS: readonly Part[] = [
  { relations: ["run_update"], writes: [UPDATE], counts: "updated" },
  { relations: ["confirm"], writes: [CONFIRM], counts: "confirmed" },
  { relations: ["new_run"], writes: CREATE, counts: "created" },
  { relations: [], writes: [START_KEYS], isIn: (rows) => rows.hasStartKeys },
  { relations: ["command"], writes: [COMMANDS, COMMANDS_RECORDED] },
  { relations: ["audit_event", "variable", "wake"], writes: [AUDIT_EVENTS, VARIABLES, WAKES] },
  { relations: ["wake_gone"], writes: [WAKES_GONE] },
  ...OWED,
];

/** Whether the plain statement can write the group: a claim is won by one of several runs, which only the general one can tell. */
export function isPlain(rows: GroupRows): boolean {
  if (rows.has("held_key") || rows.has("fork")) return false;
  return !rows.has("signal_claim") && !rows.has("event_claim") && !rows.has("promise");
}

/**
 * Every session keeps the plan of each statement, so there are so many at most. A statement with parts that most of its groups have no rows for is
 * no way out: planned for none, such a part walks through an index that grows.
 */
const MOST_STATEMENTS = 64;

/** A statement for each set of parts, made when the first group has that set. */
export class PlainStatements {
  private readonly made = new Map<number, Statement>();

  constructor(private readonly most = MOST_STATEMENTS) {}

  /**
   * The last parameter is the number of rows of `run_update`, `confirm` and `new_run`: as many runs have to win. Undefined: there are statements
   * enough, and the general one writes the group.
   */
  of(rows: GroupRows): Statement | undefined {
    let shape = 0;
    PARTS.forEach(({ relations, isIn }, nth) => {
      if (isIn?.(rows) ?? relations.some((relation) => rows.has(relation))) shape |= 1 << nth;
    });
    const known = this.made.get(shape);
    if (known || this.made.size >= this.most) return known;
    const statement = statementOf(PARTS.filter((_, nth) => (shape & (1 << nth)) !== 0));
    this.made.set(shape, statement);
    return statement;
  }
}

function statementOf(parts: readonly Part[]): Statement {
  const relations = parts.flatMap((part) => part.relations);
  const from = fromItems(relations);
  const clauses = [PATIENCE, ...parts.flatMap((part) => part.writes)].map((clause) => clause(from, () => "true"));
  const winners = parts.flatMap(({ counts }) => (counts ? [`(select count(*) from ${counts})`] : []));
  const columns = relations.reduce((sum, relation) => sum + Object.keys(RELATIONS[relation]).length, 0);
  const text = `with ${clauses.join(",")}
select 1 / (case when ${winners.join(" + ") || "0"} = $${columns + 1}::text::int then 1 else 0 end) as all_won`;
  return { relations, text };
}
