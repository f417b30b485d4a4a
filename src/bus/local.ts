// The bus of one process alone: it hears itself, and nobody else is there.
import type { Bus, BusOptions } from "./bus.js";
import { Exchange } from "./exchange.js";

export function createLocalBus({ nodeId, handlers, log }: Omit<BusOptions, "log"> & Partial<BusOptions>): Bus {
  // In a turn of its own, as any other bus would: nobody is called back from within a call.
  const exchange: Exchange = new Exchange({
    nodeId,
    handlers,
    ...(log && { log }),
    send: (to, text, askId) => {
      if (to === nodeId) setImmediate(() => exchange.heard(text));
      else if (askId !== undefined) exchange.unheard(askId);
    },
  });
  return {
    advance: (runId) => void setImmediate(() => exchange.heardAdvance(runId)),
    listen: (shards) => exchange.listen(shards),
    ask: (to, request, withinMs) => exchange.ask(to, request, withinMs),
    tell: (to, message) => exchange.tell(to, message),
    stop: async () => exchange.stop(),
  };
}
