// The shop's own books: plain Postgres tables that its worker writes, with one transaction for each effect and each effect
// made once. They know nothing about workflows; audit.ts checks whether they balance.
//
// Invariants
// - The row of an effect is keyed by its idempotency key: a repeated request finds the row and changes nothing.
// - The row of an undo is keyed by the key of the effect that it undoes. If the undo comes first, it still writes its row, with
//   amount 0, and the effect is refused when it arrives. Both sides lock the key, so one of them is first.
import type { Sql, TransactionSql } from "postgres";

/** One kind of effect: its table, the table of its undo, and what it moves. */
interface Account {
  readonly effects: string;
  readonly undos: string;
  /** Takes `amount`, or returns it if it is negative. False if there is not enough. */
  move(tx: TransactionSql, effect: Effect, amount: number): Promise<boolean>;
}

export interface Effect {
  /** The idempotency key of the step. */
  readonly key: string;
  readonly orderId: string;
  /** Pieces, cents, or messages. */
  readonly amount: number;
  /** The article, if the effect is on stock. */
  readonly item?: string;
}

export interface Undo {
  /** The undo's own idempotency key. */
  readonly key: string;
  /** The key of the effect to undo. */
  readonly forwardKey: string;
  readonly orderId: string;
}

/** `refused`: its undo came first. `short`: there is not enough stock. */
export type Made = "made" | "made before" | "refused" | "short";
/** `nothing`: the effect had not happened, and can no longer happen. */
export type Undone = "undone" | "undone before" | "nothing";

const STOCK: Account = {
  effects: "shop.reservations",
  undos: "shop.releases",
  async move(tx, { item = "" }, amount) {
    const rows = await tx`
      update shop.stock set on_hand = on_hand - ${amount} where sku = ${item} and on_hand >= ${amount} returning sku`;
    return rows.length === 1;
  },
};

const MONEY: Account = {
  effects: "shop.charges",
  undos: "shop.refunds",
  async move(tx, _effect, amount) {
    const rows = await tx`update shop.till set balance_cents = balance_cents + ${amount} returning balance_cents`;
    return rows.length === 1;
  },
};

const NOTICES: Account = {
  effects: "shop.notices",
  undos: "shop.retractions",
  move: async () => true,
};

const ARTICLES = [
  { sku: "teapot", priceCents: 3_900 },
  { sku: "armchair", priceCents: 64_900 },
  { sku: "notebook", priceCents: 450 },
  { sku: "unicorn", priceCents: 99_900 },
] as const;

export type Article = (typeof ARTICLES)[number];
/** The articles; the unicorn is never in stock. */
export const [TEAPOT, ARMCHAIR, NOTEBOOK, UNICORN] = ARTICLES;

/** Creates the tables with `pieces` of every article in stock, except unicorns. The database must not have a schema `shop`. */
export async function openBooks(sql: Sql, pieces: number): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`create schema shop`;
    await tx`create table shop.orders (order_id text primary key, scenario text not null, sku text not null,
      quantity int not null, amount_cents int not null, placed_at timestamptz not null default now())`;
    await tx`create table shop.stock (sku text primary key, initial int not null, on_hand int not null check (on_hand >= 0))`;
    await tx`create table shop.till (balance_cents bigint not null)`;
    for (const { effects, undos } of [STOCK, MONEY, NOTICES]) {
      await tx`create table ${tx(effects)} (key text primary key, order_id text not null, item text,
        amount int not null check (amount > 0), made_at timestamptz not null default now())`;
      await tx`create index on ${tx(effects)} (order_id)`;
      await tx`create table ${tx(undos)} (forward_key text primary key, key text not null unique, order_id text not null,
        amount int not null check (amount >= 0), made_at timestamptz not null default now())`;
      await tx`create index on ${tx(undos)} (order_id)`;
    }
    await tx`create table shop.turned_away (key text primary key, order_id text not null, what text not null,
      at timestamptz not null default now())`;
    await tx`insert into shop.till (balance_cents) values (0)`;
    const stock = ARTICLES.map(({ sku }) => ({ sku, initial: pieces, on_hand: pieces }));
    const none = { initial: 0, on_hand: 0 };
    await tx`insert into shop.stock ${tx(stock.map((row) => (row.sku === UNICORN.sku ? { ...row, ...none } : row)))}`;
  });
}

export interface Order {
  readonly orderId: string;
  readonly scenario: string;
  readonly sku: string;
  readonly quantity: number;
  readonly amountCents: number;
}

/** Records that the shop has accepted the order. Repeating the call has no effect. */
export async function placeOrder(sql: Sql, order: Order): Promise<void> {
  const { orderId, scenario, sku, quantity, amountCents } = order;
  await sql`insert into shop.orders (order_id, scenario, sku, quantity, amount_cents)
    values (${orderId}, ${scenario}, ${sku}, ${quantity}, ${amountCents}) on conflict do nothing`;
}

export const reserveStock = (sql: Sql, effect: Effect & { readonly item: string }) => make(sql, STOCK, effect);
export const releaseStock = (sql: Sql, undo: Undo) => unmake(sql, STOCK, undo);
export const chargeCard = (sql: Sql, effect: Effect) => make(sql, MONEY, effect);
export const refundCard = (sql: Sql, undo: Undo) => unmake(sql, MONEY, undo);
export const sendNotice = (sql: Sql, effect: Effect) => make(sql, NOTICES, effect);
export const retractNotice = (sql: Sql, undo: Undo) => unmake(sql, NOTICES, undo);

function make(sql: Sql, account: Account, effect: Effect): Promise<Made> {
  const { key, orderId, amount, item = null } = effect;
  return inTurn(sql, key, async (tx): Promise<Made> => {
    if ((await tx`select 1 from ${tx(account.undos)} where forward_key = ${key}`).length > 0) {
      await tx`insert into shop.turned_away (key, order_id, what) values (${key}, ${orderId}, ${account.effects})
        on conflict do nothing`;
      return "refused";
    }
    if ((await tx`select 1 from ${tx(account.effects)} where key = ${key}`).length > 0) return "made before";
    if (!(await account.move(tx, effect, amount))) return "short";
    await tx`insert into ${tx(account.effects)} (key, order_id, item, amount) values (${key}, ${orderId}, ${item}, ${amount})`;
    return "made";
  });
}

function unmake(sql: Sql, account: Account, { key, forwardKey, orderId }: Undo): Promise<Undone> {
  return inTurn(sql, forwardKey, async (tx): Promise<Undone> => {
    if ((await tx`select 1 from ${tx(account.undos)} where forward_key = ${forwardKey}`).length > 0)
      return "undone before";
    const [effect] = await tx<Effect[]>`
      select key, order_id as "orderId", amount, item from ${tx(account.effects)} where key = ${forwardKey}`;
    if (effect && !(await account.move(tx, effect, -effect.amount)))
      throw new Error(`${account.effects}: the effect cannot be reversed`);
    await tx`insert into ${tx(account.undos)} (forward_key, key, order_id, amount)
      values (${forwardKey}, ${key}, ${orderId}, ${effect?.amount ?? 0})`;
    return effect ? "undone" : "nothing";
  });
}

/** An effect and its undo may arrive at the same moment: the lock puts them in some order. */
async function inTurn<T>(sql: Sql, key: string, work: (tx: TransactionSql) => Promise<T>): Promise<T> {
  const result = await sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`;
    return { value: await work(tx) };
  });
  return result.value;
}

/** Whether the charge of this key has been undone or ruled out. */
export async function isRefunded(sql: Sql, key: string): Promise<boolean> {
  return (await sql`select 1 from shop.refunds where forward_key = ${key}`).length > 0;
}
