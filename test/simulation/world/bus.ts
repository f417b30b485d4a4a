// The bus between simulated nodes: each node's own exchange, and between them a network that loses, repeats, delays and reorders what it carries, and
// that brings what no node has sent.
import type { RunId } from "../../../machines/index.js";
import type { Bus, BusOptions } from "../../../src/bus/bus.js";
import { Exchange } from "../../../src/bus/exchange.js";
import type { Chance, Life, World } from "./world.js";

export interface BusFaults {
  /** Of a message, from 0 to 1. */
  readonly lost: number;
  readonly repeated: number;
  readonly late: number;
  readonly forged: number;
}

export const NO_BUS_FAULTS: BusFaults = { lost: 0, repeated: 0, late: 0, forged: 0 };

interface End {
  readonly life: Life;
  readonly exchange: Pick<Exchange<never, never>, "receive" | "receiveAdvance">;
}

const LATENCY_MS = 2;
const LATE_MS = 5_000;

export class SimulatedBus {
  faults: BusFaults = NO_BUS_FAULTS;
  readonly seen: Record<string, number> = {};
  private readonly ends = new Map<string, End>();

  constructor(
    private readonly world: World,
    private readonly chance: Chance,
  ) {}

  open<Ask, Tell>(life: Life, options: BusOptions<Ask, Tell>): Bus {
    const exchange = new Exchange<Ask, Tell>({
      ...options,
      send: (to, text, askId) => {
        const end = this.ends.get(to);
        if (end?.life.isAlive) this.carry(end.life, () => end.exchange.receive(this.altered(text)));
        else if (askId !== undefined) this.world.later(this.latency(), () => exchange.undelivered(askId), life);
      },
    });
    this.ends.set(options.nodeId, { life, exchange });
    const advance = (runId: RunId) => {
      for (const end of this.ends.values())
        if (end.life.isAlive) this.carry(end.life, () => end.exchange.receiveAdvance(runId));
    };
    return {
      advance,
      listen: (shards) => exchange.listen(shards),
      ask: (to, request, withinMs) => exchange.ask(to, request, withinMs),
      tell: (to, message) => exchange.tell(to, message),
      stop: async () => {
        this.ends.delete(options.nodeId);
        exchange.stop();
      },
    };
  }

  private latency(): number {
    return this.chance() * LATENCY_MS;
  }

  private carry(to: Life, arrive: () => void): void {
    const { lost, repeated, late } = this.faults;
    const drawn = this.chance();
    if (drawn < lost) return this.count("lost");
    const times = drawn < lost + repeated ? 2 : 1;
    if (times > 1) this.count("repeated");
    for (let nth = 0; nth < times; nth++) {
      const isLate = this.chance() < late;
      if (isLate) this.count("late");
      this.world.later(isLate ? this.chance() * LATE_MS : this.latency(), arrive, to);
    }
  }

  /** What a stranger, or a broken node, would send. */
  private altered(text: string): string {
    if (this.chance() >= this.faults.forged) return text;
    this.count("forged");
    const drawn = this.chance();
    if (drawn < 0.3) return text.slice(0, Math.floor(this.chance() * text.length));
    if (drawn < 0.6) return text.replace(/"from":"[^"]*"/, '"from":"01900000-0000-7000-8000-00000000dead"');
    return JSON.stringify({ kind: "tell", from: "a stranger", body: { kind: "nothing", run_id: 7 } });
  }

  private count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }
}
