// What can happen to an order in the demo: the scenarios, how often each occurs, and how it must end. The misbehaviour itself is
// in worker.ts and in the carrier of batch.ts.
import { ARMCHAIR, type Article, NOTEBOOK, type Order, TEAPOT, UNICORN } from "./books.js";

export interface Scenario {
  /** The approximate number in a hundred orders. */
  readonly share: number;
  readonly says: string;
  /** `undone`: it can never be fulfilled. `fulfilled`: it is, unless kills use up its retries or its time. */
  readonly end: "fulfilled" | "undone";
}

export const SCENARIOS = {
  plain: { share: 52, says: "nothing goes wrong", end: "fulfilled" },
  slow_warehouse: { share: 4, says: "reserving takes three seconds, with heartbeats", end: "fulfilled" },
  flaky_warehouse: { share: 4, says: "reserving fails at first, then works", end: "fulfilled" },
  out_of_stock: { share: 4, says: "the article is not in stock", end: "undone" },
  card_declined: { share: 5, says: "the bank declines the card", end: "undone" },
  throws_once: { share: 4, says: "charged, then the worker throws; the retry finds the charge", end: "fulfilled" },
  charged_then_throws: { share: 5, says: "charged, then the worker throws, every time", end: "undone" },
  charged_then_silent: { share: 5, says: "charged, then no answer, every time", end: "undone" },
  charged_too_late: { share: 3, says: "no answer, and the charge arrives after its refund", end: "undone" },
  parcel_lost: { share: 4, says: "the carrier loses the parcel", end: "undone" },
  parcel_missing: { share: 3, says: "the carrier never reports", end: "undone" },
  parcel_garbled: { share: 2, says: "the carrier's report is unreadable", end: "undone" },
  unreachable: { share: 5, says: "the customer cannot be notified", end: "undone" },
} as const satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;

export const SCENARIO_NAMES = Object.keys(SCENARIOS) as ScenarioName[];

export interface DemoOrder extends Order {
  readonly scenario: ScenarioName;
  readonly unitPriceCents: number;
  readonly email: string;
}

/** The same orders every time: each scenario at least once (if there are enough orders), spread evenly over the batch. */
export function makeOrders(count: number): DemoOrder[] {
  const orders: DemoOrder[] = [];
  const dealt = new Map<ScenarioName, number>();
  for (let nth = 1; nth <= count; nth++) {
    const scenario = mostBehind(dealt, nth);
    dealt.set(scenario, (dealt.get(scenario) ?? 0) + 1);
    orders.push(makeOrder(nth, scenario));
  }
  return orders;
}

/** A scenario that has not occurred yet, or else the one furthest behind its share. */
function mostBehind(dealt: ReadonlyMap<ScenarioName, number>, nth: number): ScenarioName {
  const arrears = (name: ScenarioName) => {
    const had = dealt.get(name) ?? 0;
    const behind = (SCENARIOS[name].share / 100) * nth - had;
    return had === 0 && name !== "plain" ? behind + 1 : behind;
  };
  return SCENARIO_NAMES.reduce((best, name) => (arrears(name) > arrears(best) ? name : best));
}

const ON_SALE = [TEAPOT, NOTEBOOK, TEAPOT, NOTEBOOK, ARMCHAIR] as const;

function makeOrder(nth: number, scenario: ScenarioName): DemoOrder {
  const article: Article = scenario === "out_of_stock" ? UNICORN : (ON_SALE[nth % ON_SALE.length] ?? TEAPOT);
  const quantity = 1 + (nth % 3);
  return {
    orderId: `order-${String(nth).padStart(5, "0")}`,
    scenario,
    sku: article.sku,
    quantity,
    unitPriceCents: article.priceCents,
    amountCents: quantity * article.priceCents,
    email: `customer-${nth}@example.com`,
  };
}
