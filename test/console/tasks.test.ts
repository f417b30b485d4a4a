// The page of tasks in a real browser, against a real service: forms of every kind of schema, approvals, refusals. What the run does
// with a result is tested with its steps.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { call, publish, start, startService } from "./runs-service.js";

const FORM = {
  type: "object",
  title: "Delivery",
  description: "Where the parcel goes.",
  required: ["street", "gift", "payment"],
  properties: {
    street: { type: "string", title: "Street", minLength: 3 },
    floor: { type: "integer", title: "Floor", description: "Zero is the ground floor." },
    speed: { type: "string", title: "Speed", enum: ["slow", "fast"] },
    gift: { type: "boolean", title: "A gift?" },
    contact: { type: "object", title: "Contact", properties: { email: { type: "string", title: "Email" } } },
    lines: {
      type: "array",
      title: "Lines",
      items: { type: "object", required: ["sku"], properties: { sku: { type: "string", title: "SKU" } } },
    },
    payment: {
      title: "Payment",
      oneOf: [
        {
          type: "object",
          title: "Card",
          required: ["card"],
          properties: { card: { type: "string", title: "Card number" } },
        },
        { type: "object", title: "Bank", required: ["iban"], properties: { iban: { type: "string", title: "IBAN" } } },
      ],
    },
  },
};

interface Run {
  readonly state: string;
  readonly output?: unknown;
}

describeWithBrowser("the page of tasks", () => {
  let service: ServiceProcess;

  const ended = (id: string) =>
    until(async () => {
      const run = await call<Run>(service, "GET", `/sagas/${id}`);
      return run.state === "succeeded" && run;
    });

  const opened = async (path: string, options = {}) => openPage(service.url, `/console/tasks${path}`, options);

  const withTask = async (workflowId: string) => {
    const id = await start(service, workflowId);
    await until(async () => (await call<{ total: number }>(service, "GET", `/user_tasks?run_id=${id}`)).total === 1);
    return id;
  };

  beforeAll(async () => {
    ({ service } = await startService());
    const done = (output: unknown) => ({ id: "done", type: "end", output });
    const ask = { type: "collect_input", assignee: "ann", form_schema: FORM, next: "done" };
    await publish(service, "delivery", [{ id: "ask", title: "Deliver", ...ask }, done("${vars.ask}")]);
    const free = { id: "free", type: "collect_input", assignee: "bob", form_schema: {}, next: "done" };
    await publish(service, "free", [free, done("${vars.free}")]);
    const approve = {
      type: "manual_approval",
      assignee: "finance",
      title: "Pay it",
      due_in_ms: 3_600_000,
      next: "done",
    };
    await publish(service, "approval", [{ id: "approve", ...approve }, done("${vars.approve}")]);
  });

  it("fills in a form of every kind of field; what does not fit is said at its field, and nothing serious is found by axe", async () => {
    const id = await withTask("delivery");
    const { page, faults } = await opened(`?run_id=${id}`);
    await page.getByRole("link", { name: "Deliver" }).click();
    await page.getByLabel("Street").fill("Ma");
    await page.getByLabel("Which of these").selectOption({ label: "Bank" });
    await page.getByRole("button", { name: "Submit the task" }).click();
    await page.locator(".misfit", { hasText: "must have at least 3 characters" }).waitFor();
    expect(await page.locator(".misfit", { hasText: "is required" }).count()).toBeGreaterThan(0);
    for (const name of ["Street", "IBAN"])
      expect(await page.getByLabel(name).getAttribute("aria-invalid"), name).toBe("true");
    await page.getByLabel("Street").fill("Main street 1");
    await page.getByLabel("Floor").fill("3");
    await page.getByLabel("Speed").selectOption({ label: "fast" });
    await page.getByLabel("A gift?").check();
    await page.getByRole("button", { name: "Add" }).click();
    await page.getByText(/^Lines 1\b/).waitFor();
    await page.getByLabel("SKU").fill("A-1");
    await page.getByLabel("Which of these").selectOption({ label: "Bank" });
    await page.getByLabel("IBAN").fill("DE00");
    await page.getByLabel("Submitted by").fill("ann");
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "task-form");
    await page.getByRole("button", { name: "Submit the task" }).click();
    expect((await ended(id)).output).toEqual({
      street: "Main street 1",
      floor: 3,
      speed: "fast",
      gift: true,
      lines: [{ sku: "A-1" }],
      payment: { iban: "DE00" },
    });
    await page.getByText("The task is submitted.").waitFor();
    expect(faults).toEqual([]);
  });

  it("approves and rejects; the name of who submits is remembered", async () => {
    const approved = await withTask("approval");
    const { page, faults } = await opened(`?run_id=${approved}`);
    await page.getByRole("link", { name: "Pay it" }).click();
    await page
      .locator(".task")
      .getByText(/^For finance · open for \d/)
      .waitFor();
    await page.getByLabel("Comment").fill("looks right");
    await page.getByLabel("Submitted by").fill("zoe");
    await page.getByRole("button", { name: "Approve" }).click();
    const result = { approved: true, comment: "looks right", submitted_by: "zoe" };
    expect((await ended(approved)).output).toEqual(result);
    const rejected = await withTask("approval");
    await page.goto(`${service.url}/console/tasks?run_id=${rejected}`);
    await page.getByRole("link", { name: "Pay it" }).click();
    await until(async () => (await page.getByLabel("Submitted by").inputValue()) === "zoe");
    await page
      .getByText(/due in/)
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Reject" }).click();
    const failed = await until(async () => {
      const run = await call<Run>(service, "GET", `/sagas/${rejected}`);
      return run.state === "failed" && run;
    });
    expect(failed).toMatchObject({ error: { code: "approval_rejected" } });
    expect(faults).toEqual([]);
  });

  it("shows what the service refuses in a list and at the fields", async () => {
    const id = await withTask("delivery");
    const { page, faults } = await opened(`?run_id=${id}`);
    await page.getByRole("link", { name: "Deliver" }).click();
    await page.getByRole("button", { name: "Edit as JSON" }).click();
    await page.getByLabel("Result").fill('{"street": "M", "gift": true, "payment": {"card": "4711"}}');
    await page.getByRole("button", { name: "Submit the task" }).click();
    await page.getByRole("alert").getByText("$.result.street").waitFor();
    await page.getByRole("button", { name: "Edit as a form" }).click();
    const street = page.locator(".form-group", { has: page.getByLabel("Street") });
    await street.locator(".misfit").last().waitFor();
    expect(await page.getByLabel("Card number").inputValue()).toBe("4711");
    await page.getByLabel("Street").fill("Main street 1");
    await page.getByRole("button", { name: "Submit the task" }).click();
    expect((await ended(id)).output).toMatchObject({ street: "Main street 1", payment: { card: "4711" } });
    expect(faults).toEqual([]);
  });

  it("takes any JSON where there is no schema, and says what is no JSON", async () => {
    const id = await withTask("free");
    const { page } = await opened(`?run_id=${id}`);
    await page.getByRole("link", { name: "free" }).click();
    await page.getByLabel("Result").fill('{"a": ');
    await page.getByText("This is not JSON").waitFor();
    await page.getByRole("button", { name: "Submit the task" }).click();
    await page.getByLabel("Result").fill('{"a": [1, 2]}');
    await page.getByRole("button", { name: "Submit the task" }).click();
    expect((await ended(id)).output).toEqual({ a: [1, 2] });
  });

  it("shows the refusal of a task that was submitted meanwhile", async () => {
    const id = await withTask("approval");
    const { page } = await opened(`?run_id=${id}`);
    await page.getByRole("link", { name: "Pay it" }).click();
    await page.getByRole("button", { name: "Approve" }).waitFor();
    // The page must not see it before the click.
    await page.route("**/api/v1/user_tasks**", (route) => route.abort());
    const { items } = await call<{ items: { id: string }[] }>(service, "GET", `/user_tasks?run_id=${id}`);
    await call(service, "POST", `/sagas/${id}/user_task/${items[0]?.id}/submit`, { result: { approved: true } });
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByRole("alert").waitFor();
  });

  it("has its filters in the address: who opens it sees the same", async () => {
    const id = await withTask("approval");
    const { page } = await opened("");
    await page.getByLabel("Assignee").fill("finance");
    await page.getByLabel("Assignee").press("Enter");
    await page.waitForURL("**assignee=finance**");
    await page.getByLabel("Status").selectOption("any");
    await page.waitForURL("**status=any**");
    const { page: other } = await opened(`?${new URL(page.url()).searchParams}`);
    await other.getByText(/\d+ tasks/).waitFor();
    expect(await other.getByLabel("Assignee").inputValue()).toBe("finance");
    await other.goto(`${service.url}/console/tasks?run_id=${id}`);
    await other.getByText("1 task", { exact: true }).waitFor();
  });
});
