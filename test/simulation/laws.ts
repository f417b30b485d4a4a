// The laws of a whole cluster, when everything has ended: read from the store, from the workers' ledger, and from the nodes that are up.
import type { Sql } from "postgres";
import { asRunId } from "../../machines/index.js";
import { countUnwatched } from "../../src/store/engine/poll.js";
import { checkHistory, type EventSeen } from "../harness/history.js";
import { grouped, type Member, undoOf, undoViolations } from "../run/family-laws.js";
import { look } from "../run/seen.js";
import type { Cluster } from "./cluster.js";

/** What clients were told. */
export interface Acknowledged {
  readonly runs: Set<string>;
  /** Families of which a member was cancelled without undo. */
  readonly abandoned: Set<string>;
  /** Workflows of which the undo is all that it must be. In a random one, tries undo parts of it, whether or not it ends well. */
  readonly bound: Set<string>;
  /** Families of which the store has forgotten a commit: what was done in between may be in no list. */
  readonly rewound: Set<string>;
  /** Families in which a person has passed over a step or an undo, or ended a run without waiting. */
  readonly handled: Set<string>;
  /** The clock of the store has not jumped: its times are in order. */
  isClockTrue: boolean;
  /** Answers that contradict each other. */
  readonly broken: string[];
}

export async function violationsOf(sql: Sql, cluster: Cluster, acknowledged: Acknowledged): Promise<string[]> {
  const members = await membersOf(sql);
  return [
    ...acknowledged.broken,
    ...cluster.ledger.broken,
    ...lostRuns(members, acknowledged.runs),
    ...lostAnswers(members, cluster.ledger.recorded),
    ...unsound(members),
    ...early(members),
    ...(await owed(sql)),
    ...(acknowledged.isClockTrue ? outOfOrder(members) : []),
    ...(await undone(sql, members, cluster, acknowledged)),
    ...held(cluster),
  ];
}

async function membersOf(sql: Sql): Promise<readonly Member[]> {
  const rows = await sql<{ id: string; parent: string | null; root: string }[]>`
    select id, parent_run_id as parent, coalesce(root_run_id, id) as root from runs order by started_at, id`;
  const members: Member[] = [];
  for (const { id, parent, root } of rows)
    members.push({ ...(await look(sql, asRunId(id))), id, root, ...(parent !== null && { parent }) });
  return members;
}

function lostRuns(members: readonly Member[], runs: ReadonlySet<string>): string[] {
  const known = new Set(members.map(({ id }) => id));
  return [...runs].filter((id) => !known.has(id)).map((id) => `${id} was acknowledged, and is gone`);
}

/** A worker forgets an answer that is said to be durable. */
function lostAnswers(members: readonly Member[], recorded: ReadonlySet<string>): string[] {
  const left = new Set(recorded);
  for (const { events } of members) {
    const dispatches = new Map<string, string>();
    for (const { event_type: type, step_id: step, attempt, metadata } of events) {
      const key = `${step} ${attempt}`;
      if (type === "step.dispatched") dispatches.set(key, String(metadata?.dispatch_id));
      else if (type === "step.succeeded" || type === "step.failed") left.delete(dispatches.get(key) ?? "");
    }
  }
  return [...left].map((id) => `the answer of dispatch ${id} was said to be durable, and is in no history`);
}

function unsound(members: readonly Member[]): string[] {
  return members.flatMap(({ id, run, events }) => [
    ...(run.terminal_at === undefined ? [`${id} has not ended: ${run.state} at ${run.current_step}`] : []),
    ...checkHistory(run, events).map(({ rule, message, seq }) => `${id} breaks "${rule}" at ${seq}: ${message}`),
  ]);
}

/** A run that is out of time fails its step with the code of a timeout, too, whatever became of the attempt. */
const OF_ITS_OWN = /\bdid not answer in time$/;

/** An attempt times out at its deadline, by the database's clock, and not before. */
function early(members: readonly Member[]): string[] {
  const found: string[] = [];
  for (const { id, events } of members) {
    const deadlines = new Map<string, string>();
    const attempt = ({ step_id, attempt }: EventSeen) => `${step_id} ${attempt}`;
    for (const event of events) {
      const { event_type: type, metadata, recorded_at: at } = event;
      if (type === "step.dispatched") deadlines.set(attempt(event), String(metadata?.deadline_at));
      const deadline = deadlines.get(attempt(event));
      if (type === "step.failed" && OF_ITS_OWN.test(String(metadata?.message)) && deadline !== undefined)
        if (Date.parse(at) < Date.parse(deadline)) found.push(`${id} timed out at ${at}, its deadline is ${deadline}`);
    }
  }
  return found;
}

/** What the store has still to do for its runs. */
export async function owed(sql: Sql): Promise<string[]> {
  const rows = await sql<{ what: string; run_id: string }[]>`
    select 'inbox ' || command::text as what, run_id from inbox
    union all select 'outbox ' || kind, run_id from outbox
    union all select 'wake', run_id from wakes
    union all select 'ticket ' || key, run_id from concurrency_tickets`;
  const unwatched = await countUnwatched(sql);
  return [
    ...rows.map(({ what, run_id }) => `${run_id} is still owed ${what}`),
    ...(unwatched > 0 ? [`${unwatched} runs are unwatched`] : []),
  ];
}

function outOfOrder(members: readonly Member[]): string[] {
  const ends = new Map(members.map(({ id, run }) => [id, run.terminal_at ?? ""]));
  return members.flatMap(({ id, parent }) =>
    parent !== undefined && (ends.get(id) ?? "") > (ends.get(parent) ?? "")
      ? [`${id} ended after its parent ${parent}`]
      : [],
  );
}

async function undone(
  sql: Sql,
  members: readonly Member[],
  { ledger }: Cluster,
  { abandoned, rewound, handled, bound }: Acknowledged,
): Promise<string[]> {
  const workflows = await sql<{ id: string; workflow_id: string }[]>`select id, workflow_id from runs`;
  const isBound = new Set(workflows.filter(({ workflow_id: id }) => bound.has(id)).map(({ id }) => id));
  const list = await undoOf(sql);
  const done = grouped(ledger.deeds, ({ runId }) => runId);
  const found: string[] = [];
  for (const [root, family] of grouped(members, (member) => member.root)) {
    if (abandoned.has(root) || rewound.has(root) || !isBound.has(root)) continue;
    const ids = new Set(family.map(({ id }) => id));
    const failed = list.filter(({ owner, state }) => ids.has(owner) && state === "failed");
    found.push(...unseenFailures(family, failed));
    if (handled.has(root) || failed.length > 0) continue;
    const happened = new Set([...ledger.happened].filter((key) => ids.has(key.slice(0, 36))));
    const deeds = [...ids].flatMap((id) => done.get(id) ?? []);
    // What was dispatched may be held for done, even if its node ended before it was sent.
    const possible = new Set(list.map(({ key }) => key));
    found.push(...undoViolations(family, list, deeds, happened, possible).map((line) => `${root}: ${line}`));
  }
  return found;
}

/** An undo that failed for good is for a person to see. */
function unseenFailures(family: readonly Member[], failed: readonly { owner: string; key: string }[]): string[] {
  const isSeen = new Set(family.filter(({ run }) => run.requires_manual_review).map(({ id }) => id));
  return failed.filter(({ owner }) => !isSeen.has(owner)).map(({ key }) => `the undo of ${key} failed unseen`);
}

/** When nothing is to be done, no node holds anything. */
function held({ reachable }: Cluster): string[] {
  return reachable.flatMap(({ home, core }) => {
    const { inFlight, queued } = core.dispatcher;
    return [
      ...(inFlight > 0 ? [`${home.name} holds ${inFlight} dispatches`] : []),
      ...(queued > 0 ? [`${home.name} has ${queued} calls that wait`] : []),
      ...(core.runtime.residents.busy > 0 ? [`${home.name} is busy with ${core.runtime.residents.busy} runs`] : []),
    ];
  });
}
