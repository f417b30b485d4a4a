// Starting a run again, over HTTP and on a real node: what the new run has of the first, what is refused, and what a repeat gets.
import { beforeAll, describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { ended, useNode } from "./rig.js";

const rig = useNode();
const TENANT = "0190a000-0000-7000-8000-00000000000a";

beforeAll(async () => {
  await rig.client.publish("echo", [{ id: "out", type: "end", output: "${inputs}" }]);
  await rig.client.publish("wait", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }]);
  await rig.client.publish("family", [
    { id: "child", type: "sub_saga", workflow_id: "echo", inputs: { a: 1 }, next: "out" },
    { id: "out", type: "end" },
  ]);
});

const rerun = (id: string, body?: object, key?: string) => rig.ask("POST", `/sagas/${id}/rerun`, body, key);
const runOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}?wait_ms=30000`)).body;
const eventsOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}/events`)).body.items;

describe("a rerun", () => {
  it("is a new run of the same workflow, with what the first was started with", async () => {
    const given = {
      ...{ inputs: { order: 7 }, tenant_id: TENANT, business_key: "order-7", dry_run: true, entrypoint: "default" },
      ...{ feature_overrides: { fast: true }, labels: { team: "blue" } },
    };
    const first = await ended(rig, "echo", given);
    const before = await eventsOf(first.id);
    const { status, body, headers } = await rerun(first.id);
    expect([status, body]).toEqual([202, { run_id: expect.any(String), state: "pending", changed: true }]);
    expect(body.run_id).not.toBe(first.id);
    expect(headers.get("location")).toBe(`/api/v1/sagas/${body.run_id}`);
    const second = await runOf(body.run_id);
    expect(second).toMatchObject({
      ...{ workflow_id: "echo", inputs: { order: 7 }, tenant_id: TENANT, business_key: "order-7", dry_run: true },
      ...{ feature_overrides: { fast: true }, labels: { team: "blue" }, output: { order: 7 }, rerun_of: first.id },
    });
    expect((await eventsOf(body.run_id))[0]).toMatchObject({
      ...{ event_type: "saga.started", actor: "api", metadata: { rerun_of: first.id } },
    });
    expect(await eventsOf(first.id), "the log of the first stays closed").toEqual(before);
    expect((await runOf(first.id)).rerun_of).toBeUndefined();
  });

  it("takes other inputs, labels and an older version, and without one the latest that is published", async () => {
    const first = await ended(rig, "echo", { inputs: { a: 1 }, labels: { team: "blue" } });
    await rig.client.publish("echo", [{ id: "out", type: "end", output: "two" }], { version: 2 });
    const latest = await runOf((await rerun(first.id)).body.run_id);
    expect(latest).toMatchObject({ version: 2, output: "two" });
    const changes = { version: 1, inputs: { a: 2 }, labels: { team: "red" } };
    const changed = await runOf((await rerun(first.id, changes)).body.run_id);
    expect(changed).toMatchObject({ version: 1, output: { a: 2 }, labels: { team: "red" } });
    expect(await rerun(first.id, { version: 9 })).toMatchObject({ status: 404 });
    expect(await rerun(first.id, { inputs: 1 })).toMatchObject({ status: 400 });
  });

  it("has the variables and the timeout that the first start gave, and a rerun of it, too", async () => {
    await rig.client.publish("colours", [
      { id: "mix", type: "set_var", variables: { colour: "${vars.colour + '!'}" }, next: "out" },
      { id: "out", type: "end", output: "${vars.colour}" },
    ]);
    let last = await ended(rig, "colours", { variables: { colour: "blue" } });
    for (let nth = 0; nth < 2; nth++) {
      last = await runOf((await rerun(last.id)).body.run_id);
      expect(last).toMatchObject({ state: "succeeded", output: "blue!" });
    }
    const late = await ended(rig, "wait", { timeout_ms: 1 });
    expect(late.error.code).toBe("timeout");
    expect((await runOf((await rerun(late.id)).body.run_id)).error).toMatchObject({ code: "timeout" });
  });

  it("is refused if the first start gave variables that are too large to be kept", async () => {
    await rig.client.publish("plain", [{ id: "out", type: "noop" }]);
    const first = await ended(rig, "plain", { variables: { text: "x".repeat(20_000) } });
    const refused = await rerun(first.id);
    expect(refused).toMatchObject({ status: 409, body: { message: expect.stringContaining("16 KiB of variables") } });
  });

  it("is refused, with the reason, while the concurrency of the workflow refuses a start", async () => {
    const head = { concurrency: { key: "all", limit: 1, on_limit: "refuse" } };
    await rig.client.publish("alone", [{ id: "wait", type: "wait_for_signal", signal_name: "go" }], head);
    const first = await rig.client.start("alone");
    await rig.client.insist("POST", `/sagas/${first}/cancel`, {});
    await runOf(first);
    const second = await rig.client.start("alone");
    expect(await rerun(first)).toMatchObject({ status: 409, body: { error: "concurrency_limit" } });
    await rig.client.insist("POST", `/sagas/${second}/cancel`, {});
    await runOf(second);
    expect((await rerun(first)).status).toBe(202);
  });

  it("of a rerun is one of the rerun", async () => {
    const first = await ended(rig, "echo");
    const second = (await rerun(first.id)).body.run_id;
    await runOf(second);
    expect((await runOf((await rerun(second)).body.run_id)).rerun_of).toBe(second);
  });

  it("is refused for a run that goes on, for a child, and for one that is not there", async () => {
    const waiting = await rig.client.start("wait");
    await rig.client.untilState(waiting, "paused");
    const refused = await rerun(waiting);
    expect([refused.status, refused.body.message]).toEqual([
      409,
      "the run is paused: only a run that has ended is started again",
    ]);
    const parent = await ended(rig, "family");
    const [child] = (await rig.ask("GET", `/sagas/${parent.id}/children`)).body.items;
    expect((await rerun(child.id)).body.message).toBe(
      `the run belongs to the run ${parent.id}: only that one can be started again`,
    );
    expect((await rerun(uuidv7())).status).toBe(404);
    expect((await rerun("17")).status).toBe(400);
  });

  it("is offered by explain to ended runs without a parent, and to no others", async () => {
    const canOf = async (id: string) => (await rig.ask("GET", `/sagas/${id}/explain`)).body.can;
    const parent = await ended(rig, "family");
    const [child] = (await rig.ask("GET", `/sagas/${parent.id}/children`)).body.items;
    expect(await canOf(parent.id)).toEqual(["rerun", "fork"]);
    expect(await canOf(child.id)).toEqual([]);
    const waiting = await rig.client.start("wait");
    await rig.client.untilState(waiting, "paused");
    expect(await canOf(waiting)).not.toContain("rerun");
  });

  it("with an Idempotency-Key is made once; with another body it is 409", async () => {
    const first = await ended(rig, "echo");
    const answers = await Promise.all(Array.from({ length: 5 }, () => rerun(first.id, { inputs: { a: 1 } }, "k")));
    expect(new Set(answers.map(({ status, body }) => JSON.stringify([status, body]))).size).toBe(1);
    const again = await rerun(first.id, { inputs: { a: 2 } }, "k");
    expect([again.status, again.body.message]).toEqual([409, "the idempotency key was used with another body"]);
    const other = await ended(rig, "echo");
    expect((await rerun(other.id, { inputs: { a: 1 } }, "k")).body.run_id).not.toBe(answers[0]?.body.run_id);
    expect((await rerun(first.id)).body.run_id).not.toBe((await rerun(first.id)).body.run_id);
  });

  it("that is repeated under its key after its run was erased is told so", async () => {
    const first = await ended(rig, "echo");
    const { run_id: id } = (await rerun(first.id, {}, "erased since")).body;
    await runOf(id);
    expect((await fetch(`${rig.client.url}/api/v1/sagas/${id}`, { method: "DELETE" })).status).toBe(204);
    const message =
      "the run that was started under this idempotency key or run_id has been erased: it is not started again";
    for (const body of [{}, { inputs: { a: 2 } }])
      expect(await rerun(first.id, body, "erased since")).toMatchObject({
        status: 409,
        body: { error: "conflict", message },
      });
  });
});
