// Every kind of message between nodes, on the real Redis: what was not sealed by a node, was received before, is too old, is cut short, or was
// made for another node does nothing, and is counted. The kinds are those of the protocols; one that this file does not have is red.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { asRunId, type JsonObject } from "../../machines/index.js";
import type { DropReason } from "../../src/bus/drop-counter.js";
import { createRedisBus } from "../../src/bus/redis.js";
import { Seal } from "../../src/bus/seal.js";
import { nodeProtocol } from "../../src/cluster/foundations.js";
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { packageRoot } from "../../src/config/package.js";
import type { DispatchAsk, Tell } from "../../src/dispatch/relay/messages.js";
import { uuidv7 } from "../../src/ids.js";
import type { RunAsk, RunTell } from "../../src/run/node-messages.js";
import { rowsOf } from "../cluster/access-rig.js";
import { Client } from "../faults/client.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { newRunId } from "../harness/ids.js";
import { describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";

type AskKind = (RunAsk | DispatchAsk)["kind"];
type TellKind = (RunTell | Tell)["kind"];

const action = { service: "shop", action: "charge", version: 1 };
const id = uuidv7();

/** A body of each kind, about this run. */
const asks = (run_id: string): Readonly<Record<AskKind, JsonObject>> => ({
  command: { run_id, reach: { tenants: "*" }, command: { type: "terminate", reason: "forged", actor: "user:ceo" } },
  catalog: {},
  keys: {},
  "dispatch.hand": {
    begun: false,
    dispatch: { dispatchId: id, runId: run_id, attempt: 1, call: { ...action, transport: "grpc" } },
  },
  "dispatch.cancel": { dispatch_id: id, reason: "forged" },
  "dispatch.roll_call": { dispatch_ids: [id] },
  "dispatch.workers": {},
  "dispatch.obstacles": { actions: [{ ...action, transport: "grpc" }] },
  "dispatch.holder": { dispatch_id: id },
  "dispatch.held": { node_id: id, dispatch_ids: [id] },
});
const tells = (run_id: string): Readonly<Record<TellKind, JsonObject>> => ({
  effects: { run_id, effects: [{ kind: "abort", dispatchId: id }] },
  "dispatch.want": { items: [{ ...action, calls: 1, alone: true }] },
  "dispatch.vouchers": { items: [{ ...action, id: `voucher:${id}`, worker_id: "w" }] },
  "dispatch.return": { items: [`voucher:${id}`] },
  "dispatch.resolved": { items: [id] },
  "dispatch.lost": { items: [id] },
  "dispatch.claim": { items: [{ dispatch_id: id, worker_id: "w", how: "held" }] },
});

interface Body {
  readonly name: string;
  readonly envelope: "ask" | "tell";
  readonly body: JsonObject;
}
const ofKind = (envelope: "ask" | "tell", bodies: Readonly<Record<string, JsonObject>>): Body[] =>
  Object.entries(bodies).map(([kind, body]) => ({ name: kind, envelope, body: { kind, ...body } }));
const bodies = (run_id: string = newRunId()): readonly Body[] => [
  ...ofKind("ask", asks(run_id)),
  ...ofKind("tell", tells(run_id)),
];

/** The kinds as the types in these files name them. */
const KINDS = ["run/node-messages.ts", "dispatch/relay/messages.ts"].flatMap((file) => {
  const text = readFileSync(join(packageRoot(), "src", file), "utf8");
  return [...text.matchAll(/^ {2}(?:readonly kind: "([\w.]+)"|"([\w.]+)": \w+);/gm)].map(
    ([, member, key]) => member ?? key,
  );
});

const KEY = "a key of thirty-two characters at least";
const OTHER_KEY = "another key of thirty-two characters";
const TOO_OLD_MS = 31_000;
const sealWith = (key: string, late = 0) => new Seal({ secrets: [key], now: () => Date.now() - late });
const sealed = (seal: Seal, channel: string, text: string) => JSON.stringify(seal.encrypt(channel, text));
const textOf = ({ envelope, body }: Body, from: string) =>
  JSON.stringify({ kind: envelope, ...(envelope === "ask" && { id: uuidv7() }), from, body });

/** What a stranger at Redis can send to a channel instead of that text. */
const forgeries = (channel: string, text: string): Readonly<Record<string, string>> => ({
  "without a seal": text,
  "under another key": sealed(sealWith(OTHER_KEY), channel, text),
  "with the body of another key": JSON.stringify({
    ...sealWith(KEY).encrypt(channel, "{}"),
    body: sealWith(OTHER_KEY).encrypt(channel, text).body,
  }),
  delayed: sealed(sealWith(KEY, TOO_OLD_MS), channel, text),
  early: sealed(sealWith(KEY, -TOO_OLD_MS), channel, text),
  "for another node": sealed(sealWith(KEY), `${channel}0`, text),
  "cut short": sealed(sealWith(KEY), channel, text).slice(0, -8),
  "with less of its body": JSON.stringify(
    ((one) => ({ ...one, body: one.body.slice(0, -8) }))(sealWith(KEY).encrypt(channel, text)),
  ),
});

it("has a body of every kind that nodes send, and the protocol knows each", () => {
  expect(KINDS.length).toBeGreaterThan(0);
  expect([...KINDS].sort()).toEqual(
    bodies()
      .map(({ name }) => name)
      .sort(),
  );
  for (const { name, envelope, body } of bodies())
    expect(nodeProtocol[envelope](body), name).toMatchObject({ kind: name });
});

describeWithRedis("a message between nodes", (url) => {
  let admin: Redis;
  beforeAll(() => {
    admin = new Redis(url);
  });
  afterAll(() => admin.quit());

  /** A node that only notes what arrives. */
  async function open(prefix: string) {
    const nodeId = uuidv7();
    const arrived: JsonObject[] = [];
    const dropped: DropReason[] = [];
    const take = (message: object) => void arrived.push(message as JsonObject);
    const bus = await createRedisBus({
      ...{
        url,
        prefix,
        nodeId,
        log: silentLog,
        protocol: nodeProtocol,
        seal: { secrets: [KEY], now: () => Date.now() },
      },
      handlers: {
        onAdvance: (runId) => take({ kind: "advance", runId }),
        onAsk: async (ask) => {
          take(ask);
          return { got: ask.kind };
        },
        onTell: take,
      },
      onDropped: (reason) => dropped.push(reason),
    });
    return { nodeId, bus, arrived, dropped, channel: `${prefix}saga:node:${nodeId}` };
  }

  it.each(bodies())("of the kind $name does nothing when it is forged, late, cut short, or repeated", async (one) => {
    const prefix = `test-${uuidv7()}:`;
    const node = await open(prefix);
    const asker = uuidv7();
    const answers: string[] = [];
    const listener = new Redis(url);
    await listener.subscribe(`${prefix}saga:node:${asker}`);
    listener.on("message", (_channel, text: string) => answers.push(text));
    const text = textOf(one, asker);
    const bad = Object.values(forgeries(node.channel, text));
    for (const forged of bad) await admin.publish(node.channel, forged);
    await until(() => node.dropped.length === bad.length, { what: "the count of what is forged" });
    expect([node.arrived, answers]).toEqual([[], []]);
    // The same text is taken from a node, once.
    const honest = sealed(sealWith(KEY), node.channel, text);
    for (let times = 0; times < 3; times++) await admin.publish(node.channel, honest);
    await until(() => node.dropped.length === bad.length + 2, { what: "the count of what is repeated" });
    expect(node.arrived).toMatchObject([{ kind: one.name }]);
    if (one.envelope === "ask") await until(() => answers.length > 0, { what: "the one answer" });
    expect(answers).toHaveLength(one.envelope === "ask" ? 1 : 0);
    expect(new Set(node.dropped)).toEqual(new Set(["unauthentic"]));
    await listener.quit();
    await node.bus.stop();
  });

  it("that answers another does nothing when it is forged, late, cut short, or repeated", async () => {
    const prefix = `test-${uuidv7()}:`;
    const node = await open(prefix);
    const asked = uuidv7();
    const [channel, opener] = [`${prefix}saga:node:${asked}`, sealWith(KEY)];
    const ids: string[] = [];
    const listener = new Redis(url);
    await listener.subscribe(channel);
    listener.on("message", (_channel, text: string) => {
      ids.push(JSON.parse(opener.decrypt(channel, JSON.parse(text)) ?? "{}").id);
    });
    const answer = node.bus.ask(asked, { kind: "catalog" }, 60_000);
    await until(() => ids.length === 1, { what: "the question" });
    const answering = (body: object) => JSON.stringify({ kind: "answer", id: ids[0], from: asked, body });
    const bad = Object.values(forgeries(node.channel, answering({ forged: true })));
    for (const forged of bad) await admin.publish(node.channel, forged);
    await until(() => node.dropped.length === bad.length, { what: "the count of what is forged" });
    const honest = sealed(sealWith(KEY), node.channel, answering({ forged: false }));
    for (let times = 0; times < 2; times++) await admin.publish(node.channel, honest);
    expect(await answer).toEqual({ forged: false });
    await until(() => node.dropped.length === bad.length + 1, { what: "the count of what is repeated" });
    expect(new Set(node.dropped)).toEqual(new Set(["unauthentic"]));
    await listener.quit();
    await node.bus.stop();
  });

  describe("to a whole node", () => {
    let database: TestDatabase;
    let node: NodeHandle;
    let client: Client;
    const prefix = `test-${uuidv7()}:`;
    beforeAll(async () => {
      database = await createTestDatabase();
      const env = { HTTP_PORT: "0", GRPC_PORT: "0", REDIS_URL: url, REDIS_PREFIX: prefix, SAGA_BUS_KEY: KEY };
      node = await startNode({ config: loadConfig(env).config, databaseUrl: database.url, log: silentLog });
      client = new Client(`http://127.0.0.1:${node.httpPort}`);
      await client.publish("waits", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
    });
    afterAll(async () => {
      await node?.stop();
      await database?.drop();
    });

    const counted = async () => {
      const page = await (await fetch(`${client.url}/metrics`)).text();
      return Number(/^saga_bus_dropped_total\{reason="unauthentic"\} (\d+)/m.exec(page)?.[1] ?? 0);
    };

    it("changes no row and is counted, of whatever kind; the same command from a node is carried out", async () => {
      const runId = asRunId(await client.start("waits"));
      await client.untilState(runId, "paused");
      const [nodeRow] = await database.sql<[{ id: string }]>`select node_id::text as id from nodes`;
      const channel = `${prefix}saga:node:${nodeRow.id}`;
      const [rows, before] = [await rowsOf(database), await counted()];
      let sent = 0;
      for (const one of bodies(runId))
        for (const forged of Object.values(forgeries(channel, textOf(one, uuidv7())))) {
          await admin.publish(channel, forged);
          sent++;
        }
      await until(async () => (await counted()) === before + sent, { what: "the count of what is forged" });
      expect(await rowsOf(database)).toEqual(rows);
      const [command] = bodies(runId);
      await admin.publish(channel, sealed(sealWith(KEY), channel, textOf(command as Body, uuidv7())));
      await until(async () => (await client.run(runId)).terminal_at !== undefined, {
        within: 20_000,
        what: "the end of the run",
      });
    });
  });
});
