// A node process for ipc.test.ts: a bus over real IPC, which executes orders of its primary from the same channel.

import type { JsonObject, RunId } from "../../machines/index.js";
import { IpcBus } from "../../src/bus/ipc.js";
import { createLogger } from "../../src/log.js";
import { shardSet } from "../harness/ids.js";

export interface Order {
  readonly order: number;
  readonly ask?: { readonly to: string; readonly request: JsonObject; readonly withinMs: number };
  readonly tell?: { readonly to: string; readonly message: JsonObject };
  readonly advance?: RunId;
  readonly listen?: readonly number[];
  readonly stop?: true;
}

export type Report =
  | { readonly done: number; readonly answer?: JsonObject }
  | { readonly advanced: string }
  | { readonly told: JsonObject; readonly from: string };

const nodeId = process.argv[2] ?? "unnamed";
const report = (what: Report) => void process.send?.(what);

const bus = new IpcBus({
  nodeId,
  log: createLogger({ logLevel: "silent" }),
  protocol: { ask: (body) => body, tell: (body) => body },
  handlers: {
    onAdvance: (advanced) => report({ advanced }),
    onAsk: async (request, from) => ({ echo: request, from, by: nodeId }),
    onTell: (told, from) => report({ told, from }),
  },
});

async function carryOut({ order, ask, tell, advance, listen, stop }: Order): Promise<void> {
  if (listen) bus.listen(shardSet(...listen));
  if (advance !== undefined) bus.advance(advance);
  if (tell) bus.tell(tell.to, tell.message);
  const answer = ask && (await bus.ask(ask.to, ask.request, ask.withinMs));
  if (stop) await bus.stop();
  report({ done: order, ...(answer && { answer }) });
  if (stop) process.disconnect();
}

process.on("message", (message: Partial<Order>) => {
  if (message.order !== undefined) void carryOut(message as Order);
});
report({ done: 0 });
