// The shop's worker, a separate process. Its actions write the books, and misbehave as the order's scenario demands.
import { setTimeout as delay } from "node:timers/promises";
import { type ActionContext, ActionError, createWorker, runWorker } from "@saga-orchestrator/worker";
import postgres from "postgres";
import { shop } from "./actions.js";
import * as books from "./books.js";
import type { ScenarioName } from "./scenarios.js";

const sql = postgres(setting("SHOP_DATABASE_URL"), { max: 12, onnotice: () => {} });

/** How long a silent attempt waits after its deadline, so that its answer is always late. */
const SILENCE_MS = 2_000;
/** The longest delay of a late charge. */
const LATEST_MS = 20_000;

const worker = createWorker({
  service: "shop",
  grpc: setting("SAGA_GRPC"),
  api: setting("SAGA_API"),
  // With access control: a key with the role `worker` for the service `shop`.
  token: process.env.SAGA_TOKEN,
  maxInFlight: 64,
  drainTimeoutMs: 5_000,
  // A killed service is back within seconds, so reconnect quickly.
  timing: { backoffMaxMs: 500 },
});

worker.handle(shop.reserveStock, async ({ order_id, sku, quantity, scenario }, ctx) => {
  if (scenario === is("flaky_warehouse") && ctx.attempt === 1)
    throw new ActionError("warehouse_busy", "the warehouse is busy");
  // The SDK sends heartbeats meanwhile.
  if (scenario === is("slow_warehouse")) await delay(3_000, undefined, { signal: ctx.signal });
  const key = ctx.idempotencyKey;
  return done(await books.reserveStock(sql, { key, orderId: order_id, item: sku, amount: quantity }));
});

worker.handle(shop.chargeCard, async ({ order_id, amount_cents, scenario }, ctx) => {
  if (scenario === is("card_declined"))
    throw new ActionError("card_declined", "the bank declined the card", { retryable: false });
  if (scenario === is("charged_too_late")) await untilRefunded(ctx);
  const made = await books.chargeCard(sql, { key: ctx.idempotencyKey, orderId: order_id, amount: amount_cents });
  // From here on the money has moved, whatever the service learns.
  if (scenario === is("charged_then_throws") || (scenario === is("throws_once") && ctx.attempt === 1))
    throw new Error("the connection to the bank broke after the charge");
  if (scenario === is("charged_then_silent")) await beSilent(ctx);
  return done(made);
});

worker.handle(shop.notifyCustomer, async ({ order_id, scenario }, ctx) => {
  if (scenario === is("unreachable"))
    throw new ActionError("no_such_mailbox", "the customer has no mailbox", { retryable: false });
  return done(await books.sendNotice(sql, { key: ctx.idempotencyKey, orderId: order_id, amount: 1 }));
});

worker.handle(shop.releaseStock, undoing(books.releaseStock));
worker.handle(shop.refundCard, undoing(books.refundCard));
worker.handle(shop.retractNotice, undoing(books.retractNotice));

/** The code of an undo. */
function undoing(unmake: typeof books.refundCard) {
  return async ({ order_id }: { order_id: string }, { idempotencyKey, forwardIdempotencyKey }: ActionContext) => {
    if (forwardIdempotencyKey === undefined)
      throw new ActionError("nothing_to_undo", "this action only undoes", { retryable: false });
    const result = await unmake(sql, { key: idempotencyKey, forwardKey: forwardIdempotencyKey, orderId: order_id });
    return { result };
  };
}

/** "Made before" counts as made. A refusal is final and had no effect. */
function done(result: books.Made): { result: string } {
  if (result === "short")
    throw new ActionError("out_of_stock", "there are not enough pieces in stock", { retryable: false });
  if (result === "refused") throw new ActionError("undone_before", "its undo came first", { retryable: false });
  return { result };
}

/** Waits until after the deadline. */
async function beSilent({ deadline }: ActionContext): Promise<void> {
  await delay(deadline.getTime() - Date.now() + SILENCE_MS);
}

/** The bank's network delays the charge until the shop has refunded it. */
async function untilRefunded({ idempotencyKey }: ActionContext): Promise<void> {
  const latest = Date.now() + LATEST_MS;
  while (Date.now() < latest && !(await books.isRefunded(sql, idempotencyKey))) await delay(200);
}

/** Lets the compiler check the name of a scenario. */
function is(name: ScenarioName): string {
  return name;
}

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

// The worker ends with the demo that started it.
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
process.channel?.unref();

await runWorker(worker).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
await sql.end({ timeout: 2 });
