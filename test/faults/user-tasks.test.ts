// User tasks over HTTP, on the whole service: a task survives a restart, is submitted once, and expires with its time or its run.
// @module-tag long
// @access both
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { actor } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { until } from "../harness/until.js";
import { nothingUnwatched } from "../run/seen.js";
import { type Service, startService } from "./rig.js";

let database: TestDatabase;
let service: Service;

const FORM = {
  type: "object",
  properties: { sum: { type: "number", minimum: 1 }, note: { type: "string", pattern: "^(a+)+$" } },
  required: ["sum"],
  additionalProperties: false,
};

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await startService(database.url);
  await service.client.publish("loan", [
    { id: "form", type: "collect_input", assignee: "clerk", title: "Loan", form_schema: FORM, next: "approve" },
    {
      ...{ id: "approve", type: "manual_approval", assignee: "boss-of-${vars.form.sum}", due_in_ms: 86_400_000 },
      branches: { approved: { next: "done" }, rejected: { next: "refused" } },
    },
    { id: "done", type: "end", output: "${vars.approve.submitted_by}" },
    { id: "refused", type: "error", code: "refused" },
  ]);
  await service.client.publish("hasty", [
    { id: "ask", type: "manual_approval", assignee: "ann", due_in_ms: 150, on_timeout: "continue" },
  ]);
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

const ask = (method: "GET" | "POST", path: string, body?: unknown) => service.client.ask(method, path, body);

/** The run's only open task. */
const openTask = (runId: string) =>
  until(async () => {
    const { body } = await ask("GET", `/user_tasks?run_id=${runId}&status=open`);
    return body.items[0] as { id: string; assignee: string } | undefined;
  });

describe("user tasks on the whole service", () => {
  it("a form and an approval survive a restart and are submitted once", async () => {
    const runId = await service.client.start("loan");
    const form = await openTask(runId);
    expect(form).toMatchObject({ assignee: "clerk", title: "Loan", form_schema: FORM, status: "open" });
    await service.stop();
    service = await startService(database.url);
    const submit = (id: string, body: object) => ask("POST", `/sagas/${runId}/user_task/${id}/submit`, body);

    expect(await submit(form.id, { result: { sum: 0 } })).toMatchObject({
      status: 422,
      body: { error: "unprocessable", details: [{ path: "$.result.sum", message: "must be at least 1" }] },
    });
    // Twenty-eight letters would stall a backtracking engine.
    const hostile = { sum: 7, note: `${"a".repeat(28)}!` };
    expect((await submit(form.id, { result: hostile })).status).toBe(422);
    expect(await openTask(runId)).toEqual(form);
    const run = await service.client.run(runId);
    expect(run).toMatchObject({ state: "paused", paused_reason: "user_task", current_step: "form" });
    expect(run.awaited_signal).toBe(`user_task.${form.id}.submitted`);

    expect(await submit(form.id, { sum: 7 })).toMatchObject({ status: 202, body: { task_id: form.id, matched: true } });
    const again = await submit(form.id, { sum: 8 });
    expect(again).toMatchObject({ status: 409, body: { error: "conflict" } });
    const approval = await openTask(runId);
    expect(approval).toMatchObject({ assignee: "boss-of-7", due_at: expect.any(String) });
    expect(await service.client.run(runId)).toMatchObject({ wakeup_at: (approval as { due_at?: string }).due_at });
    await service.stop();
    service = await startService(database.url);

    expect((await submit(approval.id, { result: { approved: "yes" } })).status).toBe(422);
    expect((await submit(approval.id, { result: { approved: true }, submitted_by: "eve" })).status).toBe(202);
    const [ended] = await service.client.allEnd([runId]);
    expect(ended?.run).toMatchObject({ state: "succeeded", output: actor("eve"), variables: { form: { sum: 7 } } });
    const { body } = await ask("GET", `/sagas/${runId}/user_tasks`);
    expect(body.items).toMatchObject([
      { id: form.id, status: "submitted", result: { sum: 7 } },
      { id: approval.id, status: "submitted", submitted_by: actor("eve") },
    ]);
    const signals = (await ask("GET", `/sagas/${runId}/signals`)).body.items;
    expect(
      signals.map(({ signal_name, payload }: { signal_name: string; payload: unknown }) => [signal_name, payload]),
    ).toEqual([
      [`user_task.${form.id}.submitted`, { sum: 7 }],
      [`user_task.${approval.id}.submitted`, { approved: true }],
    ]);
    expect((await submit(approval.id, { approved: true })).status).toBe(409);
  });

  it("a task expires when it is due, and when its run is cancelled", async () => {
    const [hasty, loan] = [await service.client.start("hasty"), await service.client.start("loan")];
    const { id } = await openTask(loan);
    await ask("POST", `/sagas/${loan}/cancel`);
    const [timedOut] = await service.client.allEnd([hasty, loan]);
    expect(timedOut?.run).toMatchObject({ state: "succeeded", variables: { ask: null } });
    for (const runId of [hasty, loan]) {
      const { body } = await ask("GET", `/sagas/${runId}/user_tasks`);
      expect(body.items).toMatchObject([{ status: "expired" }]);
      const late = await ask("POST", `/sagas/${runId}/user_task/${body.items[0].id}/submit`, {
        approved: true,
        sum: 1,
      });
      expect(late.status).toBe(409);
    }
    expect((await ask("POST", `/sagas/${hasty}/user_task/${id}/submit`, { sum: 1 })).status).toBe(404);
    await nothingUnwatched(database.sql);
  });

  it("an invalid form schema, or one that could stall a node, is refused with its path", async () => {
    const document = (form_schema: object) => ({
      ...{ id: "bad", name: "bad", start: "s" },
      steps: [{ id: "s", type: "collect_input", assignee: "ann", form_schema }],
    });
    for (const schema of [{ type: "banana" }, { pattern: "(?=a)b" }, { $ref: "https://example.com/schema" }]) {
      const { status, body } = await ask("POST", "/workflows", document(schema));
      expect([status, body.error, body.details[0].path]).toEqual([400, "invalid_config", "$.steps[0].form_schema"]);
    }
  });
});
