// The cluster over HTTP: nodes by their heartbeats, the shards that they own, and the backlog, counted up to a bound.
import { hostname } from "node:os";
import { afterEach, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { ownerOf, SHARDS } from "../../src/shard/placement.js";
import { heartbeat } from "../../src/store/engine/nodes.js";
import { readBacklog } from "../../src/store/lists/backlog.js";
import { useRig } from "./rig.js";

const NODE = uuidv7();
const rig = useRig({ deps: { nodeId: NODE } });
afterEach(async () => {
  await rig.database.sql.unsafe("delete from nodes; delete from wakes; delete from inbox; delete from outbox");
  rig.ready = true;
});

const cluster = async () => {
  const { status, body } = await rig.call("GET", "/api/v1/cluster");
  expect(status).toBe(200);
  return body;
};

async function insertNode(nodeId: string, secondsAgo: number): Promise<void> {
  await rig.database.sql`
    insert into nodes (node_id, started_at, heartbeat_at, record_format, host, process_id)
    values (${nodeId}, now() - interval '2 days', now() - make_interval(secs => ${secondsAgo}), 3, 'elsewhere', 7)`;
}

/** Wakes of the shards 0 to 9 in turn, each a second longer due than the one before. */
async function insertWakes(count: number): Promise<void> {
  await rig.database.sql`
    insert into wakes (run_id, shard, due_at)
    select gen_random_uuid(), nth % 10, now() - nth * interval '1 s' from generate_series(1, ${count}::int) nth`;
}

describe("the nodes of the cluster", () => {
  it("own the shards that placement gives to those that are alive", async () => {
    const [other, dead, gone] = [uuidv7(), uuidv7(), uuidv7()];
    await insertNode(NODE, 0);
    await insertNode(other, 1);
    await insertNode(dead, 60);
    await insertNode(gone, 11 * 60);
    const { nodes, shards } = await cluster();
    const owned = (id: string) => SHARDS.filter((shard) => ownerOf(shard, [NODE, other]) === id).length;
    const seen = nodes.map((node: { node_id: string; alive: boolean; shards: number }) => [
      ...[node.node_id, node.alive, node.shards],
    ]);
    expect(new Set(seen)).toEqual(
      new Set([
        [NODE, true, owned(NODE)],
        [other, true, owned(other)],
        [dead, false, 0],
      ]),
    );
    expect(shards).toEqual({ count: 256, unowned: 0 });
  });

  it("have a release where it is known, and say that they drain", async () => {
    const other = uuidv7();
    await insertNode(NODE, 0);
    await insertNode(other, 0);
    rig.ready = false;
    const nodes = new Map(
      (await cluster()).nodes.map(({ node_id, ...node }: { node_id: string }) => [node_id, node] as const),
    );
    expect(nodes.get(NODE)).toMatchObject({ version: expect.stringMatching(/^\d/), draining: true });
    expect(nodes.get(other)).not.toHaveProperty("version");
  });

  it("say where they run, as their log lines do", async () => {
    const other = uuidv7();
    await heartbeat(rig.database.sql, { nodeId: NODE, recordFormat: 3, access: "off", staleSeconds: 5 });
    await insertNode(other, 0);
    const nodes = new Map(
      (await cluster()).nodes.map(({ node_id, ...node }: { node_id: string }) => [node_id, node] as const),
    );
    expect(nodes.get(NODE)).toMatchObject({ host: hostname(), process_id: process.pid });
    expect(nodes.get(other)).toMatchObject({ host: "elsewhere", process_id: 7 });
  });

  it("leave all shards without an owner when none is alive", async () => {
    await insertNode(NODE, 60);
    expect((await cluster()).shards).toEqual({ count: 256, unowned: 256 });
  });
});

describe("access control", () => {
  it("is off, and the cluster says so", async () => {
    expect((await cluster()).access).toBe("off");
  });
});

describe("the backlog", () => {
  it("has what is due, and for how long the oldest has been", async () => {
    expect((await cluster()).backlog).toEqual({ wakes_due: 0, inbox: 0, outbox: 0, waiting_for_workers: 0 });
    await insertWakes(30);
    await rig.database.sql`update wakes set due_at = now() + interval '1 hour' where shard = 3`;
    await rig.database.sql`
      insert into inbox (id, run_id, shard, command, due_at) values (gen_random_uuid(), gen_random_uuid(), 1, '{}', now())`;
    const { backlog } = await cluster();
    expect(backlog).toMatchObject({ wakes_due: 27, inbox: 1, outbox: 0 });
    expect(backlog.oldest_due_ms).toBeGreaterThanOrEqual(30_000);
  });

  it("is counted up to a bound, and says so", async () => {
    await insertWakes(30);
    expect(await readBacklog(rig.database.sql, SHARDS, 20)).toMatchObject({
      wakes_due: 20,
      count_is_lower_bound: true,
    });
    expect(await readBacklog(rig.database.sql, SHARDS, 30)).not.toHaveProperty("count_is_lower_bound");
  });

  it("has the calls that wait for workers, and names the nodes that did not say", async () => {
    const waiting = [2, 3].map((calls) => ({
      ...{ service: "shop", action: `pay${calls}`, version: 1, transport: "grpc" as const, calls },
    }));
    const { report } = rig.workers;
    rig.workers.report = async () => ({ workers: [], waiting, silent: ["n2"], leftOff: 0 });
    const answer = await cluster();
    rig.workers.report = report;
    expect(answer).toMatchObject({ backlog: { waiting_for_workers: 5 }, silent_nodes: ["n2"] });
  });
});

it("an unknown parameter is refused", async () => {
  expect((await rig.call("GET", "/api/v1/cluster?color=red")).status).toBe(400);
});
