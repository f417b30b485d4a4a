// Requests with many runs in the store, in turns: get, the first page of the list with each filter, counts, the statistics of a workflow, starts
// with labels and without, and runs of one step. On a target the runs are those that are there.
import type { Sql } from "postgres";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import type { Stage } from "../stage.js";
import { ONE_STEP } from "../workloads.js";
import type { Scenario } from "./scenario.js";

const PICKED = 1_000;
const WORKFLOW = ONE_STEP.id;

/** One filter of the list each: its first page. */
const FILTERS = [
  `workflow_id=${WORKFLOW}`,
  "version=1",
  "state=paused",
  "state=succeeded",
  "current_step=only",
  "awaited_signal=go",
  "requires_manual_review=true",
  "paused_reason=signal",
  "paused_reason=operator",
  "incident=true",
  "error_code=declined",
  "business_key=none",
  "root_only=true",
  "label.team=none",
  "q=none",
];

const read =
  (path: string) =>
  ({ api }: Stage) =>
    api.get(`/api/v1/${path}`);

const LABELS = { region: "eu", team: "checkout", tier: "gold", campaign: "autumn" };

/** Filters of the counts: some are kept, the others are counted up to a bound. */
const COUNTED = ["", `workflow_id=${WORKFLOW}`, "state=paused", "error_code=declined", "label.team=none"];

/** The requests, each with a latency of its own. */
const REQUESTS: readonly (readonly [string, (stage: Stage, runId: string) => Promise<unknown>])[] = [
  ["get", ({ api }, runId) => api.get(`/api/v1/sagas/${runId}`)],
  ["stats", read(`workflows/${WORKFLOW}/stats`)],
  ["start", ({ api }) => api.start(ONE_STEP)],
  ["start with four labels", ({ api }) => api.start(ONE_STEP, { labels: LABELS })],
  ["start to end", ({ api }) => api.run(ONE_STEP, { inputs: {} })],
  ["list", read("sagas")],
  ...FILTERS.map((filter) => [`list, ${filter}`, read(`sagas?${filter}`)] as const),
  ...COUNTED.map((filter) => [`counts, ${filter || "all"}`, read(`sagas/counts?${filter}`)] as const),
];

const reads: Scenario = {
  ...{ name: "reads", title: "Reads and starts with many runs in the store", unit: "requests" },
  ...{ count: 8_000, concurrency: 8, kind: "operations" },
  async play(stage) {
    await stage.api.publish(ONE_STEP);
    const ids = await idsToGet(stage);
    if (ids.length === 0) throw new Error("there are no runs to read");
    await stage.load("request", async (nth) => {
      const [of, ask] = REQUESTS[nth % REQUESTS.length] ?? ["none", async () => {}];
      await ask(stage, ids[nth % ids.length] ?? "");
      return { of };
    });
  },
};

async function idsToGet(stage: Stage): Promise<string[]> {
  const { place, api, size } = stage;
  if (place.isOwn) {
    await fill(place.sql, size.rows);
    stage.figure("runs in the store", size.rows, "runs");
    return pick(place.sql, size.rows);
  }
  stage.note("the runs are those of the target; their number is unknown");
  const { items } = await api.get<{ items: { id: string }[] }>("/api/v1/sagas?limit=500");
  return items.map(({ id }) => id);
}

/** Picks runs from all over the table. */
async function pick(sql: Sql, rows: number): Promise<string[]> {
  const found = await sql<{ id: string }[]>`
    select id from runs where random() < ${(2 * PICKED) / rows}::float8 limit ${PICKED}`;
  return found.map(({ id }) => id);
}

/**
 * Runs that began a tenth of a second after each other, of ten workflows. One in a hundred waits for a signal, a thousandth failed, the others
 * succeeded. A run as a workload of this size leaves it would take minutes; these have no variables, no audit rows and no wakes, which lists do not read.
 */
export async function fill(sql: Sql, rows: number, tenantId: string | null = null): Promise<void> {
  await sql`
    insert into runs (id, shard, revision, fence, last_seq, state, current_step, last_event_at, terminal_at, requires_manual_review,
      awaited_signal, paused_reason, record, workflow_id, version, definition_id, started_at, tenant_id)
    select id, ('x' || right(id::text, 2))::bit(8)::int, 2, 2, 4,
      case when waits then 'paused' when n % 1000 = 1 then 'failed' else 'succeeded' end,
      case when waits then 'only' end, at, case when not waits then at end, false, case when waits then 'go' end,
      case when waits then 'signal' end, '{"v":1,"ending":{"error":{"code":"declined"}}}', case n % 10 when 0 then ${WORKFLOW} else 'bench-other-' || n % 10 end, 1, id, at, ${tenantId}::uuid
    from (select n, n % 100 = 0 as waits, to_timestamp(ms / 1000.0) as at,
        (lpad(to_hex(ms), 12, '0') || '7' || substr(md5(n::text), 1, 3) || 'a' || substr(md5(n::text), 4, 15))::uuid as id
      from generate_series(1, ${rows}::int) as n,
        lateral (select (extract(epoch from now()) * 1000)::bigint - (${rows}::int - n) * 100 as ms) as began) as made`;
  await sql`insert into run_starts (run_id, inputs, identity, request_hash) select id, '{"amount":7}', '{}', '' from runs`;
  // A node does this every minute.
  await countEnds(sql);
  await sql`vacuum (analyze) runs, run_starts`;
}

export const READ = [reads];
