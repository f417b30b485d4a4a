// Connections on their way to a node that dies. node:cluster reports the end of the process and the end of its channel apart, in either
// order, and hands connections to the node until it has seen both.
import type { ChildProcess } from "node:child_process";
import { EventEmitter } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { watchHandoffs } from "../../src/cluster/handoffs.js";

class FakeNode extends EventEmitter {
  readonly sent: unknown[] = [];
  send = (...args: unknown[]): boolean => {
    this.sent.push(args[0]);
    return true;
  };

  /** Hands over a connection as node:cluster does. */
  give(seq: number) {
    const handle = { close: vi.fn() };
    this.send({ cmd: "NODE_CLUSTER", act: "newconn", key: "tcp:0", seq }, handle);
    return handle.close;
  }
}

function watched() {
  const node = new FakeNode();
  return { node, end: watchHandoffs(node as unknown as ChildProcess) };
}

describe("a connection that is handed to a node", () => {
  it("is closed if the node dies before it has taken the connection", () => {
    const { node, end } = watched();
    const [taken, underway] = [node.give(1), node.give(2)];
    node.emit("internalMessage", { ack: 1, accepted: true });
    end();
    expect([taken.mock.calls.length, underway.mock.calls.length]).toEqual([0, 1]);
  });

  it("is closed if the process has ended already, and its channel has not", () => {
    const { node, end } = watched();
    end();
    const sent = node.sent.length;
    expect(node.give(1)).toHaveBeenCalledTimes(1);
    expect(node.sent.length, "nobody would take it").toBe(sent);
  });

  it("is passed on unchanged, like every other message", () => {
    const { node } = watched();
    expect(node.give(1)).not.toHaveBeenCalled();
    node.send({ type: "stop" });
    expect(node.sent).toEqual([{ cmd: "NODE_CLUSTER", act: "newconn", key: "tcp:0", seq: 1 }, { type: "stop" }]);
  });
});
