// The events of one run over two nodes: the first loses the broker in the middle of publishing, before the confirmation of an event or
// before the commit that removes what is confirmed, and the second goes on. Events may come again, and none comes before the first copy of an older one.
import { afterEach, beforeEach, expect, it } from "vitest";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { Client } from "../faults/client.js";
import { accessSettings } from "../harness/access.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { until } from "../harness/until.js";
import { CuttingProxy } from "../run/cutting-proxy.js";
import { nothingUnwatched } from "../run/seen.js";
import { Exchange } from "./rig.js";

const emits = (id: string, next: string) => ({ id, type: "emit_event", topic: `n.${id}`, next });
const BEFORE = ["saga.run.started", "n.one", "n.two"];
const AFTER = ["n.three", "n.four", "saga.run.succeeded"];

describeWithRabbitMq("the events of a run that another node goes on publishing", (url) => {
  let database: TestDatabase;
  let exchange: Exchange;
  /** The way of the first node to Postgres. Its way to the broker is the exchange's gate. */
  let proxy: CuttingProxy;
  let nodes: NodeHandle[];
  let client: Client;

  beforeEach(async () => {
    database = await createTestDatabase({ max: 2 });
    proxy = await CuttingProxy.before(database.url);
    exchange = await Exchange.open(url);
    nodes = [];
    const first = await open(proxy.url, exchange.env);
    client = new Client(`http://127.0.0.1:${first.httpPort}`);
    await client.publish("tell", [
      ...[emits("one", "two"), emits("two", "wait")],
      { id: "wait", type: "wait_for_signal", signal_name: "go", next: "three" },
      ...[emits("three", "four"), emits("four", "end")],
      { id: "end", type: "end" },
    ]);
  });
  afterEach(async () => {
    for (const node of nodes) await node.stop();
    await exchange.close();
    await proxy.close();
    await nothingUnwatched(database.sql);
    await database.drop();
  });

  async function open(databaseUrl: string, broker: Exchange["env"]): Promise<NodeHandle> {
    const env = {
      HTTP_PORT: "0",
      GRPC_PORT: "0",
      LOG_LEVEL: "silent",
      SAGA_LIFECYCLE_EVENTS: "on",
      ...accessSettings(),
      ...broker,
    };
    const node = await startNode({ config: loadConfig(env).config, databaseUrl, log: silentLog });
    nodes.push(node);
    return node;
  }

  const takeOver = () => open(database.url, exchange.envAt(url));
  const owed = async () => (await database.sql`select 1 from outgoing_events`).length;
  const heard = () => exchange.heard.map(({ fields }) => fields.routingKey);
  const goOn = async (runId: string) => {
    await client.insist("POST", `/sagas/${runId}/signal/go`, {});
    await client.untilState(runId, "succeeded");
  };

  it("keep their order if the first node is cut off before one of them is confirmed", async () => {
    const runId = await client.start("tell");
    await client.untilState(runId, "paused");
    await until(async () => (await owed()) === 0 && heard().length === BEFORE.length);
    exchange.gate.mute();
    await goOn(runId);
    // Published and not confirmed, so nothing after it is published.
    await until(() => heard().length > BEFORE.length);
    expect([heard(), await owed()]).toEqual([[...BEFORE, "n.three"], AFTER.length]);
    await exchange.gate.shut();
    await takeOver();
    await until(async () => (await owed()) === 0, { what: "the publication of all events" });
    await until(() => heard().at(-1) === "saga.run.succeeded");
    expect(heard()).toEqual([...BEFORE, "n.three", ...AFTER]);
    expect(firstCopies(exchange)).toEqual([...BEFORE, ...AFTER]);
  });

  it("keep their order if the first node is cut off before the rows of those that are confirmed are removed", async () => {
    await exchange.gate.shut();
    const runId = await client.start("tell");
    await client.untilState(runId, "paused");
    await until(async () => (await owed()) === BEFORE.length);
    const held = proxy.holdAt("delete from outgoing_events", "before");
    await exchange.gate.open();
    const removal = await held;
    await goOn(runId);
    expect([heard(), await owed()]).toEqual([BEFORE, BEFORE.length + AFTER.length]);
    await exchange.gate.shut();
    await takeOver();
    await until(async () => (await owed()) === 0, { what: "the publication of all events" });
    await until(() => heard().at(-1) === "saga.run.succeeded");
    expect(heard()).toEqual([...BEFORE, ...BEFORE, ...AFTER]);
    expect(firstCopies(exchange)).toEqual([...BEFORE, ...AFTER]);
    removal.release();
  });
});

/** The first copy of each message id: what a consumer has that drops repeats. */
function firstCopies({ heard }: Exchange): string[] {
  const topics = new Map<string, string>();
  for (const { fields, properties } of heard)
    if (!topics.has(properties.messageId)) topics.set(properties.messageId, fields.routingKey);
  return [...topics.values()];
}
