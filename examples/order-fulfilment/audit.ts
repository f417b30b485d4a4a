// Reads the shop's books and reports whether they balance, for each order and in total. It reads only the books and changes
// nothing; the caller may pass how each run ended, to compare.
import type { Sql } from "postgres";

/** The entries of one order in the books. */
interface OrderBooks {
  readonly orderId: string;
  readonly scenario: string;
  readonly quantity: number;
  readonly amountCents: number;
  readonly reservations: number;
  readonly reserved: number;
  readonly released: number;
  readonly charges: number;
  readonly charged: number;
  readonly refunded: number;
  readonly notices: number;
  readonly retracted: number;
}

export type Outcome = "fulfilled" | "undone" | "neither";

export interface Audit {
  readonly orders: ReadonlyMap<string, { readonly scenario: string; readonly outcome: Outcome }>;
  readonly money: {
    readonly chargedCents: number;
    readonly refundedCents: number;
    readonly tillCents: number;
    /** The total price of the fulfilled orders, which must equal the till. */
    readonly owedCents: number;
  };
  readonly stock: {
    readonly initial: number;
    readonly reserved: number;
    readonly released: number;
    readonly onHand: number;
    readonly sold: number;
  };
  /** Effects that arrived after their undo and were refused. */
  readonly turnedAway: number;
  /** Empty if the books balance. */
  readonly violations: readonly string[];
}

/** `ends` maps an order to whether its run succeeded, where that is known. */
export async function audit(sql: Sql, ends?: ReadonlyMap<string, boolean>): Promise<Audit> {
  // One snapshot, so that a concurrent effect is visible in all of the tables or in none.
  const read = await sql.begin("isolation level repeatable read read only", async (tx) => ({
    orders: await readOrders(tx as unknown as Sql),
    sums: await readSums(tx as unknown as Sql),
    mismatches: await readMismatches(tx as unknown as Sql),
  }));
  const orders = new Map(
    read.orders.map((order) => [order.orderId, { scenario: order.scenario, outcome: outcomeOf(order) }] as const),
  );
  const sold = read.orders.filter(({ orderId }) => orders.get(orderId)?.outcome === "fulfilled");
  const { sums } = read;
  const money = {
    chargedCents: sums.charged,
    refundedCents: sums.refunded,
    tillCents: sums.till,
    owedCents: total(sold, ({ amountCents }) => amountCents),
  };
  const stock = {
    initial: sums.initial,
    reserved: sums.reserved,
    released: sums.released,
    onHand: sums.onHand,
    sold: total(sold, ({ quantity }) => quantity),
  };
  const violations = [
    ...read.orders.flatMap((order) => faultsOf(order, ends?.get(order.orderId))),
    ...read.mismatches,
    ...sumFaults(money, stock),
  ];
  return { orders, money, stock, turnedAway: sums.turnedAway, violations };
}

/** Fulfilled: paid, shipped and notified. Undone: no trace of the order is left. */
function outcomeOf(order: OrderBooks): Outcome {
  const kept = [order.reserved - order.released, order.charged - order.refunded, order.notices - order.retracted];
  if (kept.every((amount) => amount === 0)) return "undone";
  return kept[0] === order.quantity && kept[1] === order.amountCents && kept[2] === 1 ? "fulfilled" : "neither";
}

function faultsOf(order: OrderBooks, succeeded: boolean | undefined): string[] {
  const faults: string[] = [];
  const outcome = outcomeOf(order);
  if (outcome === "neither") {
    faults.push(
      `is neither fulfilled nor undone: reserved ${order.reserved - order.released} of ${order.quantity}, ` +
        `paid ${cents(order.charged - order.refunded)} of ${cents(order.amountCents)}, ` +
        `${order.notices - order.retracted} notice(s)`,
    );
  }
  if (order.reservations > 1) faults.push(`reserved ${order.reservations} times`);
  if (order.charges > 1) faults.push(`charged ${order.charges} times`);
  if (order.notices > 1) faults.push(`notified ${order.notices} times`);
  if (succeeded !== undefined && succeeded !== (outcome === "fulfilled"))
    faults.push(`its run ${succeeded ? "succeeded" : "failed"}, but the books say ${outcome}`);
  return faults.map((fault) => `order ${order.orderId} (${order.scenario}): ${fault}`);
}

function sumFaults(money: Audit["money"], stock: Audit["stock"]): string[] {
  const faults: string[] = [];
  if (money.tillCents !== money.chargedCents - money.refundedCents)
    faults.push(
      `the till holds ${cents(money.tillCents)}, but charges less refunds are ${cents(money.chargedCents - money.refundedCents)}`,
    );
  if (money.tillCents !== money.owedCents)
    faults.push(`the till holds ${cents(money.tillCents)}, but the fulfilled orders cost ${cents(money.owedCents)}`);
  if (stock.onHand !== stock.initial - stock.reserved + stock.released)
    faults.push(
      `${stock.onHand} pieces on hand, but ${stock.initial} less reserved plus released is ${stock.initial - stock.reserved + stock.released}`,
    );
  if (stock.initial - stock.onHand !== stock.sold)
    faults.push(`${stock.initial - stock.onHand} pieces are gone, but ${stock.sold} were sold`);
  return faults;
}

function readOrders(sql: Sql): Promise<OrderBooks[]> {
  const sumOf = (table: string) =>
    sql`(select coalesce(sum(t.amount), 0)::int from ${sql(table)} t where t.order_id = o.order_id)`;
  const countOf = (table: string) => sql`(select count(*)::int from ${sql(table)} t where t.order_id = o.order_id)`;
  return sql<OrderBooks[]>`
    select o.order_id as "orderId", o.scenario, o.quantity, o.amount_cents as "amountCents",
      ${countOf("shop.reservations")} as reservations, ${sumOf("shop.reservations")} as reserved,
      ${sumOf("shop.releases")} as released, ${countOf("shop.charges")} as charges, ${sumOf("shop.charges")} as charged,
      ${sumOf("shop.refunds")} as refunded, ${countOf("shop.notices")} as notices,
      ${sumOf("shop.retractions")} as retracted
    from shop.orders o order by o.order_id`;
}

type Sums = Record<
  "charged" | "refunded" | "till" | "reserved" | "released" | "initial" | "onHand" | "turnedAway",
  number
>;

async function readSums(sql: Sql): Promise<Sums> {
  const sumOf = (table: string) => sql`(select coalesce(sum(amount), 0)::float8 from ${sql(table)})`;
  const [sums] = await sql<Sums[]>`
    select ${sumOf("shop.charges")} as charged, ${sumOf("shop.refunds")} as refunded,
      (select balance_cents::float8 from shop.till) as till,
      ${sumOf("shop.reservations")} as reserved, ${sumOf("shop.releases")} as released,
      (select sum(initial)::float8 from shop.stock) as initial, (select sum(on_hand)::float8 from shop.stock) as "onHand",
      (select count(*)::int from shop.turned_away) as "turnedAway"`;
  if (!sums) throw new Error("the books are empty");
  return sums;
}

const PAIRS = [
  ["shop.reservations", "shop.releases"],
  ["shop.charges", "shop.refunds"],
  ["shop.notices", "shop.retractions"],
] as const;

/** Each undo returns what its effect took, the pieces of each article add up, and every effect belongs to an order that was placed. */
async function readMismatches(sql: Sql): Promise<string[]> {
  const found: string[] = [];
  for (const [effects, undos] of PAIRS) {
    const unequal = await sql<{ order: string; taken: number; given: number }[]>`
      select u.order_id as order, coalesce(e.amount, 0) as taken, u.amount as given
      from ${sql(undos)} u left join ${sql(effects)} e on e.key = u.forward_key
      where u.amount <> coalesce(e.amount, 0) or u.order_id <> coalesce(e.order_id, u.order_id)`;
    for (const { order, taken, given } of unequal) found.push(`order ${order}: ${undos} returned ${given} of ${taken}`);
    const strangers = await sql<{ order: string }[]>`
      select e.order_id as order from ${sql(effects)} e where not exists (
        select from shop.orders o where o.order_id = e.order_id and o.sku = coalesce(e.item, o.sku))`;
    for (const { order } of strangers) found.push(`order ${order} is in ${effects}, but was never placed like that`);
  }
  const articles = await sql<{ sku: string; onHand: number; due: number }[]>`
    select s.sku, s.on_hand as "onHand", s.initial - coalesce(sum(e.amount - coalesce(u.amount, 0)), 0)::int as due
    from shop.stock s left join shop.reservations e on e.item = s.sku left join shop.releases u on u.forward_key = e.key
    group by s.sku having s.on_hand <> s.initial - coalesce(sum(e.amount - coalesce(u.amount, 0)), 0)`;
  for (const { sku, onHand, due } of articles) found.push(`${onHand} ${sku}(s) on hand, but it should be ${due}`);
  return found;
}

function total<T>(list: readonly T[], of: (entry: T) => number): number {
  return list.reduce((sum, entry) => sum + of(entry), 0);
}

export function cents(amount: number): string {
  return `${(amount / 100).toFixed(2)} €`;
}
