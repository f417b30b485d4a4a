// A service with the runs that a new user makes in the first hour: long titles with values, branches, incidents below a run, an approval with a
// deadline, a failure that is undone. It opens no page.
import { ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { type Action, handleAll } from "../harness/actions.js";
import { atFileEnd } from "../harness/file-end.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { call, publish, type Started, start, startService } from "./runs-service.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

export const INPUTS = { city: "Reykjavík", people: 3, payer: { name: "Ann" }, items: [1, 2] };
const INPUT_SCHEMA = {
  type: "object",
  required: ["city", "people"],
  properties: {
    city: { type: "string", title: "City", minLength: 1 },
    people: { type: "integer", title: "People", minimum: 1 },
    payer: { type: "object", title: "Payer", properties: { name: { type: "string", title: "Name" } } },
    extras: { type: "array", title: "Extras", items: { type: "string", title: "Extra" } },
  },
};

const book = (id: string, next?: string, title?: string) => ({
  ...{ id, type: "action", action: "travel.book", compensation: { action: "travel.undo" } },
  ...(next !== undefined && { next }),
  ...(title !== undefined && { title }),
});

/** Nineteen steps. The last one fails, and all others are undone. */
const TRAVEL = [
  book("s1", "s2", "Reise nach ${inputs.city} für ${inputs.people} Personen"),
  ...Array.from({ length: 11 }, (_, nth) => book(`s${nth + 2}`, nth < 10 ? `s${nth + 3}` : "fork")),
  {
    ...{ id: "fork", type: "parallel", title: "Side by side", next: "join" },
    branches: { hotel: { next: "hotel" }, car: { next: "car" }, insurance: { next: "insurance" } },
  },
  ...[book("hotel"), book("car"), book("insurance"), { id: "join", type: "join", next: "pay" }],
  {
    id: "pay",
    type: "action",
    action: "travel.decline",
    title: "Charge the card of ${inputs.payer.name}",
    next: "end",
  },
  { id: "end", type: "end" },
];

const FAMILY = [
  {
    ...{ id: "fork", type: "parallel", title: "Deliver", next: "join" },
    branches: { ship: { next: "ship" }, bill: { next: "bill" }, items: { next: "each" } },
  },
  { id: "ship", type: "action", action: "travel.decline", title: "Ship it" },
  { id: "bill", type: "action", action: "travel.hold", title: "Write the bill" },
  { id: "each", type: "foreach", items: "inputs.items", body: "pack", max_concurrency: 0 },
  { id: "pack", type: "action", action: "travel.decline" },
  { id: "join", type: "join" },
];

/** Of its incidents, the run itself has none: they are of the items of a branch. */
const NESTED = [
  { id: "fork", type: "parallel", title: "Deliver", branches: { items: { next: "each" } }, next: "join" },
  { id: "each", type: "foreach", items: "inputs.items", body: "pack", max_concurrency: 0 },
  { id: "pack", type: "action", action: "travel.decline" },
  { id: "join", type: "join" },
];

const approval = (more: object) => [
  {
    ...{ id: "ask", type: "manual_approval", title: "Reise nach ${inputs.city} genehmigen", assignee: "head" },
    ...{ due_in_ms: 7_200_000, next: "done", ...more },
  },
  { id: "done", type: "end" },
];

export interface Stage extends Started {
  /** The runs by workflow. */
  readonly runs: Readonly<Record<"travel" | "family" | "nested" | "approve", string>>;
}

/** All stand where they will stand. */
export async function openStage(env: Readonly<Record<string, string>> = {}): Promise<Stage> {
  const { service, database } = await startService(env);
  await work(service);
  await publish(service, "travel", TRAVEL, { name: "Reise mit Flug und Hotel", input_schema: INPUT_SCHEMA });
  await publish(service, "family", FAMILY, { name: "An incident below", on_failure: "incident" });
  await publish(service, "nested", NESTED, { name: "Incidents of items", on_failure: "incident" });
  await publish(service, "approve", approval({}), { name: "Approval with a deadline" });
  const begin = (id: string, more: object = {}) => start(service, id, { inputs: INPUTS, ...more });
  const runs = {
    travel: await begin("travel", { business_key: "trip-1" }),
    family: await begin("family", { business_key: "order-7" }),
    nested: await begin("nested"),
    approve: await begin("approve"),
  };
  await publish(service, "approve", approval({ assignee: "chief" }), { name: "Approval with a deadline" });
  const total = async (query: string) => (await call<{ total: number }>(service, "GET", `/sagas?${query}`)).total;
  await until(async () => (await total("workflow_id=travel&state=failed")) === 1);
  await until(async () => (await total("incident=true")) === 5 && (await total("paused_reason=user_task")) === 1);
  return { service, database, runs };
}

async function work(service: ServiceProcess): Promise<void> {
  let letGo = () => {};
  const held = new Promise<void>((resolve) => (letGo = resolve));
  const action = (name: string, execute: () => unknown): Action => ({
    ...{ name, compensable: true, timeoutMs: 600_000 },
    execute: async () => ({ done: (await execute()) ?? name }),
  });
  const actions = [
    ...[action("book", () => undefined), action("undo", () => undefined), action("hold", () => held)],
    action("decline", () => {
      throw new ActionError("card_declined", "the bank declined the card", { retryable: false });
    }),
  ];
  const connection = { grpc: service.grpcAddress, api: service.url };
  const worker = createWorker({ service: "travel", ...connection, log: silent, maxInFlight: 100 });
  handleAll(worker, "travel", actions);
  await worker.start();
  atFileEnd(async () => {
    letGo();
    await worker.stop();
  });
}
