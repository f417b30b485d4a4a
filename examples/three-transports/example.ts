// One saga over gRPC, HTTP and RabbitMQ: an order that is sent, and one that fails after its last effect and is undone over all three.
// It prints the books and fails if they do not balance.
import { expectState, type Items, type Place, type Saga } from "../client.js";
import { freePorts } from "../order-fulfilment/processes.js";
import { Books } from "./books.js";
import { startWorkers } from "./workers.js";

const ACCOUNTS = { stock: "gRPC", bank: "HTTP", carrier: "RabbitMQ" };
const SENT = 30;
const REFUSED = 12;

export async function run({ saga, grpc, amqpUrl = "", queue, credentials, print }: Place): Promise<void> {
  const [port = 0] = await freePorts(1);
  const books = new Books();
  const [stock, bank, carrier] = await Promise.all(["stock", "bank", "carrier"].map(credentials));
  const known = { stock, bank, carrier };
  const stop = await startWorkers(books, { api: saga.url, grpc, amqpUrl, queue: queue("carrier"), port, known });
  try {
    await saga.publish("three-transports", "order.workflow.json");
    expectState(await saga.run("three-transports", { amount: SENT, address: "Basel" }), "succeeded");
    const refused = await saga.run("three-transports", { amount: REFUSED, address: "" });
    expectState(refused, "failed");
    print(
      `the order without an address failed at ${refused.error?.step_id} and was undone: ${await undos(saga, refused.id)}`,
    );
    printBooks(books, print);
  } finally {
    await stop();
  }
}

interface Undo {
  readonly ordinal: number;
  readonly step_id: string;
  readonly state: string;
}

async function undos(saga: Saga, runId: string): Promise<string> {
  const { items } = await saga.call<Items<Undo>>("GET", `/sagas/${runId}/undo`);
  if (items.length !== 3 || items.some(({ state }) => state !== "done"))
    throw new Error(`not all three effects were undone: ${JSON.stringify(items)}`);
  const newestFirst = [...items].sort((left, right) => right.ordinal - left.ordinal);
  return newestFirst.map(({ step_id }) => step_id).join(", ");
}

function printBooks(books: Books, print: Place["print"]): void {
  for (const [account, transport] of Object.entries(ACCOUNTS)) {
    const { made, undone, left } = books.of(account);
    print(`${account.padEnd(8)} over ${transport.padEnd(9)} made ${made}, undone ${undone}, left ${left}`);
    if (made !== SENT + REFUSED || left !== SENT) throw new Error(`the books of ${account} do not balance`);
  }
  print("The books balance.");
}
