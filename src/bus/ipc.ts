// The bus of a node process whose primary relays: one machine, no Redis. The relay is in relay.ts.
import { isUuid } from "../ids.js";
import type { Bus, BusOptions } from "./bus.js";
import { Exchange } from "./exchange.js";
import { frameOf } from "./frames.js";
import { createProcessPort, type Port } from "./port.js";

export interface IpcBusOptions extends BusOptions {
  /** Default: the channel to the process that forked this one. */
  readonly port?: Port;
}

/** A frame may be lost; the relay learns again who is here within this. */
const HERE_MS = 5_000;

export function createIpcBus({ nodeId, handlers, log, port = createProcessPort(process) }: IpcBusOptions): Bus {
  let shards: readonly number[] = [];
  let stopped = false;
  const exchange = new Exchange({
    nodeId,
    handlers,
    log,
    send: (to, text, askId) => port.send({ saga_bus: "node", to, text, ...(askId !== undefined && { ask_id: askId }) }),
  });
  const here = () => port.send({ saga_bus: "here", node_id: nodeId, shards });

  const hear = (message: unknown) => {
    const frame = frameOf(message);
    if (frame === undefined) return;
    if (frame === "malformed") exchange.tally.drop("malformed");
    else if (frame.saga_bus === "who") here();
    else if (frame.saga_bus === "advance") exchange.heardAdvance(frame.run_id);
    else if (frame.saga_bus === "unheard") exchange.unheard(frame.ask_id);
    else if (frame.saga_bus === "node" && frame.to === nodeId) exchange.heard(frame.text);
  };

  const leave = port.onMessage(hear);
  const saying = setInterval(here, HERE_MS).unref();
  here();

  return {
    advance(runId) {
      if (!isUuid(runId)) return exchange.tally.drop("malformed");
      if (!stopped) port.send({ saga_bus: "advance", run_id: runId });
    },
    listen(wanted) {
      exchange.listen(wanted);
      shards = [...wanted];
      if (!stopped) here();
    },
    ask: (to, request, withinMs) => exchange.ask(to, request, withinMs),
    tell: (to, message) => exchange.tell(to, message),
    async stop() {
      if (stopped) return;
      stopped = true;
      exchange.stop();
      clearInterval(saying);
      leave();
      port.send({ saga_bus: "gone" });
    },
  };
}
