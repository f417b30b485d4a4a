// Which waits an event correlates with: exactly those whose headers and conditions it has, and it costs them and not the others.
// @module-tag both
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { compileExpression } from "../../machines/expression/index.js";
import { asRunId, type RunId } from "../../machines/index.js";
import { eventConditions } from "../../machines/steps/event.js";
import { uuidv7 } from "../../src/ids.js";
import { announceTo, type DueEvent, leaseEvents } from "../../src/store/engine/announcements.js";
import { correlatedRuns } from "../../src/store/engine/correlation.js";
import { publishEvent } from "../../src/store/engine/events.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { cases, firstSeed } from "../harness/long.js";
import { randomOf } from "../machines/scheduler.js";

let database: TestDatabase;
beforeAll(async () => {
  // One session, which can make its own statistics visible.
  database = await createTestDatabase({ max: 1 });
});
beforeEach(async () => {
  await database.sql.unsafe("delete from event_waits; delete from events; delete from runs");
});
afterAll(() => database.drop());

type Headers = Readonly<Record<string, string>>;
type Conditions = Readonly<Record<string, string | number | boolean>>;
interface Wait {
  readonly runId: RunId;
  readonly headers: Headers;
  readonly equal?: Conditions;
  readonly tenantId?: string;
}

async function insert(waits: readonly Wait[]): Promise<void> {
  const rows = waits.map(({ runId, headers, equal, tenantId }) => {
    return { run_id: runId, headers, conditions: equal && { entry: 1, equal }, tenant_id: tenantId };
  });
  await database.sql`
    with waits as (
      select * from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb)
        as t(run_id uuid, headers jsonb, conditions jsonb, tenant_id uuid)
    ), of_runs as (
      insert into runs (id, shard, revision, fence, last_seq, state, last_event_at, requires_manual_review, record, workflow_id, version,
        definition_id, started_at, tenant_id)
      select run_id, 0, 1, 1, 1, 'paused', now(), false, '{}', 'w', 1, run_id, now(), tenant_id from waits
    )
    insert into event_waits (run_id, topic, headers, conditions) select run_id, 'sent', headers, conditions from waits`;
}

async function publish(headers: Headers, payload: object = {}) {
  const [id, topic] = [uuidv7(), "sent"];
  await publishEvent(database.sql, { id, topic, headers, payload: payload as Record<string, string>, hash: "" });
  return { id, topic, headers, tenant_id: null };
}

const wait = (headers: Headers, equal?: Conditions): Wait => ({
  runId: asRunId(uuidv7()),
  headers,
  ...(equal && { equal }),
});
const conditionsOf = (match: Parameters<typeof eventConditions>[0], scope: Parameters<typeof eventConditions>[1]) =>
  eventConditions(match, scope, 1)?.equal as Conditions;
const runIds = (waits: readonly Wait[]) => waits.map(({ runId }) => runId).sort();

async function rowsRead(): Promise<number> {
  await database.sql`select pg_stat_force_next_flush()`;
  const [row] = await database.sql<{ rows: number }[]>`
    select ((select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables)
      + (select sum(idx_tup_read) from pg_stat_user_indexes))::float8 as rows`;
  return row?.rows ?? 0;
}

describe("an event", () => {
  it("with two matches among 10,000 waits of its topic reads a few rows", async () => {
    const match = compileExpression("event.payload.order.id == inputs.of && event.payload.paid > 0");
    const others = Array.from({ length: 10_000 }, (_, nth) => {
      const of = `order-${nth}`;
      if (nth % 3 === 0) return wait({ of });
      return nth % 3 === 1
        ? wait({ of, region: "north" })
        : wait({ region: "north" }, conditionsOf(match, { inputs: { of } }));
    });
    for (let from = 0; from < others.length; from += 1_000) await insert(others.slice(from, from + 1_000));
    const event = await publish({ of: "order-3000", region: "north", more: "x" }, { order: { id: "order-3002" } });
    const read = async () => {
      const [leased] = await leaseEvents(database.sql, [event.id]);
      const before = await rowsRead();
      const { notices } = await announceTo(database.sql, leased as DueEvent);
      await database.sql`update events set told_to = null`;
      return { notices, rows: (await rowsRead()) - before };
    };
    // Statements are prepared: the plan that stays counts.
    for (let nth = 0; nth < 6; nth++) await read();
    const { notices, rows } = await read();
    expect(others.filter(({ equal }) => equal)).toHaveLength(3_333);
    console.info(`correlation: ${rows} rows read for two matches among ${others.length} waits`);
    expect(notices.map(({ runId }) => runId)).toEqual(runIds([others[3000] as Wait, others[3002] as Wait]));
    expect(rows).toBeLessThan(100);
  });

  it("finds the waits whose headers and conditions it has, page by page: compared with a look at each of them", async () => {
    const seed = firstSeed();
    console.info(`SEED=${seed}`);
    const random = randomOf(seed);
    const pick = <T>(items: readonly T[]) => items[Math.floor(random() * items.length)] as T;
    const subset = <T>(entries: readonly (readonly [string, readonly T[]])[], part: number) =>
      Object.fromEntries(entries.filter(() => random() < part).map(([name, values]) => [name, pick(values)]));
    const headers = ["a", "b", 'c"d'].map((name) => [name, ["1", "2", "ü\\"]] as const);
    const paths = ['["payload","x"]', '["payload","y","z"]', '["headers","a"]'].map(
      (path) => [path, ["1", 1, true, "ü"] as const] as const,
    );
    for (let nth = 0; nth < cases(8, 60); nth++) {
      await database.sql.unsafe("delete from event_waits");
      const waits = Array.from({ length: 60 }, () => {
        const equal = subset(paths, 0.3);
        return wait(subset(headers, 0.4), Object.keys(equal).length > 0 ? equal : undefined);
      });
      await insert(waits);
      const payload = {
        ...subset([["x", ["1", 1, true, "ü"]]], 0.8),
        y: random() < 0.7 ? { z: pick(["1", 1, true, "ü"]) } : 5,
      };
      const event = await publish(subset(headers, 0.7) as Headers, payload);
      const at = (path: string) =>
        (JSON.parse(path) as string[]).reduce<unknown>((value, name) => (value as Record<string, unknown>)?.[name], {
          headers: event.headers,
          payload,
        });
      const expected = waits.filter(
        (one) =>
          Object.entries(one.headers).every(([name, value]) => event.headers[name] === value) &&
          Object.entries(one.equal ?? {}).every(([path, value]) => at(path) === value),
      );
      const found: RunId[] = [];
      for (let more = true; more; ) {
        const page = await correlatedRuns(database.sql, event, found.at(-1) ?? null, 7);
        found.push(...page);
        more = page.length === 7;
      }
      expect(found).toEqual(runIds(expected));
    }
  });

  it("of a tenant finds runs of the tenant only", async () => {
    const [mine, other] = [uuidv7(), uuidv7()];
    const waits = [mine, other].map((tenantId) => ({ ...wait({}), tenantId }));
    await insert(waits);
    const event = { ...(await publish({})), tenant_id: mine };
    expect(await correlatedRuns(database.sql, event, null, 10)).toEqual([waits[0]?.runId]);
    expect(await correlatedRuns(database.sql, { ...event, tenant_id: null }, null, 10)).toHaveLength(2);
  });
});
