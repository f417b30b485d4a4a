// A hundred streams on one node, of which two in five stop reading: the others get every event, the stalled ones are closed
// with 1013 and lose nothing if they reconnect.
// @module-tag long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { report } from "../run/seen.js";
import { Client, committed, hangUp } from "./client.js";
import { appendEvents, insertRun, useRig } from "./rig.js";

const rig = useRig();
const folder = mkdtempSync(join(tmpdir(), "saga-streams-"));
afterEach(hangUp);
afterAll(() => rmSync(folder, { recursive: true }));

const RUNS = 5;
const STREAMS = 100;
const STALLED = (STREAMS * 2) / 5;
const BATCH = 3;
const METADATA = { text: "x".repeat(40_000) };

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe("a hundred streams on one node", () => {
  it("keep up if they read, beside others that do not", async () => {
    // A Unix socket holds 200 KB for a client that does not read; a TCP socket of this machine holds 4 MB, two hundred times.
    const at = join(folder, "api.sock");
    await rig.app.listen({ path: at });
    const runIds = await Promise.all(upTo(RUNS).map(() => insertRun(rig)));
    const clients: Client[] = [];
    // Not all at once: a hundred handshakes might overrun the listener's backlog.
    for (let index = 0; index < STREAMS; index += 20) {
      const more = upTo(20).map((nth) => new Client(at, runIds[(index + nth) % RUNS] ?? ""));
      clients.push(...more);
      await Promise.all(more.map((client) => client.has(1)));
    }
    const stalled = clients.filter((_, index) => index % 5 < 2);
    const good = clients.filter((client) => !stalled.includes(client));
    expect([stalled.length, good.length]).toEqual([STALLED, STREAMS - STALLED]);
    for (const client of stalled) client.socket.pause();

    // One that is closed is gone after a while: on a slow machine the first are, before the last are closed.
    const shut = new Set<object>();
    const look = () => {
      for (const each of rig.app.websocketServer.clients) if (each.readyState === each.CLOSING) shut.add(each);
      return shut.size;
    };
    let seq = 0;
    let most = 0;
    while (look() < STALLED) {
      expect(seq, "they were never too slow").toBeLessThan(2_000);
      for (const runId of runIds) {
        await appendEvents(
          rig,
          runId,
          upTo(BATCH).map(() => ({ metadata: METADATA })),
        );
        rig.feed.onCommit(
          runId,
          upTo(BATCH).map((nth) => committed(runId, seq + nth, { metadata: METADATA })),
        );
      }
      seq += BATCH;
      await Promise.all(good.map((client) => client.has(seq + 1)));
      most = Math.max(most, unsent());
    }
    // Told by all means: those that read have everything, in order, and are still there.
    for (const client of good) {
      expect(client.seqs).toEqual(upTo(seq));
      expect(client.code).toBeUndefined();
    }
    for (const client of stalled) client.socket.resume();
    for (const client of stalled) expect(await client.closed(30_000)).toBe(1013);
    for (const client of stalled) expect(client.seqs).toEqual(upTo(client.seqs.length));
    report({ streams: STREAMS, stalled: STALLED, events: seq * RUNS, mostUnsentMiB: Math.round(most / 2 ** 20) });

    const back = stalled.slice(0, 20).map((client) => {
      const seen = client.seqs.at(-1) ?? 0;
      return { seen, again: new Client(at, client.runId, `?after_seq=${seen}`) };
    });
    for (const { seen, again } of back) {
      await until(() => again.seqs.length >= seq - seen, { what: "what it missed" });
      expect(again.seqs).toEqual(upTo(seq, seen + 1));
    }
  });
});

/** The bytes that the process holds for clients that do not read. */
function unsent(): number {
  return [...rig.app.websocketServer.clients].reduce((sum, { bufferedAmount }) => sum + bufferedAmount, 0);
}
