// docs/runbook.md is true: its stories happen on a real service with real workers, its commands are sent as the page has them and in its order,
// and at the end the books balance.
// @module-tag long
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { until } from "../harness/until.js";
import { commandOf, STORIES, Story } from "./runbook-page.js";
import { changed, idsIn, pay, repeat, signal, tally, useRig, workflow } from "./runbook-rig.js";

const FAILED = 3_000;
/** The patience of the orders whose answer is lost. */
const PATIENCE_MS = 1_000;

/** At this pace, there is time for a stop in the middle. */
const rig = useRig({ bulkPerSecond: "300", withinMs: 300_000 });

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

describe("the runbook", { timeout: 600_000 }, () => {
  it("has these stories", () => {
    expect([...STORIES.keys()]).toEqual([
      "A worker was broken for an hour",
      "A bad deploy failed 3,000 runs",
      "The refund service is gone",
      "A version must be withdrawn",
    ]);
  });

  it.each([
    "curl -sS $API/sagas",
    `curl -sS "$API/bulk" --json {}`,
    `curl -s "$API/sagas"`,
    `curl -sS "$API/sagas" | jq .`,
    `wget "$API/sagas"`,
  ])("has no command that is not read: %s", (command) => {
    expect(() => commandOf(command)).toThrow("cannot read");
  });

  it("a worker was broken for an hour", async () => {
    const story = new Story("A worker was broken for an hour", rig.client);
    const ship = { id: "ship", type: "action", action: "shop.ship", retry: { max_attempts: 1, initial_backoff_ms: 0 } };
    const inputs = { address: "${inputs.address}" };
    await rig.publish(
      workflow("order", [pay(), signal("packed"), { ...ship, inputs, timeout_ms: "${inputs.patience_ms}" }], {
        on_failure: "incident",
      }),
    );
    const order = (address: string) => ({
      inputs: { address, patience_ms: address === "the moon" ? PATIENCE_MS : 30_000 },
    });
    rig.shop.isCarrierDown = true;
    const all = await rig.starts("order", [
      ...[...repeat(4, () => order("here")), order("the moon"), order("the moon")],
      ...[order("nowhere"), ...repeat(4, () => order("later"))],
    ]);
    const [here1 = "", here2 = "", , , moon1 = "", , nowhere = "", held = "", later1 = "", ...later] = all;
    await rig.untilCounts("workflow_id=order", { "paused signal": 11 });
    for (const runId of all.slice(0, 7)) await rig.signal(runId, "packed");
    await rig.untilCounts("workflow_id=order", { "paused incident": 7, "paused signal": 4 });

    const { items } = await story.ask("GET /sagas/counts");
    expect(tally(items)).toEqual({ "paused incident": 7, "paused signal": 4 });
    // Another operator holds one for a reason of their own.
    await rig.client.insist("POST", `/sagas/${held}/pause`, {});
    const standing = await story.ask("GET /sagas");
    const codes = standing.items.map(({ incident }: { incident: { code: string } }) => incident.code).sort();
    expect(codes).toEqual([...repeat(4, () => "carrier_down"), "timeout", "timeout", "unknown_address"]);
    expect((await story.ask("GET /sagas/{id}/explain", { RUN: moon1 })).can).toContain("retry_step");
    expect((await story.ask("GET /workers")).items).toMatchObject([{ service: "shop", transport: "grpc" }]);
    const PAUSED = await bulk(story, 4);
    await rig.jobIsDone(PAUSED);
    expect(await rig.signal(later1, "packed")).toMatchObject({ status: 409, body: { recorded: true } });

    rig.shop.isCarrierDown = false;
    expect(await story.ask("POST /sagas/{id}/retry_step", { RUN: here1 })).toEqual(changed());
    expect(await story.ask("GET /sagas/{id}", { RUN: here1 })).toMatchObject({ state: "succeeded" });
    expect(await story.ask("POST /sagas/{id}/skip_step", { RUN: here2 })).toEqual(changed());
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([nowhere]);
    expect(await story.ask("POST /sagas/{id}/fail", { RUN: nowhere })).toEqual(changed());
    await jobEnds(story, { JOB: await bulk(story, 2) });
    await jobEnds(story, { JOB: await bulk(story, 2) });
    await jobEnds(story, { JOB: await bulk(story, 3, { PAUSED }) });
    for (const runId of later) await rig.signal(runId, "packed");
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    story.end();

    expect(await rig.client.run(held)).toMatchObject({ paused_reason: "operator" });
    await rig.client.insist("POST", `/sagas/${held}/resume`, {});
    await rig.signal(held, "packed");
    await rig.end([nowhere], "failed");
    const others = all.filter((runId) => runId !== nowhere);
    await rig.end(others, "succeeded");
    const shipped = [...rig.shop.parcels.values()].map(({ runId }) => runId).sort();
    expect(shipped, "each once, but the one that people shipped").toEqual(others.filter((id) => id !== here2).sort());
  });

  it("a bad deploy failed 3,000 runs", async () => {
    const version = (nth: number, receipt: string, more: JsonObject = {}) =>
      workflow("checkout", [pay(), { id: "receipt", type: "transform", expression: receipt }], {
        version: nth,
        ...more,
      });
    const input_schema = { type: "object", properties: { amount: { type: "number" } } };
    const story = new Story("A bad deploy failed 3,000 runs", rig.client, {
      "checkout-3.workflow.json": version(3, "vars.pay.receipt", { input_schema }),
    });
    await rig.publish(version(1, "vars.pay.receipt"));
    await rig.publish(version(2, "vars.pay.recept"));
    const firsts = await rig.starts(
      "checkout",
      repeat(FAILED, (nth) => ({
        ...{ business_key: `C-${nth}`, inputs: { amount: nth === 0 ? "12.5" : 10, card: "valid" } },
      })),
    );
    await rig.starts(
      "checkout",
      repeat(3, () => ({ inputs: { card: "declined" } })),
    );
    await rig.untilCounts("workflow_id=checkout&count=exact", { failed: FAILED + 3 });

    await story.ask("POST /workflows/checkout/versions/2/unpublish");
    const rolledBack = await rig.client.start("checkout", { inputs: { card: "valid" } });
    expect(await rig.client.untilState(rolledBack, "succeeded")).toMatchObject({ version: 1 });
    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ failed: FAILED + 3 });
    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ failed: FAILED });
    for (const run of (await story.ask("GET /sagas")).items) expect(run.error.step_id).toBe("receipt");
    expect((await story.ask("GET /sagas/counts")).items).toEqual([]);
    await story.ask("POST /workflows");
    const JOB = await bulk(story, FAILED);
    expect((await story.ask("GET /bulk/{id}", { JOB })).done).toBeGreaterThan(0);
    expect(await story.ask("POST /bulk/{id}/stop", { JOB })).toMatchObject({ state: "stopped", changed: true });
    const again = await story.until("GET /sagas", ({ items }) =>
      items.every(({ state }: { state: string }) => state === "succeeded"),
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

    const kept = await rig.database.sql<{ runs: number; orders: number }[]>`
      select count(*)::int as runs, count(distinct business_key)::int as orders from runs
      where workflow_id = 'checkout' and state = 'succeeded' and business_key is not null`;
    expect([...kept], "no order was started twice").toEqual([{ runs: FAILED, orders: FAILED }]);
  });

  it("the refund service is gone", async () => {
    const story = new Story("The refund service is gone", rig.client);
    const seat = { id: "seat", type: "error", code: "sold_out" };
    await rig.publish(workflow("booking", [pay("bank.refund"), seat], { on_undo_failure: "incident" }));
    rig.shop.isBankDown = true;
    const all = await rig.starts(
      "booking",
      repeat(8, (nth) => ({ business_key: `B-${nth}` })),
    );
    const [first = "", closed = "", byHand = "", ...others] = all;
    await rig.untilCounts("workflow_id=booking", { "compensating incident": 8 });

    expect(tally((await story.ask("GET /sagas/counts")).items)).toEqual({ "compensating incident": 8 });
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([...all].sort());
    expect((await story.ask("GET /workers")).items).toHaveLength(1);
    const owed = { ordinal: 1, step_id: "pay", state: "owed" };
    expect((await story.ask("GET /sagas/{id}/undo", { RUN: byHand })).items).toMatchObject([owed]);
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([byHand]);
    expect(await story.ask("POST /sagas/{id}/compensations/skip", { RUN: byHand })).toEqual(changed());
    expect(await story.ask("POST /sagas/{id}/terminate", { RUN: closed })).toEqual(changed("failed"));
    rig.shop.isBankDown = false;
    expect(await story.ask("POST /sagas/{id}/compensations/retry", { RUN: first })).toEqual(changed());
    const done = { state: "failed", requires_manual_review: false };
    expect(await story.ask("GET /sagas/{id}", { RUN: first })).toMatchObject(done);
    await jobEnds(story, { JOB: await bulk(story, 5) });
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    expect(idsIn(await story.ask("GET /sagas"))).toEqual([byHand, closed].sort());
    const left = await story.ask("GET /sagas/{id}/undo", { RUN: closed });
    expect(left.items).toMatchObject([{ step_id: "pay", state: "abandoned" }]);
    story.end();
    await rig.end([...others, byHand, closed], "failed");
  });

  it("a version must be withdrawn", async () => {
    const letter = { id: "letter", type: "action", action: "shop.letter" };
    const steps = [pay(), signal("confirmed"), letter, signal("delivered")];
    const [, confirmed] = steps;
    const before = [steps[0], { ...confirmed, signal_name: "${inputs.by}" }, ...steps.slice(2)] as typeof steps;
    const story = new Story("A version must be withdrawn", rig.client, {
      "renewal-2.workflow.json": workflow("renewal", steps, { version: 2, description: "With the right letter." }),
    });
    await rig.publish(workflow("renewal", before));
    // Two wait for a signal that version 2 does not know.
    const by = (nth: number) => (nth === 4 || nth === 5 ? "phone" : "confirmed");
    const all = await rig.starts(
      "renewal",
      repeat(8, (nth) => ({ business_key: `R-${nth}`, inputs: { by: by(nth) } })),
    );
    await rig.untilCounts("workflow_id=renewal", { "paused signal": 8 });
    const [withdrawn = "", sending = ""] = all;
    const after = all.slice(1, 4);
    await rig.client.insist("POST", `/sagas/${withdrawn}/cancel`, { reason: "the customer does not renew" });
    for (const runId of after.slice(1)) await rig.signal(runId, "confirmed");
    await rig.untilCounts("workflow_id=renewal&current_step=delivered", { "paused signal": 2 });
    const deliver = rig.shop.holdLetters();
    await rig.signal(sending, "confirmed");
    await until(() => rig.shop.letters.size === 3, { what: "a letter with a worker" });
    await rig.end([withdrawn], "cancelled");

    await story.ask("POST /workflows");
    await story.ask("POST /workflows/renewal/versions/1/unpublish");
    const refused = await rig.client.insist("POST", "/sagas/start", { workflow_id: "renewal", version: 1 });
    expect(refused.status).toBe(404);
    expect((await story.ask("GET /triggers")).items).toEqual([]);
    const PAUSED = await bulk(story, 7);
    await jobEnds(story, { PAUSED });
    deliver();
    await story.until("GET /sagas/counts", (body) => body.items.length === 0, { PAUSED });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 7 });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 4 });
    expect(tally((await story.ask("GET /sagas/counts", { PAUSED })).items)).toEqual({ "paused operator": 3 });
    await rig.jobIsDone(await bulk(story, 3, { PAUSED }));
    const report = await story.ask("POST /workflows/renewal/migrations/check");
    expect(report).toMatchObject({ movable: 5, refused: 2, reasons: [{ count: 2 }] });
    const { refusals } = await jobEnds(story, { JOB: await bulk(story, 4, { PAUSED }) }, 2);
    expect(refusals.map(({ run_id }: { run_id: string }) => run_id).sort()).toEqual(all.slice(4, 6).sort());
    await rig.jobIsDone(await bulk(story, 2, { PAUSED }));
    const CANCELLED = await bulk(story, 2, { PAUSED });
    await jobEnds(story, { CANCELLED });
    await story.until("GET /sagas/counts", ({ items }) => tally(items).cancelled === 2, { CANCELLED });
    expect((await story.ask("GET /sagas/counts", { CANCELLED })).items).toEqual([]);
    await jobEnds(story, { JOB: await bulk(story, 2, { CANCELLED }) });
    await rig.untilCounts("workflow_id=renewal&version=2", { "paused signal": 4 });
    for (const runId of after) await rig.signal(runId, "delivered");
    await story.until("GET /sagas/counts", (body) => body.items.length === 0);
    story.end();

    const [anew] = (await rig.client.insist("GET", "/sagas?workflow_id=renewal&version=2&business_key=R-4")).body.items;
    expect(anew).toMatchObject({ rerun_of: all[4], current_step: "confirmed" });
    for (const { id } of (await rig.client.insist("GET", "/sagas?workflow_id=renewal&version=2")).body.items)
      for (const name of ["confirmed", "delivered"]) await rig.signal(id, name);
    await rig.untilCounts("workflow_id=renewal&state=succeeded", { succeeded: 7 });
  });

  it("leaves books that balance", async () => {
    const each = await rig.shop.balance(rig.client, ["order", "checkout", "booking", "renewal"]);
    expect(each).toEqual({
      kept: 10 + FAILED + 1 + 7,
      refunded: 1 + FAILED + 6 + 3,
      reviewed: 2,
    });
  });
});
