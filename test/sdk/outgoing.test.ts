// What one side of a stream sends: in order, one by one or as batches, bounded, and nothing while the peer is slow.
import { describe, expect, it } from "vitest";
import { BATCH_MESSAGES, Outgoing } from "../../src/sdk/protocol/outgoing.js";

interface Message {
  readonly nth?: number;
  readonly bytes?: number;
  readonly batch?: readonly Message[];
}

function outgoing(batches: boolean) {
  const written: Message[] = [];
  const peer = { reads: true };
  const out = new Outgoing<Message, Message>({
    write: (message) => {
      written.push(message);
      return peer.reads;
    },
    batchOf: (batch) => ({ batch }),
    weigh: ({ bytes = 0 }) => bytes,
  });
  out.batches = batches;
  const send = (count: number, bytes?: number) => {
    for (let nth = 0; nth < count; nth++) out.send({ nth, ...(bytes && { bytes }) });
  };
  const sizes = () => written.map(({ batch }) => batch?.length ?? 1);
  return { out, peer, written, send, sizes };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("to a peer that reads batches", () => {
  it("the messages of a turn go out as one, in their order, and a single one as itself", async () => {
    const { send, written } = outgoing(true);
    send(3);
    expect(written).toEqual([]);
    await turn();
    send(1);
    await turn();
    expect(written).toEqual([{ batch: [{ nth: 0 }, { nth: 1 }, { nth: 2 }] }, { nth: 0 }]);
  });

  it("a batch is bounded in messages and in bytes, and a large message travels alone", async () => {
    const { send, sizes } = outgoing(true);
    send(BATCH_MESSAGES + 1);
    send(3, 100_000);
    send(2, 500_000);
    await turn();
    expect(sizes()).toEqual([BATCH_MESSAGES, 3, 1, 1, 1]);
  });

  it("what waits is written at once where the stream is about to end", () => {
    const { out, send, sizes } = outgoing(true);
    send(2);
    out.flush();
    expect(sizes()).toEqual([2]);
  });
});

describe("to any other peer", () => {
  it("each message goes out alone and at once", () => {
    const { send, written } = outgoing(false);
    send(2);
    expect(written).toEqual([{ nth: 0 }, { nth: 1 }]);
  });
});

it.each([true, false])("nothing is written while the peer is slow to read (batches: %s)", async (batches) => {
  const { out, peer, send, sizes } = outgoing(batches);
  peer.reads = false;
  send(1);
  await turn();
  send(2);
  await turn();
  expect([sizes(), out.blocked, out.waiting]).toEqual([[1], true, 2]);
  peer.reads = true;
  out.resume();
  expect([sizes(), out.waiting]).toEqual([batches ? [1, 2] : [1, 1, 1], 0]);
});
