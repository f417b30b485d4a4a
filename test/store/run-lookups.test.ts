// Lookups that share a statement: who is read with whom, and what becomes of them when the statement ends early.

import type { Sql } from "postgres";
import { describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { EVERYTHING, reachOf } from "../../src/access/index.js";
import type { Reach } from "../../src/store/lists/reach.js";
import type { ReadPool } from "../../src/store/lists/read-pool.js";
import { RunLookups } from "../../src/store/lists/run-lookups.js";
import type { RunView } from "../../src/store/lists/runs.js";
import { newRunId } from "../harness/ids.js";
import { principalOf } from "../harness/verifier.js";

const readerOf = (reach: Reach) => ({ closed: new AbortController().signal, reach });
const here = readerOf(EVERYTHING);

/** Reads whose sessions and statements the test hands out. */
function held() {
  const sessions: (() => void)[] = [];
  const statements: { readonly runIds: readonly RunId[]; readonly reach: Reach; answer(): void; fail(): void }[] = [];
  const look: ReadPool["look"] = async ({ reach }, read) => {
    await new Promise<void>((resolve) => sessions.push(resolve));
    return read(undefined as unknown as Sql, reach);
  };
  const readRuns = (_: Sql, reach: Reach, runIds: readonly RunId[]) =>
    new Promise<ReadonlyMap<RunId, RunView>>((resolve, reject) => {
      const answer = () => resolve(new Map(runIds.map((id) => [id, viewOf(id)])));
      statements.push({ runIds, reach, answer, fail: () => reject(new Error("cancelled")) });
    });
  const session = async () => {
    sessions.shift()?.();
    await new Promise(setImmediate);
  };
  return { lookups: new RunLookups({ look }, readRuns), statements, session };
}

const viewOf = (id: RunId): RunView => ({ run: { id }, lastSeq: 1, terminal: false });

describe("lookups of runs", () => {
  it("that wait for a session are read in the statement of the one that gets it", async () => {
    const { lookups, statements, session } = held();
    const ids = [newRunId(), newRunId(), newRunId()];
    const all = ids.map((id) => lookups.run(id, here));
    await session();
    expect(statements.map(({ runIds }) => runIds)).toEqual([ids]);
    statements[0]?.answer();
    await session();
    await session();
    expect(await Promise.all(all)).toEqual(ids.map(viewOf));
    expect(statements).toHaveLength(1);
  });

  it("are eight in a statement at most", async () => {
    const { lookups, statements, session } = held();
    const all = Array.from({ length: 9 }, () => lookups.run(newRunId(), here));
    for (const _ of all) await session();
    expect(statements.map(({ runIds }) => runIds.length)).toEqual([8, 1]);
    for (const { answer } of statements) answer();
    expect(await Promise.all(all)).toHaveLength(9);
  });

  it("get nothing that was read before they asked", async () => {
    const { lookups, statements, session } = held();
    const id = newRunId();
    const first = lookups.run(id, here);
    await session();
    const second = lookups.run(id, here);
    await session();
    expect(statements.map(({ runIds }) => runIds)).toEqual([[id], [id]]);
    for (const { answer } of statements) answer();
    expect(await Promise.all([first, second])).toEqual([viewOf(id), viewOf(id)]);
  });

  it("are read again where the statement ended with the client of another", async () => {
    const { lookups, statements, session } = held();
    const [mine, other] = [newRunId(), newRunId()];
    const gone = lookups.run(other, here);
    const staying = lookups.run(mine, here);
    await session();
    statements[0]?.fail();
    await expect(gone).rejects.toThrow("cancelled");
    await session();
    statements[1]?.answer();
    expect(await staying).toEqual(viewOf(mine));
    expect(statements.map(({ runIds }) => runIds)).toEqual([[other, mine], [mine]]);
  });

  it("are never read together for two principals, be they of one tenant", async () => {
    const { lookups, statements, session } = held();
    const tenantId = "0190a000-0000-7000-8000-00000000000a";
    const [ann, bob] = ["ann", "bob"].map((name) => reachOf(principalOf(name, { roles: ["viewer"], tenantId })));
    const ids = [newRunId(), newRunId(), newRunId()] as const;
    const all = [ann, bob, ann].map((reach, nth) => lookups.run(ids[nth] as RunId, readerOf(reach as Reach)));
    await session();
    await session();
    expect(statements).toMatchObject([
      { runIds: [ids[0], ids[2]], reach: ann },
      { runIds: [ids[1]], reach: bob },
    ]);
    for (const { answer } of statements) answer();
    await session();
    expect(await Promise.all(all)).toEqual(ids.map(viewOf));
  });
});
