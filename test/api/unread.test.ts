// Clients that send requests over real sockets and do not read the answers: what the node keeps for them is bounded, and ends.
// @module-tag long
import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import { insertRun, otherApi, useRig } from "./rig.js";
import { bytesOf } from "./wire.js";

const MIB = 1024 * 1024;
/** Answers that the API has ready for sending: it asks at each whether the connection is to be kept. */
let answers = 0;
const ready = () => {
  answers++;
  return true;
};
/** Longer than a busy machine holds up a client that reads. */
const UNREAD = { ms: 3_000, bytes: 60 * MIB };
const rig = useRig({ deps: { ready, unread: UNREAD } });

let large: string;
let small: string;
const sockets: Socket[] = [];
beforeAll(async () => {
  large = `/api/v1/sagas/${await insertRun(rig, { inputs: { text: "x".repeat(16 * MIB) } })}`;
  small = `/api/v1/sagas/${await insertRun(rig)}`;
  await rig.app.listen({ port: 0, host: "127.0.0.1" });
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Sends the requests at once. It reads nothing until it is resumed. */
async function client(paths: readonly string[], { server } = rig.app): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
  sockets.push(socket.on("error", () => {}));
  const [[accepted]] = await Promise.all([once(server, "connection"), once(socket, "connect")]);
  socket.write(paths.map((path) => bytesOf({ path })).join(""));
  return accepted;
}

/** Resumes the latest client. */
function received(): () => string {
  const chunks: Buffer[] = [];
  sockets
    .at(-1)
    ?.on("data", (chunk) => chunks.push(chunk))
    .resume();
  return () => Buffer.concat(chunks).toString("latin1");
}

describe("a client that reads no answer", () => {
  it("has one request handled at a time, and is gone when it has read nothing for a while", async () => {
    answers = 0;
    const connection = await client(Array(50).fill(large));
    await until(() => connection.destroyed, { what: "the end of the connection" });
    expect(answers).toBeLessThan(5);
  });

  it("is closed early if all unread answers together are too large", async () => {
    const patient = await otherApi(rig, {}, { unread: { ...UNREAD, ms: 60_000 } });
    await patient.listen({ port: 0, host: "127.0.0.1" });
    const connections: Socket[] = [];
    while (connections.length < 8) connections.push(await client([large], patient));
    await until(() => connections.some(({ destroyed }) => destroyed), { what: "the end of a connection" });
    await until(() => connections.filter(({ destroyed }) => destroyed).length >= 8 - 60 / 16 - 1);
    expect(connections.at(-1)?.destroyed).toBe(false);
    for (const socket of sockets) socket.destroy();
    await patient.close();
  });

  it("is gone if it sends requests without end", async () => {
    const connection = await client([`${small}?wait_ms=60000`, ...Array(200).fill(small)]);
    await until(() => connection.destroyed, { what: "the end of the connection" });
  });
});

describe("a client that reads", () => {
  it("gets the answers to all requests that it sends at once, in their order", async () => {
    const paths = Array.from({ length: 40 }, (_, nth) => (nth % 3 === 0 ? small : `/api/v1/none/${nth}`));
    await client([...paths, large]);
    const text = received();
    await until(() => text().length > 16 * MIB, { what: "the last answer" });
    const statuses = Array.from(text().matchAll(/HTTP\/1.1 (\d+)/g), ([, status]) => Number(status));
    expect(statuses).toEqual([...paths.map((path) => (path === small ? 200 : 404)), 200]);
  });

  it("keeps its connection while an answer takes longer than an unread one may", async () => {
    await client([small, `${small}?wait_ms=${UNREAD.ms + 500}`]);
    const text = received();
    await until(() => text().split("HTTP/1.1 200").length === 3, { what: "both answers" });
  });
});
