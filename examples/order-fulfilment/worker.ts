// The shop's worker, a separate process. Its actions write the books, and misbehave as the order's scenario demands.
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { Type } from "typebox";
import { type ActionContext, ActionError, createWorker, defineAction, runWorker } from "../../src/sdk/worker/index.js";
import * as books from "./books.js";
import type { ScenarioName } from "./scenarios.js";

const sql = postgres(setting("SHOP_DATABASE_URL"), { max: 12, onnotice: () => {} });

/** An undo must not be abandoned: it is retried until it succeeds. */
const UNTIL_IT_SUCCEEDS = { maxAttempts: -1, initialBackoffMs: 200, maxBackoffMs: 2_000 };
/** How long a silent attempt waits after its deadline, so that its answer is always late. */
const SILENCE_MS = 2_000;
/** The longest delay of a late charge. */
const LATEST_MS = 20_000;

const Id = Type.String({ minLength: 1 });
const Reserve = Type.Object({ order_id: Id, sku: Id, quantity: Type.Integer(), scenario: Id });
const Charge = Type.Object({ order_id: Id, amount_cents: Type.Integer(), scenario: Id });
const Notify = Type.Object({ order_id: Id, email: Id, text: Id, scenario: Id });
const Undo = Type.Object({ order_id: Id });
const Made = Type.Object({ result: Type.String() });

const reserveStock = defineAction({
  name: "reserve_stock",
  description: "Reserves pieces of an article for an order.",
  compensable: true,
  input: Reserve,
  output: Made,
  errorCodes: ["out_of_stock", "warehouse_busy"],
  async execute({ order_id, sku, quantity, scenario }, ctx) {
    if (scenario === is("flaky_warehouse") && ctx.attempt === 1)
      throw new ActionError("warehouse_busy", "the warehouse is busy");
    // The SDK sends heartbeats meanwhile.
    if (scenario === is("slow_warehouse")) await delay(3_000, undefined, { signal: ctx.signal });
    const key = ctx.idempotencyKey;
    return done(await books.reserveStock(sql, { key, orderId: order_id, item: sku, amount: quantity }));
  },
});

const chargeCard = defineAction({
  name: "charge_card",
  description: "Charges a customer's card.",
  compensable: true,
  input: Charge,
  output: Made,
  errorCodes: ["card_declined"],
  async execute({ order_id, amount_cents, scenario }, ctx) {
    if (scenario === is("card_declined"))
      throw new ActionError("card_declined", "the bank declined the card", { retryable: false });
    if (scenario === is("charged_too_late")) await untilRefunded(ctx);
    const made = await books.chargeCard(sql, { key: ctx.idempotencyKey, orderId: order_id, amount: amount_cents });
    // From here on the money has moved, whatever the service learns.
    if (scenario === is("charged_then_throws") || (scenario === is("throws_once") && ctx.attempt === 1))
      throw new Error("the connection to the bank broke after the charge");
    if (scenario === is("charged_then_silent")) await beSilent(ctx);
    return done(made);
  },
});

const notifyCustomer = defineAction({
  name: "notify_customer",
  description: "Notifies a customer that the parcel has arrived.",
  compensable: true,
  input: Notify,
  output: Made,
  errorCodes: ["no_such_mailbox"],
  async execute({ order_id, scenario }, ctx) {
    if (scenario === is("unreachable"))
      throw new ActionError("no_such_mailbox", "the customer has no mailbox", { retryable: false });
    return done(await books.sendNotice(sql, { key: ctx.idempotencyKey, orderId: order_id, amount: 1 }));
  },
});

const releaseStock = undo("release_stock", "Releases reserved pieces.", books.releaseStock);
const refundCard = undo("refund_card", "Refunds a charge.", books.refundCard);
const retractNotice = undo("retract_notice", "Retracts a notice.", books.retractNotice);

function undo(name: string, description: string, unmake: typeof books.refundCard) {
  return defineAction({
    name,
    description,
    input: Undo,
    output: Made,
    timeoutMs: 5_000,
    retry: UNTIL_IT_SUCCEEDS,
    async execute({ order_id }, { idempotencyKey, forwardIdempotencyKey }) {
      if (forwardIdempotencyKey === undefined)
        throw new ActionError("nothing_to_undo", `${name} only undoes`, { retryable: false });
      const result = await unmake(sql, { key: idempotencyKey, forwardKey: forwardIdempotencyKey, orderId: order_id });
      return { result };
    },
  });
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

const worker = createWorker({
  service: "shop",
  grpc: setting("SAGA_GRPC"),
  api: setting("SAGA_API"),
  // With access control: a key with the role `worker` for the service `shop`.
  token: process.env.SAGA_TOKEN,
  actions: [reserveStock, releaseStock, chargeCard, refundCard, notifyCustomer, retractNotice],
  maxInFlight: 64,
  drainTimeoutMs: 5_000,
  // A killed service is back within seconds, so reconnect quickly.
  timing: { backoffMaxMs: 500 },
});

// The worker ends with the demo that started it.
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
process.channel?.unref();

await runWorker(worker).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
await sql.end({ timeout: 2 });
