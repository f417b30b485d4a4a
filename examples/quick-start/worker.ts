// The worker of the quick start: it reserves goods, releases them and charges a card. It keeps its state in a Map, so it is a
// demonstration and not a shop.
import { ActionError, createWorker, defineAction, runWorker } from "saga-orchestrator/worker";
import { Type } from "typebox";

/** Reservations by idempotency key: a repeated attempt gets the first answer and reserves nothing twice. */
const reservations = new Map<string, string>();
let made = 0;

const reserve = defineAction({
  name: "reserve",
  compensable: true,
  input: Type.Object({ sku: Type.String(), quantity: Type.Integer({ minimum: 1 }) }),
  output: Type.Object({ reservation: Type.String() }),
  execute(_order, { idempotencyKey }) {
    const reservation = reservations.get(idempotencyKey) ?? `R-${++made}`;
    reservations.set(idempotencyKey, reservation);
    return { reservation };
  },
});

const release = defineAction({
  name: "release",
  input: Type.Object({}),
  output: Type.Object({ released: Type.Boolean() }),
  execute: (_input, { forwardIdempotencyKey = "" }) => ({ released: reservations.delete(forwardIdempotencyKey) }),
});

const charge = defineAction({
  name: "charge",
  input: Type.Object({ amount: Type.Number() }),
  output: Type.Object({ receipt: Type.String() }),
  execute({ amount }, { idempotencyKey }) {
    // An ActionError states that the action had no effect. After any other error the step may have happened, and is undone.
    if (amount > 100) throw new ActionError("card_declined", "the limit is 100", { retryable: false });
    return { receipt: `paid ${amount}, ${idempotencyKey}` };
  },
});

const { SAGA_GRPC: grpc = "127.0.0.1:9090", SAGA_API: api = "http://127.0.0.1:8080", SAGA_TOKEN: token } = process.env;
const worker = createWorker({ service: "shop", grpc, api, token, actions: [reserve, release, charge] });
await runWorker(worker).catch((error: Error) => {
  console.error(error.message);
  process.exitCode = 1;
});
