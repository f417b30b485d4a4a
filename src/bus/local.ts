// The bus of a single process: it receives its own messages, and there is no other node.
import { setImmediate } from "../ambient.js";
import type { Bus, BusOptions } from "./bus.js";
import { Exchange } from "./exchange.js";

export function createLocalBus<Ask, Tell>({
  nodeId,
  protocol,
  handlers,
  log,
}: Omit<BusOptions<Ask, Tell>, "log"> & Partial<BusOptions<Ask, Tell>>): Bus {
  // In a later turn, as over any other bus: no handler runs inside the call that sends.
  const exchange: Exchange<Ask, Tell> = new Exchange({
    nodeId,
    protocol,
    handlers,
    ...(log && { log }),
    send: (to, text, askId) => {
      if (to === nodeId) setImmediate(() => exchange.receive(text));
      else if (askId !== undefined) exchange.undelivered(askId);
    },
  });
  return {
    advance: (runId) => void setImmediate(() => exchange.receiveAdvance(runId)),
    listen: (shards) => exchange.listen(shards),
    ask: (to, request, withinMs) => exchange.ask(to, request, withinMs),
    tell: (to, message) => exchange.tell(to, message),
    stop: async () => exchange.stop(),
  };
}
