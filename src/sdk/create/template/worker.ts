// The code of the actions. It keeps its state in memory, so that there is nothing to set up: a real one has a database.
import { ActionError, createWorker, runWorker } from "@saga-orchestrator/worker";
import { shop } from "./actions.js";

/** Reservations by idempotency key: an attempt that is repeated gets the first answer, and reserves nothing twice. */
const reservations = new Map<string, string>();

const { SAGA_GRPC: grpc = "127.0.0.1:9090", SAGA_API: api = "http://127.0.0.1:8080", SAGA_TOKEN: token } = process.env;
const worker = createWorker({ service: "shop", grpc, api, token });

worker.handle(shop.reserve, ({ sku, quantity }, { idempotencyKey }) => {
  const reservation = reservations.get(idempotencyKey) ?? `R-${reservations.size + 1}`;
  reservations.set(idempotencyKey, reservation);
  console.log(`reserved ${quantity} of ${sku}: ${reservation}`);
  return { reservation };
});

worker.handle(shop.release, ({ reservation }) => {
  console.log(`released ${reservation}`);
  return { released: true };
});

worker.handle(shop.charge, ({ amount }, { idempotencyKey }) => {
  // An ActionError says that nothing has happened. After any other error the step may have happened, and is tried again.
  if (amount > 100) throw new ActionError("card_declined", "the limit is 100", { retryable: false });
  return { receipt: `paid ${amount.toFixed(2)}, ${idempotencyKey}` };
});

await runWorker(worker);
