// A connection of a worker with thousands of streams that it does not read, as a broken pool opens them. Another worker of the same machine
// has its step all the same.
import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import type { MethodDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../../src/dispatch/limits.js";
import { PROTO_OPTIONS, protoPath, WORKER_SERVICE } from "../../src/sdk/protocol/index.js";
import { until } from "../harness/until.js";
import { dispatchNow, type Node, RawWorker, startNode, type Wire } from "./rig.js";

const STREAMS = 3_000;
const { path, requestSerialize } = (
  loadSync(protoPath(), PROTO_OPTIONS)[WORKER_SERVICE] as Record<string, MethodDefinition<object, object>>
).ExecuteStep as MethodDefinition<object, object>;

let node: Node;
let session: ClientHttp2Session;

beforeEach(async () => {
  node = await startNode();
  session = connect(`http://${node.target}`);
  await once(session, "remoteSettings");
});
afterEach(async () => {
  session.destroy();
  await node.stop();
});

/** The bytes of a message in a call: a flag, its length, and itself. */
function framed(message: object): Buffer {
  const bytes = requestSerialize(message);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

function openUnread(nth: number): void {
  const stream = session.request({
    ...{ ":method": "POST", ":path": path },
    ...{ "content-type": "application/grpc", te: "trailers" },
  });
  stream.on("error", () => {}).pause();
  const hello = { worker_id: `w${nth}`, service: "payments", actions: ["other"], max_in_flight: 1 };
  stream.write(framed({ hello }));
}

describe("3,000 streams of one connection that nothing reads", () => {
  it("leave room for another worker of the same machine, which has its step", async () => {
    for (let nth = 0; nth < STREAMS; nth++) openUnread(nth);
    const allowed = Math.min(STREAMS, session.remoteSettings.maxConcurrentStreams ?? STREAMS);
    const held = Math.min(allowed, DEFAULT_LIMITS.streamsPerAddress);
    await until(() => node.dispatcher.workers.connected === held, { what: `${held} streams at the node` });
    const worker = new RawWorker(node.target);
    worker.send({ hello: { worker_id: "good", service: "payments", actions: ["charge"], max_in_flight: 2 } });
    await until(() => worker.of("hello_ack").length > 0 || worker.ended, { what: "an answer to its hello" });
    expect(worker.error?.details, "the service refuses it").toBeUndefined();
    const { dispatchId } = dispatchNow(node);
    const { dispatch_id }: Wire = await worker.wait("execute");
    expect(dispatch_id).toBe(dispatchId);
    worker.cut();
  });
});
