// The worker of the quick start: it reserves goods, releases them and charges a card. It keeps its state in a Map, so it is a
// demonstration and not a shop.
import { ActionError, createWorker, runWorker } from "@saga-orchestrator/worker";
import { shop } from "./actions.js";

/** Reservations by idempotency key: a repeated attempt gets the first answer and reserves nothing twice. */
const reservations = new Map<string, string>();
let made = 0;

const { SAGA_GRPC: grpc = "127.0.0.1:9090", SAGA_API: api = "http://127.0.0.1:8080", SAGA_TOKEN: token } = process.env;
const worker = createWorker({ service: "shop", grpc, api, token });

worker.handle(shop.reserve, (_order, { idempotencyKey }) => {
  const reservation = reservations.get(idempotencyKey) ?? `R-${++made}`;
  reservations.set(idempotencyKey, reservation);
  return { reservation };
});

worker.handle(shop.release, (_input, { forwardIdempotencyKey = "" }) => ({
  released: reservations.delete(forwardIdempotencyKey),
}));

worker.handle(shop.charge, ({ amount }, { idempotencyKey }) => {
  // An ActionError states that the action had no effect. After any other error the step may have happened, and is undone.
  if (amount > 100) throw new ActionError("card_declined", "the limit is 100", { retryable: false });
  return { receipt: `paid ${amount}, ${idempotencyKey}` };
});

await runWorker(worker).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
