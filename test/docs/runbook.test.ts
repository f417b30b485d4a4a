// docs/runbook.md is true: its stories happen on a real service with real workers, its commands are sent as the page has them and in its order,
// and at the end the books balance. The long form has the 3,000 runs of the page.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { Client } from "../faults/client.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { long } from "../harness/long.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { STORIES, Story } from "./runbook-page.js";
import { Shop } from "./runbook-shop.js";

const FAILED = long(60, 3_000);
/** Slow enough for a stop in the middle. */
const PER_SECOND = long("24", "300");
const LONGEST_MS = long(20_000, 600_000);
/** Starts at once. */
const CLIENTS = 20;
/** Of the orders whose answer is lost. */
const PATIENCE_MS = 1_500;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let shop: Shop;

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  const env = { SAGA_WORKERS: "1", SAGA_BULK_PER_SECOND: PER_SECOND, LOG_LEVEL: "warn" };
  service = await createService({ DATABASE_URL: database.url, ...env });
  await service.start();
  client = new Client(service.url);
  shop = await Shop.open({ grpc: service.grpcAddress, api: service.url });
});
afterAll(async () => {
  await shop?.close();
  await service?.stop();
  await database?.drop();
});

const pay = (refund = "shop.refund") => ({
  ...{ id: "pay", type: "action", action: "shop.charge", inputs: { card: "${has(inputs.card) ? inputs.card : ''}" } },
  compensation: { action: refund },
});
const signal = (name: string) => ({ id: name, type: "wait_for_signal", signal_name: name });

const workflow = (id: string, steps: readonly ({ id: string } & JsonObject)[], more: JsonObject = {}) => ({
  ...{ id, name: id, start: steps[0]?.id ?? "", published: true, version: 1, ...more },
  steps: steps.map((step, nth) => ({ next: steps[nth + 1]?.id, ...step })),
});

async function publish(document: object): Promise<void> {
  const { status, body } = await client.insist("POST", "/workflows", document);
  if (status !== 201) throw new Error(JSON.stringify(body));
}

async function starts(workflowId: string, all: readonly JsonObject[]): Promise<string[]> {
  const ids: string[] = [];
  const left = [...all.entries()];
  const each = async () => {
    for (let next = left.shift(); next; next = left.shift()) ids[next[0]] = await client.start(workflowId, next[1]);
  };
  await Promise.all(Array.from({ length: CLIENTS }, each));
  return ids;
}

const repeat = <T>(count: number, value: (nth: number) => T) => Array.from({ length: count }, (_, nth) => value(nth));
const send = (runId: string, name: string) => client.insist("POST", `/sagas/${runId}/signal/${name}`, {});

interface Count {
  readonly state: string;
  readonly paused_reason?: string;
  readonly count: number;
}
/** Over all versions. */
function tally(items: readonly Count[]): Readonly<Record<string, number>> {
  const all: Record<string, number> = {};
  for (const { state, paused_reason: reason, count } of items) {
    const kind = reason === undefined ? state : `${state} ${reason}`;
    all[kind] = (all[kind] ?? 0) + count;
  }
  return all;
}
const counts = async (filter: string) => tally((await client.insist("GET", `/sagas/counts?${filter}`)).body.items);
const idsIn = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id).sort();

const untilCounts = (filter: string, wanted: Readonly<Record<string, number>>) =>
  until(async () => JSON.stringify(sorted(await counts(filter))) === JSON.stringify(sorted(wanted)), {
    ...{ pause: 100, within: LONGEST_MS, what: `${JSON.stringify(wanted)} of ${filter}` },
  });
const sorted = (tallied: Readonly<Record<string, number>>) => Object.entries(tallied).sort();

/** The job that the page asks for next does all that it matched. */
async function bulk(story: Story, matched: number, names = {}): Promise<string> {
  const job = await story.ask("POST /bulk", names);
  expect(job).toMatchObject({ matched });
  return job.bulk_id;
}

async function jobEnds(story: Story, names: Readonly<Record<string, string>>, refused = 0) {
  const job = await story.until("GET /bulk/{id}", ({ state }) => state === "done", names);
  expect(job).toMatchObject({ done: job.matched - refused, refused });
  return job;
}

/** Of a job whose end the page does not wait for. */
const jobIsDone = (id: string) =>
  until(async () => (await client.insist("GET", `/bulk/${id}?wait_ms=20000`)).body.state === "done");

const changed = (state = expect.any(String)) => ({ run_id: expect.any(String), state, changed: true });

async function end(runIds: readonly string[], state: string): Promise<void> {
  for (const id of runIds) expect(await client.untilState(id, state)).toMatchObject({ state });
}

describe("the runbook", { timeout: LONGEST_MS }, () => {
  it("has these stories", () => {
    expect([...STORIES.keys()]).toEqual([
      "A worker was broken for an hour",
      "A bad deploy failed 3,000 runs",
      "The refund service is gone",
      "A version must be withdrawn",
    ]);
  });

  it("a worker was broken for an hour", async () => {
    const story = new Story("A worker was broken for an hour", client);
    const ship = { id: "ship", type: "action", action: "shop.ship", retry: { max_attempts: 1, initial_backoff_ms: 0 } };
    const inputs = { address: "${inputs.address}" };
    await publish(
      workflow("order", [pay(), signal("packed"), { ...ship, inputs, timeout_ms: "${inputs.patience_ms}" }], {
        on_failure: "incident",
      }),
    );
    const order = (address: string) => ({
      inputs: { address, patience_ms: address === "the moon" ? PATIENCE_MS : 30_000 },
    });
    shop.isCarrierDown = true;
    const all = await starts("order", [
      ...[...repeat(4, () => order("here")), order("the moon"), order("the moon")],
      ...[order("nowhere"), ...repeat(3, () => order("later"))],
    ]);
    const [here1 = "", here2 = "", , , moon1 = "", , nowhere = "", later1 = "", ...later] = all;
    await untilCounts("workflow_id=order", { "paused signal": 10 });
    for (const runId of all.slice(0, 7)) await send(runId, "packed");
    await untilCounts("workflow_id=order", { "paused incident": 7, "paused signal": 3 });

    const { items } = await story.ask("GET /sagas/counts");
    expect(tally(items)).toEqual({ "paused incident": 7, "paused signal": 3 });
    const standing = await story.ask("GET /sagas");
    const codes = standing.items.map(({ incident }: { incident: { code: string } }) => incident.code).sort();
    expect(codes).toEqual([...repeat(4, () => "carrier_down"), "timeout", "timeout", "unknown_address"]);
    expect((await story.ask("GET /sagas/{id}/explain", { RUN: moon1 })).can).toContain("retry_step");
    expect((await story.ask("GET /workers")).items).toMatchObject([{ service: "shop", transport: "grpc" }]);
    const PAUSED = await bulk(story, 3);
    await jobIsDone(PAUSED);
    expect(await send(later1, "packed")).toMatchObject({ status: 409, body: { recorded: true } });

    shop.isCarrierDown = false;
    expect(await story.ask("POST /sagas/{id}/retry_step", { RUN: here1 })).toEqual(changed());
    expect(await story.ask("GET /sagas/{id}", { RUN: here1 })).toMatchObject({ state: "succeeded" });
    expect(await story.ask("POST /sagas/{id}/skip_step", { RUN: here2 })).toEqual(changed());
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([nowhere]);
    expect(await story.ask("POST /sagas/{id}/fail", { RUN: nowhere })).toEqual(changed());
    await jobEnds(story, { JOB: await bulk(story, 2) });
    await jobEnds(story, { JOB: await bulk(story, 2) });
    await jobEnds(story, { JOB: await bulk(story, 3, { PAUSED }) });
    for (const runId of later) await send(runId, "packed");
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    story.end();

    await end([nowhere], "failed");
    const others = all.filter((runId) => runId !== nowhere);
    await end(others, "succeeded");
    const shipped = [...shop.parcels.values()].map(({ runId }) => runId).sort();
    expect(shipped, "each once, but the one that people shipped").toEqual(others.filter((id) => id !== here2).sort());
  });

  it("a bad deploy failed 3,000 runs", async () => {
    const version = (nth: number, receipt: string, more: JsonObject = {}) =>
      workflow("checkout", [pay(), { id: "receipt", type: "transform", expression: receipt }], {
        version: nth,
        ...more,
      });
    const input_schema = { type: "object", properties: { amount: { type: "number" } } };
    const story = new Story("A bad deploy failed 3,000 runs", client, {
      "checkout-3.workflow.json": version(3, "vars.pay.receipt", { input_schema }),
    });
    await publish(version(1, "vars.pay.receipt"));
    await publish(version(2, "vars.pay.recept"));
    const firsts = await starts(
      "checkout",
      repeat(FAILED, (nth) => ({
        ...{ business_key: `C-${nth}`, inputs: { amount: nth === 0 ? "12.5" : 10, card: "valid" } },
      })),
    );
    await starts(
      "checkout",
      repeat(3, () => ({ inputs: { card: "declined" } })),
    );
    await untilCounts("workflow_id=checkout&count=exact", { failed: FAILED + 3 });

    await story.ask("POST /workflows/checkout/versions/2/unpublish");
    const rolledBack = await client.start("checkout", { inputs: { card: "valid" } });
    expect(await client.untilState(rolledBack, "succeeded")).toMatchObject({ version: 1 });
    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ failed: FAILED + 3 });
    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ failed: FAILED });
    for (const run of (await story.ask("GET /sagas")).items) expect(run.error.step_id).toBe("receipt");
    expect((await story.ask("GET /sagas/counts")).items).toEqual([]);
    await story.ask("POST /workflows");
    const JOB = await bulk(story, FAILED);
    expect((await story.ask("GET /bulk/{id}", { JOB })).done).toBeGreaterThan(0);
    expect(await story.ask("POST /bulk/{id}/stop", { JOB })).toMatchObject({ state: "stopped", changed: true });
    const again = await story.until("GET /sagas", ({ items }) =>
      items.every((run: Count) => run.state === "succeeded"),
    );
    for (const run of again.items) expect(firsts).toContain(run.rerun_of);
    const some = tally((await story.ask("GET /sagas/counts")).items);
    expect(some.succeeded).toBeLessThan(FAILED - 1);
    expect(await story.ask("POST /bulk/{id}/resume", { JOB })).toMatchObject({ state: "running", changed: true });
    const { refusals } = await jobEnds(story, { JOB }, 1);
    expect(refusals).toEqual([{ run_id: firsts[0], message: expect.stringContaining("input_schema") }]);
    const refused = { RUN: firsts[0] ?? "" };
    expect(await story.ask("GET /sagas/{id}", refused)).toMatchObject({ inputs: { amount: "12.5" } });
    expect(await story.ask("POST /sagas/{id}/rerun", refused)).toEqual(changed("pending"));
    await story.until("GET /sagas/counts", ({ items }) => tally(items).succeeded === FAILED);
    story.end();

    const kept = await database.sql<{ runs: number; orders: number }[]>`
      select count(*)::int as runs, count(distinct business_key)::int as orders from runs
      where workflow_id = 'checkout' and state = 'succeeded' and business_key is not null`;
    expect([...kept], "no order was started twice").toEqual([{ runs: FAILED, orders: FAILED }]);
  });

  it("the refund service is gone", async () => {
    const story = new Story("The refund service is gone", client);
    const seat = { id: "seat", type: "error", code: "sold_out" };
    await publish(workflow("booking", [pay("bank.refund"), seat], { on_undo_failure: "incident" }));
    shop.isBankDown = true;
    const all = await starts(
      "booking",
      repeat(8, (nth) => ({ business_key: `B-${nth}` })),
    );
    const [first = "", closed = "", byHand = "", ...others] = all;
    await untilCounts("workflow_id=booking", { "compensating incident": 8 });

    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ "compensating incident": 8 });
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([...all].sort());
    expect((await story.ask("GET /workers")).items).toHaveLength(1);
    const owed = { ordinal: 1, step_id: "pay", state: "owed" };
    expect((await story.ask("GET /sagas/{id}/undo", { RUN: byHand })).items).toMatchObject([owed]);
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([byHand]);
    expect(await story.ask("POST /sagas/{id}/compensations/skip", { RUN: byHand })).toEqual(changed());
    expect(await story.ask("POST /sagas/{id}/terminate", { RUN: closed })).toEqual(changed("failed"));
    shop.isBankDown = false;
    expect(await story.ask("POST /sagas/{id}/compensations/retry", { RUN: first })).toEqual(changed());
    const done = { state: "failed", requires_manual_review: false };
    expect(await story.ask("GET /sagas/{id}", { RUN: first })).toMatchObject(done);
    await jobEnds(story, { JOB: await bulk(story, 5) });
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([byHand, closed].sort());
    const left = await story.ask("GET /sagas/{id}/undo", { RUN: closed });
    expect(left.items).toMatchObject([{ step_id: "pay", state: "abandoned" }]);
    story.end();
    await end([...others, byHand, closed], "failed");
  });

  it("a version must be withdrawn", async () => {
    const letter = { id: "letter", type: "action", action: "shop.letter" };
    const steps = [pay(), signal("confirmed"), letter, signal("delivered")];
    const story = new Story("A version must be withdrawn", client, {
      "renewal-2.workflow.json": workflow("renewal", steps, { version: 2, description: "With the right letter." }),
    });
    await publish(workflow("renewal", steps));
    const all = await starts(
      "renewal",
      repeat(8, (nth) => ({ business_key: `R-${nth}` })),
    );
    await untilCounts("workflow_id=renewal", { "paused signal": 8 });
    const [withdrawn = "", ...open] = all;
    const after = open.slice(0, 3);
    await client.insist("POST", `/sagas/${withdrawn}/cancel`, { reason: "the customer does not renew" });
    for (const runId of after) await send(runId, "confirmed");
    await untilCounts("workflow_id=renewal&current_step=delivered", { "paused signal": 3 });
    await end([withdrawn], "cancelled");

    await story.ask("POST /workflows");
    await story.ask("POST /workflows/renewal/versions/1/unpublish");
    const refused = await client.insist("POST", "/sagas/start", { workflow_id: "renewal", version: 1 });
    expect(refused.status).toBe(404);
    expect((await story.ask("GET /triggers")).items).toEqual([]);
    const PAUSED = await bulk(story, 7);
    await jobEnds(story, { PAUSED });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 7 });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 4 });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 3 });
    await jobIsDone(await bulk(story, 3, { PAUSED }));
    const CANCELLED = await bulk(story, 4, { PAUSED });
    await jobEnds(story, { CANCELLED });
    await story.until("GET /sagas/counts", ({ items }) => tally(items).cancelled === 4, { CANCELLED });
    expect((await story.ask("GET /sagas/counts", { CANCELLED })).items).toEqual([]);
    await jobEnds(story, { JOB: await bulk(story, 4, { CANCELLED }) });
    await untilCounts("workflow_id=renewal&version=2", { "paused signal": 4 });
    for (const runId of after) await send(runId, "delivered");
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    story.end();

    const [anew] = (await client.insist("GET", "/sagas?workflow_id=renewal&version=2&business_key=R-4")).body.items;
    expect(anew).toMatchObject({ rerun_of: all[4], current_step: "confirmed" });
    for (const { id } of (await client.insist("GET", "/sagas?workflow_id=renewal&version=2")).body.items)
      for (const name of ["confirmed", "delivered"]) await send(id, name);
    await untilCounts("workflow_id=renewal&state=succeeded", { succeeded: 7 });
  });

  it("leaves books that balance", async () => {
    const each = await shop.balance(client, ["order", "checkout", "booking", "renewal"]);
    expect(each).toEqual({
      kept: 9 + FAILED + 1 + 7,
      refunded: 1 + FAILED + 6 + 5,
      reviewed: 2,
    });
  });
});
