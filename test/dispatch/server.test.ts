// Health and reflection answer beside the worker service, as tools expect them.

import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { credentials, makeGenericClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { protoPath } from "grpc-health-check";
import { afterEach, describe, expect, it } from "vitest";
import { TcpRelay } from "../harness/tcp-relay.js";
import { until } from "../harness/until.js";
import { dispatchNow, type Node, RawWorker, startNode, type Wire } from "./rig.js";

let node: Node;

afterEach(() => node.stop());

function client(proto: string, service: string): Wire {
  const definition: Wire = loadSync(proto, { keepCase: true, enums: String });
  return new (makeGenericClientConstructor(definition[service], service))(node.target, credentials.createInsecure());
}

describe("the gRPC server", () => {
  it("answers health checks, for all and for the worker service", async () => {
    node = await startNode();
    const health = client(protoPath, "grpc.health.v1.Health");
    for (const service of ["", "saga.worker.v1.WorkerService"]) {
      const answer = await new Promise((resolve, reject) =>
        health.Check({ service }, (error: unknown, value: unknown) => (error ? reject(error) : resolve(value))),
      );
      expect(answer).toEqual({ status: "SERVING" });
    }
    health.close();
  });

  it("lists its services by reflection", async () => {
    node = await startNode();
    const root = dirname(createRequire(import.meta.url).resolve("@grpc/reflection/package.json"));
    const reflection = client(
      join(root, "build/proto/grpc/reflection/v1/reflection.proto"),
      "grpc.reflection.v1.ServerReflection",
    );
    const call = reflection.ServerReflectionInfo();
    const answer = await new Promise<Wire>((resolve, reject) => {
      call.on("data", resolve);
      call.on("error", reject);
      call.write({ list_services: "*" });
    });
    call.end();
    reflection.close();
    expect(answer.list_services_response.service.map(({ name }: Wire) => name)).toContain(
      "saga.worker.v1.WorkerService",
    );
  });

  it("serves a worker whatever another connection of its machine opens, which has as many streams as were announced to it", async () => {
    const streamsPerConnection = 20;
    node = await startNode({ limits: { streamsPerConnection, streamsPerAddress: 100 } });
    const first = new RawWorker(node.target);
    const flood = [first, ...Array.from({ length: 299 }, () => new RawWorker(node.target, first))];
    for (const [nth, each] of flood.entries())
      each.send({ hello: { worker_id: `w${nth}`, service: "payments", actions: ["other"], max_in_flight: 1 } });
    const known = () => flood.filter((each) => each.of("hello_ack").length > 0);
    await until(() => known().length >= streamsPerConnection, { what: "the streams that it may have" });
    const worker = await RawWorker.connect(node.target, { worker_id: "good", actions: ["charge"] });
    const { dispatchId } = dispatchNow(node);
    expect(await worker.wait("execute")).toMatchObject({ dispatch_id: dispatchId });
    // The others wait with their client: none is refused, and they come as room comes.
    expect([known().length, flood.filter(({ ended }) => ended).length]).toEqual([streamsPerConnection, 0]);
    for (const each of known()) each.leave();
    await until(() => known().length === 2 * streamsPerConnection, { what: "the next ones" });
    for (const each of [worker, ...flood]) each.cut();
  });

  it("ends the stream of a worker that falls silent, and its dispatch goes to another one", async () => {
    // A worker is silent for longer than a busy machine holds it up.
    node = await startNode({ keepalive: { afterMs: 200, waitMs: 3_000 } });
    const relay = await TcpRelay.before(node.port);
    const silent = await RawWorker.connect(relay.address);
    const { dispatchId } = dispatchNow(node);
    await silent.wait("execute");
    const other = await RawWorker.connect(node.target, { worker_id: "w2" });
    relay.freeze();
    expect((await other.wait("execute")).dispatch_id).toBe(dispatchId);
    expect(silent.ended, "the network tells it nothing").toBe(false);
    silent.cut();
    other.cut();
    await relay.close();
  });

  it("stops, twice", async () => {
    node = await startNode();
    await node.stop();
    await node.stop();
  });
});
