// Dispatches to queues of a real broker, through a gate that a test can shut: what a message looks like, what is accepted, returned and
// tried again, and what a lost connection means. What a run makes of it is in carriers.test.ts.
import { randomUUID } from "node:crypto";
import { type Channel, type ChannelModel, type ConsumeMessage, connect } from "amqplib";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { Dispatch } from "../../machines/index.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { describeWithRabbitMq } from "../harness/services.js";
import { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";
import { openNode, type RequestNode } from "./requests-rig.js";
import { makeCall } from "./rig.js";

/** Longer than a busy machine holds up a message on its way. Messages that are to be given up wait so long. */
const PATIENCE_MS = 3_000;
const QUICK = { backoffMs: 20, backoffMaxMs: 50, askedMaxMs: 60_000, reachedMs: 1_000, forgetMs: 60_000 };

describeWithRabbitMq("a dispatch to a queue", (url) => {
  const nodes: RequestNode[] = [];
  const queues: string[] = [];
  const removed: string[] = [];
  let connection: ChannelModel;
  let channel: Channel;
  let gate: TcpGate;

  beforeAll(async () => {
    connection = await connect(url);
    channel = await connection.createChannel();
  });
  afterAll(() => connection.close());
  beforeEach(async () => {
    gate = new TcpGate(new URL(url));
    await gate.open();
  });
  afterEach(async () => {
    for (const node of nodes.splice(0)) await node.dispatcher.stop(0);
    for (const queue of queues.splice(0)) await channel.deleteQueue(queue);
    await gate.shut();
    removed.length = 0;
  });

  const newQueue = () => `saga-test.${randomUUID()}`;

  async function declare(queue: string): Promise<string> {
    await channel.assertQueue(queue, { durable: true });
    queues.push(queue);
    return queue;
  }

  /** The messages of the queue, as they come. */
  async function messagesOf(queue: string): Promise<ConsumeMessage[]> {
    const messages: ConsumeMessage[] = [];
    await channel.consume(queue, (message) => message && messages.push(message), { noAck: true });
    return messages;
  }

  async function open(limits: Partial<DispatchLimits> = {}): Promise<RequestNode> {
    const node = openNode({
      limits: { destinations: QUICK, accepted: { remembered: 100 }, ...limits },
      callbacks: {
        publicUrl: () => "http://saga.example",
        removeRows: async (ids) => void removed.push(...ids),
        rabbitmq: { url: gate.url },
      },
    });
    nodes.push(node);
    await until(() => [...node.dispatcher.away()].length === 0, { what: "a connection to RabbitMQ" });
    return node;
  }

  function dispatchTo(queue: string, more: Partial<Dispatch> = {}, call = {}): Dispatch {
    const timeoutMs = 60_000;
    return {
      ...{
        dispatchId: newDispatchId(),
        runId: newRunId(),
        dryRun: false,
        attempt: 1,
        deadlineAt: Date.now() + timeoutMs,
      },
      call: makeCall({ transport: "rmq", address: queue, timeoutMs, ...call }),
      ...more,
    };
  }

  function send(node: RequestNode, dispatch: Dispatch): Dispatch {
    if (!node.dispatcher.reserve(dispatch.dispatchId, dispatch.call)) throw new Error("no slot is free");
    node.dispatcher.send(dispatch);
    return dispatch;
  }

  const accepted = ({ dispatchId }: Dispatch) => until(() => removed.includes(dispatchId), { what: "the acceptance" });

  it("is persistent, and has its id, its key and the time that is left to it", async () => {
    const node = await open();
    const messages = await messagesOf(await declare(newQueue()));
    const dispatch = send(node, dispatchTo(queues[0] ?? ""));
    const { content, properties } = await until(() => messages[0]);
    const { runId, dispatchId } = dispatch;
    expect(properties).toMatchObject({
      ...{ messageId: dispatchId, deliveryMode: 2, contentType: "application/json", appId: "saga" },
      headers: { "idempotency-key": "key-1" },
    });
    expect([Number(properties.expiration) > 0, Number(properties.expiration) <= 60_000]).toEqual([true, true]);
    expect(JSON.parse(content.toString())).toMatchObject({
      ...{ dispatch_id: dispatchId, run_id: runId, inputs: { amount: 7 }, phase: "FORWARD" },
      callback_url: `http://saga.example/api/v1/sagas/${runId}/actions/charge/result?attempt=1&dispatch_id=${dispatchId}`,
    });
    await accepted(dispatch);
    expect([node.outcome(dispatch), node.dispatcher.inFlight]).toEqual([undefined, 1]);
  });

  it("of 60 days, or of the longest time that there is, is accepted and says in full how long it has", async () => {
    const node = await open();
    const messages = await messagesOf(await declare(newQueue()));
    for (const [nth, days] of [60, 3_660].entries()) {
      const deadlineAt = Date.now() + days * 86_400_000;
      const dispatch = send(node, dispatchTo(queues[0] ?? "", { deadlineAt }));
      const { content, properties } = await until(() => messages[nth]);
      expect(JSON.parse(content.toString()).timeout_ms).toBeGreaterThan((days - 1) * 86_400_000);
      // The broker takes ten years of 365 days at most.
      expect(properties.expiration === undefined).toBe(days === 3_660);
      await accepted(dispatch);
    }
  });

  it("that no queue takes is tried again until there is one, and until then the queue is missing", async () => {
    const node = await open({ destinations: { ...QUICK, backoffMs: 500, backoffMaxMs: 500 } });
    const queue = newQueue();
    const dispatch = send(node, dispatchTo(queue));
    await until(() => [...node.dispatcher.away()].length === 1);
    expect([...node.dispatcher.away()][0]).toMatchObject({
      ...{ transport: "rmq", destination: queue, reason: "no_queue", why: `there is no queue ${queue}` },
    });
    expect(node.dispatcher.reserve(newDispatchId(), dispatch.call)).toBeUndefined();
    const other = send(node, dispatchTo(await declare(newQueue())));
    await accepted(other);
    const messages = await messagesOf(await declare(queue));
    await accepted(dispatch);
    await until(() => messages.length === 1);
    expect([...node.dispatcher.away()]).toEqual([]);
  });

  it("that no queue takes for half of its time is given back, as no attempt", async () => {
    const node = await open();
    const dispatch = send(
      node,
      dispatchTo(newQueue(), { deadlineAt: Date.now() + 2 * PATIENCE_MS }, { timeoutMs: 2 * PATIENCE_MS }),
    );
    expect(await until(() => node.outcome(dispatch))).toMatchObject({
      ...{ type: "failure", code: "not_handed_over", notHandedOver: true, outcomeUnknown: false },
    });
  });

  it("that was not confirmed when the connection broke is sent again, with the same id and key, and never given back", async () => {
    const node = await open();
    const messages = await messagesOf(await declare(newQueue()));
    gate.mute();
    const dispatch = send(node, dispatchTo(queues[0] ?? ""));
    await until(() => messages.length === 1);
    await gate.shut();
    await until(() => [...node.dispatcher.away()][0]?.reason === "no_connection");
    await gate.open();
    await accepted(dispatch);
    await until(() => messages.length === 2);
    const ids = messages.map(({ properties }) => [properties.messageId, properties.headers?.["idempotency-key"]]);
    expect(ids).toEqual(Array(2).fill([dispatch.dispatchId, "key-1"]));
    expect(node.outcome(dispatch)).toBeUndefined();
  });

  it("that may have arrived is left to its deadline while the broker is away", async () => {
    const node = await open();
    const messages = await messagesOf(await declare(newQueue()));
    gate.mute();
    const dispatch = send(
      node,
      dispatchTo(queues[0] ?? "", { deadlineAt: Date.now() + PATIENCE_MS }, { timeoutMs: PATIENCE_MS }),
    );
    await until(() => messages.length === 1);
    await gate.shut();
    await until(() => !node.dispatcher.holds(dispatch.dispatchId));
    expect([Date.now() >= dispatch.deadlineAt, node.outcome(dispatch)]).toEqual([true, undefined]);
  });

  it("waits for credit while the broker is away, and is offered when it is back", async () => {
    const node = await open();
    const queue = await declare(newQueue());
    await gate.shut();
    await until(() => [...node.dispatcher.away()].length === 1);
    const { runId, dispatchId, call } = dispatchTo(queue);
    expect(node.dispatcher.reserve(dispatchId, call)).toBeUndefined();
    node.dispatcher.enqueue(runId, dispatchId, call);
    expect(node.runs.of("offer")).toEqual([]);
    await gate.open();
    await until(() => node.runs.of("offer").length === 1);
  });

  it("leaves slots for other queues while the broker confirms nothing", async () => {
    const node = await open({ messages: 8, messagesPerQueue: 8 });
    const [queue, other] = [await declare(newQueue()), await declare(newQueue())];
    gate.mute();
    const reserve = (name: string) => node.dispatcher.reserve(newDispatchId(), dispatchTo(name).call) !== undefined;
    expect(Array.from({ length: 10 }, () => reserve(queue)).filter(Boolean)).toHaveLength(4);
    expect(Array.from({ length: 10 }, () => reserve(other)).filter(Boolean)).toHaveLength(2);
  });

  it("that is larger than a broker takes fails, and breaks nothing", async () => {
    const node = await open({ messageBytes: 10_000 });
    const queue = await declare(newQueue());
    const large = send(node, dispatchTo(queue, {}, { inputs: { text: "x".repeat(10_000) } }));
    expect(await until(() => node.outcome(large))).toMatchObject({
      ...{ type: "failure", code: "limit_exceeded", retryable: false, outcomeUnknown: false },
    });
    await accepted(send(node, dispatchTo(queue)));
  });

  it("writes no password to the log", async () => {
    const node = await open();
    await gate.shut();
    await until(() => node.logged.some((line) => line.includes("connection to RabbitMQ lost")));
    expect(node.logged.join("\n")).not.toContain(new URL(url).password);
  });
});
