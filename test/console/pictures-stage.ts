// A service with something to see on every page of the console: the runs of newcomer-stage.ts, and definitions, triggers, jobs, tasks and calls
// beside them, with texts as long as people write them. It opens no page.
import { DIES_OF_ITS_TRIAL, suspect } from "../harness/deadly-trial.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { LockedService } from "./access-stage.js";
import { INPUTS, openStage } from "./newcomer-stage.js";
import { call, publish, type Started, start } from "./runs-service.js";

/** Runs that go on when an operator lets them. */
type Stopped = "paused" | "quarantined" | "refund";

export interface Shown {
  readonly service: ServiceProcess;
  readonly runs: Readonly<Record<"travel" | "family" | "approve" | "parent" | "shipping" | Stopped, string>>;
  /** A branch that stands at an incident. */
  readonly branch: string;
  readonly triggers: Readonly<Record<"nightly" | "paid", string>>;
  readonly job: string;
  /** Another one, with access control and both ways to log in. */
  readonly locked: LockedService;
}

/** Nobody gets as far as the issuer. */
const BOTH_WAYS = {
  ...{
    SAGA_OIDC_ISSUER: "http://127.0.0.1:9",
    SAGA_OIDC_CLIENT_ID: "console",
    SAGA_OIDC_CLIENT_SECRET: "a-secret-of-the-console",
  },
};

const INSURANCE = {
  type: "object",
  title: "Details of the insurance",
  description: "Who is insured, and against what.",
  required: ["holder", "kind", "payment"],
  properties: {
    holder: { type: "string", title: "Policy holder", minLength: 3 },
    people: { type: "integer", title: "People who travel", description: "Children below two years do not count." },
    kind: { type: "string", title: "Kind", enum: ["cancellation", "luggage and cancellation"] },
    abroad: { type: "boolean", title: "Valid outside of the European Union?" },
    stays: {
      type: "array",
      title: "Stays",
      items: { type: "object", required: ["city"], properties: { city: { type: "string", title: "City" } } },
    },
    payment: {
      title: "Payment",
      oneOf: [
        {
          type: "object",
          title: "Card",
          required: ["card"],
          properties: { card: { type: "string", title: "Number" } },
        },
        { type: "object", title: "Bank", required: ["iban"], properties: { iban: { type: "string", title: "IBAN" } } },
      ],
    },
  },
};

const reserve = { id: "reserve", type: "action", action: "shop.reserve", compensation: { action: "shop.release" } };
const check = { id: "check", type: "manual_approval", title: "Check the order by hand", next: "ship" };

/** Two versions that differ in each of the ways, and a rehearsal that fails and is undone. */
const orders = (isSecond: boolean) => ({
  ...{ id: "order-fulfilment", name: "Fulfilment of an order from the web shop", start: "reserve", published: true },
  description: "Reserves the goods, lets a person look at large orders, and ships.",
  input_schema: {
    type: "object",
    required: ["sku"],
    properties: {
      sku: { type: "string", title: "SKU" },
      quantity: { type: "integer", title: "Quantity", minimum: 1, description: "More than ten are checked by hand." },
    },
  },
  ...(isSecond && { timeout_ms: 86_400_000 }),
  steps: [
    { ...reserve, title: "Reserve the goods", next: "big" },
    { id: "big", type: "switch", cases: [{ when: "inputs.quantity > 10", next: "check" }], default: "ship" },
    { ...check, assignee: isSecond ? "team-lead@warehouse-north.example" : "ann" },
    { id: "ship", type: "action", action: "shop.ship", next: isSecond ? "note" : "old-note" },
    { id: isSecond ? "note" : "old-note", type: "noop", next: "done" },
    { id: "done", type: "end", output: "${vars.ship}" },
  ],
});

const RULE = {
  rule_id: "shipping",
  name: "How an order is shipped",
  rule_type: "decision_table",
  published: true,
  spec: {
    hit_policy: "first",
    rows: [
      { when: "weight > 30", then: { branch: "freight", price: 120 } },
      {
        when: "inputs.country in ['DE', 'AT', 'CH'] && weight <= 2 && !inputs.insured",
        then: { branch: "letter", price: 2.5, carrier: "the national post of the country" },
      },
      { when: "weight < 0", then: { branch: "nothing" } },
    ],
    default_output: { branch: "parcel", price: 6.9, insured: true },
  },
};

const ACTIONS = [
  {
    ...{ action_name: "reserve", compensable: true, description: "Reserves goods of an order in a warehouse" },
    input_schema: { type: "object", properties: { sku: { type: "string", description: "Stock keeping unit" } } },
    output_schema: { type: "object", properties: { reservation: { type: "string" } } },
    ...{ error_codes: ["out_of_stock", "warehouse_closed"], default_timeout_ms: 30_000 },
  },
  { action_name: "release" },
  { action_name: "ship", description: "Hands the parcel over to a carrier" },
];

const HOUR = 3_600_000;
const BILL = "Wait for the bill of the hotel in ${inputs.city}";
const SETTLE = [{ id: "bill", type: "wait_duration", title: BILL, duration_ms: 72 * HOUR }];

/** It fails, and the newest of its undos fails for good. */
const REFUND = [
  {
    ...{ id: "flight", type: "action", action: "travel.book", title: "Book the flight to ${inputs.city}" },
    ...{ compensation: { action: "travel.undo" }, next: "card" },
  },
  {
    ...{ id: "card", type: "action", action: "travel.book", title: "Charge the card of ${inputs.payer.name}" },
    ...{ compensation: { action: "travel.decline" }, next: "sold-out" },
  },
  { id: "sold-out", type: "error", code: "sold_out", message: "the hotel has no room left" },
];

/** All of it stands where it will stand. */
export async function openShown(): Promise<Shown> {
  const { service, database, runs } = await openStage({ NODE_OPTIONS: DIES_OF_ITS_TRIAL });
  await defineThings(service);
  const post = <T>(path: string, body: object) => call<T>(service, "POST", path, body);
  const labels = { region: "eu-central", team: "travel-and-events" };
  const parent = await start(service, "parent", { business_key: "Order 2026/11/0000471-B of Ann", labels });
  const shipping = await start(service, "insurance");
  await start(service, "unserved");
  for (const _ of [1, 2, 3]) await start(service, "quick");
  const total = async (query: string) => (await call<{ total: number }>(service, "GET", `/sagas?${query}`)).total;
  await until(async () => (await total("workflow_id=quick&state=succeeded")) === 3);
  await until(async () => (await total("workflow_id=waits&paused_reason=signal")) === 1);
  await until(async () => (await total("paused_reason=user_task")) === 2);
  const bulk = { action: "skip_step", filter: { workflow_id: "waits" } };
  const { bulk_id: job } = await post<{ bulk_id: string }>("/bulk", bulk);
  await until(async () => (await call<{ state: string }>(service, "GET", `/bulk/${job}`)).state === "done");
  const { items } = await call<{ items: readonly { id: string; parent_branch_id?: string }[] }>(
    ...([service, "GET", "/sagas?incident=true"] as const),
  );
  return {
    service,
    runs: { ...runs, parent, shipping, ...(await stopRuns({ service, database })) },
    branch: items.find(({ parent_branch_id: branch }) => branch === "ship")?.id ?? "",
    triggers: await makeTriggers(service),
    job,
    locked: await LockedService.open(BOTH_WAYS),
  };
}

async function defineThings(service: ServiceProcess): Promise<void> {
  const end = { id: "end", type: "end" };
  await call(service, "POST", "/registry/register", { service: "shop", actions: ACTIONS });
  await call(service, "POST", "/registry/register", { service: "bank", actions: [{ action_name: "transfer" }] });
  await call(service, "POST", "/workflows", orders(false));
  await call(service, "POST", "/workflows", orders(true));
  await makeKeys(service);
  await publish(service, "quick", [{ id: "end", type: "end", output: { sum: 3 } }], { name: "Quick" });
  await publish(service, "waits", [
    { id: "hear", type: "wait_for_signal", signal_name: "the-customer-has-answered", timeout_ms: 86_400_000 },
  ]);
  const child = { id: "ask", type: "sub_saga", workflow_id: "waits", title: "Ask the customer", next: "end" };
  await publish(service, "parent", [child, end], { name: "A saga with a saga in it" });
  await publish(service, "unserved", [{ id: "pay", type: "action", action: "bank.transfer" }]);
  const form = { type: "collect_input", title: "Details of the travel insurance", form_schema: INSURANCE };
  await publish(service, "insurance", [{ id: "form", ...form, assignee: "insurance-desk" }]);
  await publish(service, "settle", SETTLE, { name: "Settlement with the hotel" });
  await publish(service, "refund", REFUND, { name: "Refund of a cancelled trip", on_undo_failure: "incident" });
  // The run of the first version cannot go on with it.
  const chief = { id: "chief", type: "manual_approval", title: "Ask the chief", assignee: "chief", next: "done" };
  const manager = { type: "object", required: ["manager"], properties: { manager: { type: "string" } } };
  const approval = { name: "Approval by the chief alone", input_schema: manager };
  await publish(service, "approve", [chief, { id: "done", type: "end" }], approval);
  await call(service, "POST", "/rules", RULE);
  await call(service, "POST", "/rules", { ...RULE, rule_id: "draft", name: "Not yet", published: false });
}

async function makeKeys(service: ServiceProcess): Promise<void> {
  const tenant_id = "0190a000-0000-7000-8000-0000000000f1";
  const make = (body: object) => call<{ id: string }>(service, "POST", "/api_keys", body);
  await make({ name: "operations", roles: ["platform", "admin"] });
  const workflows = ["order-fulfilment", "refund", "billing.*", "settle", "travel", "insurance-of-a-trip"];
  await make({ name: "Web shop 🛒 of the north, which starts orders", roles: ["operator"], tenant_id, workflows });
  await make({
    name: "shop workers",
    roles: ["worker"],
    tenant_id,
    services: ["shop"],
    expires_at: "2099-01-01T00:00:00Z",
  });
  const { id } = await make({ name: "replaced", roles: ["author"], tenant_id, secrets: ["stripe", "mail.*"] });
  await revokeKey(service, id);
}

/** It answers nothing. */
const revokeKey = ({ url }: ServiceProcess, id: string) => fetch(`${url}/api/v1/api_keys/${id}`, { method: "DELETE" });

/** One is paused by an operator, one is in quarantine, and one stands at an undo that failed. */
async function stopRuns({ service, database }: Started): Promise<Readonly<Record<Stopped, string>>> {
  const begin = (id: string, key: string) => start(service, id, { inputs: INPUTS, business_key: key });
  const standsAt = (id: string, reason: string) =>
    until(
      async () => (await call<{ paused_reason?: string }>(service, "GET", `/sagas/${id}`)).paused_reason === reason,
    );
  const paused = await begin("settle", "trip-2");
  const quarantined = await begin("settle", "trip-3");
  const refund = await begin("refund", "trip-4");
  await Promise.all([paused, quarantined].map((id) => standsAt(id, "timer")));
  const reason = "the customer asked for another date; nothing is paid until she has answered";
  await call(service, "POST", `/sagas/${paused}/pause`, { reason });
  await suspect(database.sql, quarantined);
  await Promise.all([standsAt(quarantined, "quarantine"), standsAt(refund, "incident")]);
  return { paused, quarantined, refund };
}

async function makeTriggers(service: ServiceProcess): Promise<Shown["triggers"]> {
  const create = async (trigger_type: string, config: object) =>
    (await call<{ id: string }>(service, "POST", "/triggers", { trigger_type, workflow_id: "quick", config })).id;
  const transition = { record_type: "order", from_state: "new", to_state: "paid" };
  const nightly = await create("cron", { schedule: "30 2 * * 1-5", inputs: { region: "eu-central" } });
  const paid = await create("record_transition", transition);
  await call(service, "POST", `/triggers/${nightly}/fire`, {});
  await call(service, "PATCH", `/triggers/${await create("cron", { schedule: "0 5 * * *" })}`, {
    ...{ enabled: false, reason: "the warehouse counts its stock" },
  });
  return { nightly, paid };
}
