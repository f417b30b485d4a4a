// A start against the erasure of the same run: whichever comes first, and by whichever form of the commit statement, the run is not started again.
import { describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { uuidv7 } from "../../src/ids.js";
import { Erasure } from "../../src/store/upkeep/erasure.js";
import { newRunId } from "../harness/ids.js";
import { until } from "../harness/until.js";
import { creation, openCommitStore, type Share } from "./commit-rows.js";

const store = openCommitStore();
const SCOPE = "/orders";
const BY = { actor: "user:ann", reach: { tenants: "*" } } as const;
const keyed = (key: string) => ({ scope: SCOPE, key, identity: { idempotencyKey: key } });
/** By the plain statement, and, beside a claim, by the general one. */
const FORMS: readonly (readonly [string, () => Share])[] = [
  ["plain", () => ({})],
  ["general", () => ({ event_claim: [{ event_id: uuidv7() }] })],
];

async function endedRun(key = uuidv7()): Promise<{ runId: RunId; key: string }> {
  const runId = newRunId();
  expect(await store.commit(creation({ runId }, keyed(key)))).toEqual(new Set([runId]));
  await store.sql`update runs set state = 'succeeded', terminal_at = now() where id = ${runId}`;
  return { runId, key };
}

const erase = (runId: RunId) => new Erasure(store.sql).erase(runId, BY);

async function startsNothing(runId: RunId, erased: RunId): Promise<void> {
  const { run_starts, start_keys, ...rows } = await store.rows(runId);
  expect(Object.values(rows).flat()).toEqual([]);
  const left = runId === erased ? 1 : 0;
  expect([run_starts.length, start_keys.length]).toEqual([left, left]);
}

describe.each(FORMS)("a start that the %s statement commits after its run was erased", (_, more) => {
  it("loses by the id of the run, and takes no key", async () => {
    const { runId } = await endedRun();
    await erase(runId);
    for (const row of [{}, keyed(uuidv7())]) {
      expect(await store.commit(creation({ runId, ...more() }, row))).toEqual(new Set());
      await startsNothing(runId, runId);
    }
  });

  it("loses by the key of the run", async () => {
    const { runId, key } = await endedRun();
    await erase(runId);
    const again = newRunId();
    expect(await store.commit(creation({ runId: again, ...more() }, keyed(key)))).toEqual(new Set());
    await startsNothing(again, runId);
  });

  it("does not keep the others of its group from winning", async () => {
    const { runId, key } = await endedRun();
    await erase(runId);
    const other = newRunId();
    const group = [creation({ runId, ...more() }), creation({ runId: other, ...more() }, keyed(uuidv7()))];
    expect(await store.commit(...group)).toEqual(new Set([other]));
    expect(await store.commit(creation({}, keyed(key)), creation({ runId: newRunId(), ...more() }))).toHaveLength(1);
  });
});

describe.each(FORMS)("a start that the %s statement commits while its run is erased", (_, more) => {
  it.each(["id", "key"])("loses by the %s", async (by) => {
    const { runId, key } = await endedRun();
    const again = by === "id" ? runId : newRunId();
    const holder = store.session();
    let [erasing, starting]: Promise<unknown>[] = [];
    await holder.sql.begin(async (transaction) => {
      // Whoever deletes a run shares this row: the erasure has done everything else, and cannot commit.
      await transaction`select from end_horizon where id = 1 for update`;
      erasing = erase(runId);
      const waits = async () =>
        (await store.sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)
          .length > 0;
      await until(waits, { what: "an erasure that waits" });
      starting = store.commit(creation({ runId: again, ...more() }, by === "key" ? keyed(key) : {})).catch(String);
      await until(
        async () =>
          (
            await store.sql`
        select from pg_stat_activity where datname = current_database() and query like '%new_run%' and pid <> pg_backend_pid()`
          ).length > 0,
        { what: "a start that was sent" },
      );
    });
    await holder.close();
    await erasing;
    expect(await starting).toEqual(new Set());
    await startsNothing(again, runId);
  });
});
