// The outbox rows of dispatches that workers have accepted: they go, unless they are all that moves their run.
import { describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { removeAccepted } from "../../src/store/engine/outbox.js";
import { countUnwatched } from "../../src/store/engine/poll.js";
import { AT, openCommitStore } from "./commit-rows.js";

const store = openCommitStore();

/** A run that waits so for its dispatch, and the row of that. */
async function waiting(kind: "queued" | "dispatched", isWoken: boolean) {
  const id = uuidv7();
  const runId = await store.created({ outbox_row: [{ id, kind: "action", due_at: AT }] });
  const record = { v: 1, wait: { kind, dispatchId: id } };
  await store.sql`update runs set state = 'running', record = ${JSON.stringify(record)}::text::json where id = ${runId}`;
  if (!isWoken) await store.sql`delete from wakes where run_id = ${runId}`;
  return { id, runId };
}

const rowsOf = async (ids: readonly string[]) => {
  const rows = await store.sql<{ id: string }[]>`select id from outbox where id = any(${[...ids]}::uuid[]) order by id`;
  return rows.map(({ id }) => id);
};

describe("an accepted dispatch", () => {
  it("has no row any more, many at once", async () => {
    const accepted = await Promise.all(Array.from({ length: 5 }, () => waiting("dispatched", true)));
    const ids = accepted.map(({ id }) => id);
    await removeAccepted(store.sql, [...ids, uuidv7()]);
    expect(await rowsOf(ids)).toEqual([]);
    await removeAccepted(store.sql, ids);
    await removeAccepted(store.sql, []);
  });

  it("keeps it where the store does not know that it was dispatched, as after a standby has taken over: the run would never go on", async () => {
    const { id, runId } = await waiting("queued", false);
    await removeAccepted(store.sql, [id]);
    expect(await rowsOf([id])).toEqual([id]);
    expect(await countUnwatched(store.sql)).toBe(0);
    await store.sql`delete from outbox where id = ${id}`;
    expect(await countUnwatched(store.sql), "without the row").toBe(1);
    await store.sql`delete from runs where id = ${runId}`;
  });
});
