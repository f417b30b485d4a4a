// The shop's worker, a process of its own: its actions do what they say in the books, and misbehave as the order's scenario
// asks. Not the books themselves.
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { Type } from "typebox";
import { type ActionContext, ActionError, createWorker, defineAction, runWorker } from "../../src/sdk/worker/index.js";
import * as books from "./books.js";
import type { ScenarioName } from "./scenarios.js";

const sql = postgres(setting("SHOP_DATABASE_URL"), { max: 12, onnotice: () => {} });

/** An undo must not be given up: it is tried until it succeeds. */
const UNTIL_IT_WORKS = { maxAttempts: -1, initialBackoffMs: 200, maxBackoffMs: 2_000 };
/** How long a silent attempt stays silent after its deadline, so that its answer is never in time. */
const SILENCE_MS = 2_000;
/** How long a late charge is held back at most. */
const LATEST_MS = 20_000;

const Id = Type.String({ minLength: 1 });
const Reserve = Type.Object({ order_id: Id, sku: Id, quantity: Type.Integer(), scenario: Id });
const Charge = Type.Object({ order_id: Id, amount_cents: Type.Integer(), scenario: Id });
const Notify = Type.Object({ order_id: Id, email: Id, text: Id, scenario: Id });
const Undo = Type.Object({ order_id: Id });
const Made = Type.Object({ result: Type.String() });

const reserveStock = defineAction({
  name: "reserve_stock",
  description: "Puts pieces of an article aside for an order.",
  compensable: true,
  input: Reserve,
  output: Made,
  errorCodes: ["out_of_stock", "warehouse_busy"],
  async execute({ order_id, sku, quantity, scenario }, ctx) {
    if (scenario === is("flaky_warehouse") && ctx.attempt === 1)
      throw new ActionError("warehouse_busy", "the warehouse does not answer right now");
    // The SDK sends heartbeats meanwhile: slow is not dead.
    if (scenario === is("slow_warehouse")) await delay(3_000, undefined, { signal: ctx.signal });
    const key = ctx.idempotencyKey;
    return done(await books.reserveStock(sql, { key, orderId: order_id, item: sku, amount: quantity }));
  },
});

const chargeCard = defineAction({
  name: "charge_card",
  description: "Takes money from a customer's card.",
  compensable: true,
  input: Charge,
  output: Made,
  errorCodes: ["card_declined"],
  async execute({ order_id, amount_cents, scenario }, ctx) {
    if (scenario === is("card_declined"))
      throw new ActionError("card_declined", "the bank declined the card", { retryable: false });
    if (scenario === is("charged_too_late")) await untilRefunded(ctx);
    const made = await books.chargeCard(sql, { key: ctx.idempotencyKey, orderId: order_id, amount: amount_cents });
    // From here on the money has moved, whatever the service gets to hear.
    if (scenario === is("charged_then_throws") || (scenario === is("throws_once") && ctx.attempt === 1))
      throw new Error("the connection to the bank broke after the charge");
    if (scenario === is("charged_then_silent")) await beSilent(ctx);
    return done(made);
  },
});

const notifyCustomer = defineAction({
  name: "notify_customer",
  description: "Tells a customer that the parcel has arrived.",
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

const releaseStock = undo("release_stock", "Puts reserved pieces back.", books.releaseStock);
const refundCard = undo("refund_card", "Gives the money back.", books.refundCard);
const retractNotice = undo("retract_notice", "Tells a customer to forget the last message.", books.retractNotice);

function undo(name: string, description: string, unmake: typeof books.refundCard) {
  return defineAction({
    name,
    description,
    input: Undo,
    output: Made,
    timeoutMs: 5_000,
    retry: UNTIL_IT_WORKS,
    async execute({ order_id }, { idempotencyKey, forwardIdempotencyKey }) {
      if (forwardIdempotencyKey === undefined)
        throw new ActionError("nothing_to_undo", `${name} only undoes`, { retryable: false });
      const result = await unmake(sql, { key: idempotencyKey, forwardKey: forwardIdempotencyKey, orderId: order_id });
      return { result };
    },
  });
}

/** "Made before" is as good as made; a refusal is final, and plainly without effect. */
function done(result: books.Made): { result: string } {
  if (result === "short") throw new ActionError("out_of_stock", "there are not enough pieces", { retryable: false });
  if (result === "refused") throw new ActionError("undone_before", "its undo came first", { retryable: false });
  return { result };
}

/** Longer than anybody listens. */
async function beSilent({ deadline }: ActionContext): Promise<void> {
  await delay(deadline.getTime() - Date.now() + SILENCE_MS);
}

/** The bank's network holds the charge back until the shop has given up on it and refunded it. */
async function untilRefunded({ idempotencyKey }: ActionContext): Promise<void> {
  const latest = Date.now() + LATEST_MS;
  while (Date.now() < latest && !(await books.isRefunded(sql, idempotencyKey))) await delay(200);
}

/** Has the compiler check a scenario's name. */
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
  actions: [reserveStock, releaseStock, chargeCard, refundCard, notifyCustomer, retractNotice],
  maxInFlight: 64,
  drainTimeoutMs: 5_000,
  // A killed service is back within seconds: look for it often.
  timing: { backoffMaxMs: 500 },
});

// Started by the demo, it does not outlive it.
process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
process.channel?.unref();

await runWorker(worker);
await sql.end({ timeout: 2 });
