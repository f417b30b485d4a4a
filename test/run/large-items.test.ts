// A loop over many large items at one step a commit: what goes to Postgres and comes from it is in proportion to the items. It is counted
// on the wire, not by time.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RunId } from "../../machines/index.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { loadRun } from "../../src/store/engine/load.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { type Half, publish, start, startHalf } from "./rig.js";
import { allEnd } from "./seen.js";

const ITEM_CHARS = 20_000;

let database: TestDatabase;
let wire: Wire;
let node: Half;
beforeAll(async () => {
  database = await createTestDatabase();
  await publish(database, "large", [
    { id: "each", type: "foreach", items: "inputs.items", body: "first", max_concurrency: 5 },
    { id: "first", type: "transform", expression: "size(item.text)", next: "second" },
    { id: "second", type: "transform", expression: "vars.first" },
  ]);
  await publish(database, "parked", [
    { id: "each", type: "foreach", items: "inputs.items", body: "wait", max_concurrency: 20 },
    { id: "wait", type: "wait_for_signal", signal_name: "go" },
  ]);
});
beforeEach(async () => {
  wire = await Wire.to(database.url);
  node = await startHalf(database, { url: wire.url, stepsPerCommit: 1 });
});
afterEach(async () => {
  await node.stop();
  await wire.close();
});
afterAll(() => database.drop());

/** Counts what passes between a node and Postgres. */
class Wire {
  sent = 0;
  received = 0;
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly target: URL,
    private readonly server: Server,
  ) {
    server.on("connection", (client) => this.pass(client));
  }

  static async to(url: string): Promise<Wire> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new Wire(new URL(url), server);
  }

  get url(): string {
    const url = new URL(this.target);
    url.host = `127.0.0.1:${(this.server.address() as AddressInfo).port}`;
    return url.href;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private pass(client: Socket): void {
    const server = connect(Number(this.target.port) || 5432, this.target.hostname);
    client.on("data", (chunk) => {
      this.sent += chunk.length;
    });
    server.on("data", (chunk) => {
      this.received += chunk.length;
    });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.sockets.add(one.on("error", () => one.destroy()));
      one.on("close", () => other.destroy());
      one.pipe(other);
    }
  }
}

const listOf = (count: number) => Array.from({ length: count }, (_, nth) => ({ nth, text: "x".repeat(ITEM_CHARS) }));

/** The cost of a run with so many items, in bytes. */
async function cost(count: number) {
  const before = { sent: wire.sent, received: wire.received };
  const id = await start(node.starter, "large", { inputs: { items: listOf(count) } });
  await allEnd(database.sql, [id]);
  expect(await database.sql`select state from runs where id = ${id}`).toEqual([{ state: "succeeded" }]);
  return { sent: wire.sent - before.sent, received: wire.received - before.received };
}

describe("a loop over large items at one step a commit", () => {
  it("sends and reads in proportion to the items", async () => {
    // Statements are prepared when they are first used.
    await cost(10);
    const [few, many] = [await cost(10), await cost(40)];
    // Another session of the pool may prepare its statements meanwhile, which takes less than one item.
    expect(many.sent).toBeLessThan(5 * few.sent + ITEM_CHARS);
    expect(many.received).toBeLessThan(5 * few.received + ITEM_CHARS);
  });

  it("reads the inputs once for all items that are loaded again", async () => {
    const id = await start(node.starter, "parked", { inputs: { items: listOf(20) } });
    const items = await until(async () => {
      const found = await database.sql<{ id: RunId }[]>`
        select id from runs where parent_run_id = ${id} and awaited_signal = 'go'`;
      return found.length === 20 && found;
    });
    const other = openDatabase(wire.url, { max: 1, applicationName: "saga-other", log: silentLog });
    const received = wire.received;
    const loaded = [];
    for (const item of items) loaded.push(await loadRun(other.sql, item.id));
    expect(loaded.map((run) => run?.stored.identity.inputs)).toEqual(items.map(() => ({ items: listOf(20) })));
    expect(wire.received - received).toBeLessThan(3 * 20 * ITEM_CHARS);
    await other.close();
  });
});
