// What the console offers to each role: pages, acts, buttons and tabs that the service would refuse are not there. That it refuses them is tested at
// its doors.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { mayDo } from "../../src/console/session/may.js";
import type { OperationId } from "../../src/console/session/needs.js";
import { describeWithBrowser } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { type Key, LockedService } from "./access-stage.js";
import { seriousFindings } from "./axe.js";

const HEAR = { id: "hear", type: "wait_for_signal", signal_name: "go", timeout_ms: 86_400_000 };
const ASK = { id: "ask", type: "manual_approval", title: "Ask the chief", assignee: "chief" };
const RULE = {
  ...{ rule_id: "shipping", name: "Shipping", rule_type: "decision_table", published: true },
  spec: { hit_policy: "first", rows: [{ when: "weight > 30", then: { branch: "freight" } }] },
};

const READING = ["Runs", "Workflows", "Tasks", "Rules", "Triggers", "Bulk", "Workers"];

/** A button, a link or a tab of a page, and the operation that it leads to. */
interface Offer {
  readonly at: (stage: Stage) => string;
  readonly name: string | RegExp;
  readonly needs: OperationId;
  /** What the page has, whoever looks. */
  readonly ready: string;
}

interface Stage {
  readonly waiting: string;
  readonly ended: string;
  readonly asking: string;
  readonly trigger: string;
}

const inRun = ({ waiting }: Stage) => `/console/runs/${waiting}`;
const OFFERS: readonly Offer[] = [
  { at: () => "/console/runs", name: "Start a run …", needs: "startSaga", ready: "table.runs" },
  { at: () => "/console/runs", name: "Act on all that match …", needs: "createBulkJob", ready: "table.runs" },
  { at: inRun, name: "Pause", needs: "pauseSaga", ready: ".because" },
  { at: inRun, name: "Cancel", needs: "cancelSaga", ready: ".because" },
  { at: inRun, name: "Terminate", needs: "terminateSaga", ready: ".because" },
  { at: (stage) => `${inRun(stage)}?tab=signals`, name: "Send a signal …", needs: "signalSaga", ready: ".because" },
  { at: ({ ended }) => `/console/runs/${ended}`, name: "Run again", needs: "rerunSaga", ready: ".because" },
  { at: ({ ended }) => `/console/runs/${ended}`, name: "Erase …", needs: "eraseSaga", ready: ".because" },
  {
    at: ({ asking }) => `/console/runs/${asking}`,
    name: "Submit the task",
    needs: "submitUserTask",
    ready: ".because",
  },
  { at: () => "/console/workflows", name: "New workflow", needs: "createWorkflow", ready: "table" },
  { at: () => "/console/workflows/waits", name: "Start", needs: "startSaga", ready: "nav.tabs" },
  { at: () => "/console/workflows/waits", name: "Try", needs: "rehearseWorkflow", ready: "nav.tabs" },
  { at: () => "/console/workflows/waits", name: "Edit", needs: "createWorkflow", ready: "nav.tabs" },
  { at: () => "/console/workflows/waits?tab=versions", name: /^Unpublish/, needs: "unpublishWorkflow", ready: "td" },
  { at: () => "/console/rules/shipping", name: /^Unpublish/, needs: "unpublishRule", ready: "td.acts" },
  { at: () => "/console/rules/shipping", name: "Try", needs: "evaluateRule", ready: "td.acts" },
  { at: () => "/console/triggers", name: "New trigger", needs: "createTrigger", ready: "table" },
  { at: ({ trigger }) => `/console/triggers/${trigger}`, name: "Fire now", needs: "fireTrigger", ready: "ol.ticks" },
  { at: ({ trigger }) => `/console/triggers/${trigger}`, name: "Disable …", needs: "changeTrigger", ready: "ol.ticks" },
  {
    at: ({ trigger }) => `/console/triggers/${trigger}`,
    name: "Backfill …",
    needs: "backfillTrigger",
    ready: "ol.ticks",
  },
  { at: ({ trigger }) => `/console/triggers/${trigger}`, name: "Change …", needs: "changeTrigger", ready: "ol.ticks" },
  { at: ({ trigger }) => `/console/triggers/${trigger}`, name: "Delete …", needs: "deleteTrigger", ready: "ol.ticks" },
];

describeWithBrowser("the console offers to", () => {
  let locked: LockedService;
  let admin: Key;
  let stage: Stage;

  beforeAll(async () => {
    locked = await LockedService.open();
    admin = await locked.newKey(["admin"]);
    stage = await setUp(locked, admin);
  });

  it.each([
    ["a viewer", ["viewer"], []],
    ["an operator", ["operator"], []],
    ["an author", ["author"], []],
    ["an admin", ["admin"], []],
    ["the platform that views", ["platform", "viewer"], ["Cluster"]],
  ])(
    "%s the pages and acts that they may use, and no others",
    async (_, roles, more) => {
      const principal = { kind: "session", sub: "x", roles };
      const { page, faults } = await locked.openAs(await locked.newKey(roles), "/console/runs");
      expect(await pagesOf(page)).toEqual(expect.arrayContaining([...READING, ...more]));
      expect((await pagesOf(page)).includes("Cluster")).toBe(roles.includes("platform"));
      const shown: string[] = [];
      let at = "";
      for (const { name, ready, ...offer } of OFFERS) {
        const path = offer.at(stage);
        if (path !== at) await page.goto(`${locked.url}${path}`);
        at = path;
        await page.locator(ready).first().waitFor();
        const found = page.getByRole("main").getByRole("button", { name, exact: true });
        const linked = page.getByRole("main").getByRole("link", { name, exact: true });
        const isOffered = mayDo(principal, offer.needs);
        // What the service says may be done comes a moment after the page.
        if (isOffered) await found.or(linked).first().waitFor();
        if ((await found.or(linked).count()) > 0) shown.push(`${name} ${offer.needs}`);
      }
      expect(shown).toEqual(
        OFFERS.filter(({ needs }) => mayDo(principal, needs)).map(({ name, needs }) => `${name} ${needs}`),
      );
      expect(faults).toEqual([]);
    },
    120_000,
  );

  it("a viewer no way around: an address of what is for others says for whom it is", async () => {
    const { page, faults } = await locked.openAs(await locked.newKey(["viewer"]), "/console/cluster");
    await page.getByText("The role platform may use it.").waitFor();
    for (const [path, role] of [
      ["/workflows?new=1", "author"],
      ["/workflows/waits?tab=edit", "author"],
      ["/workflows/waits?tab=try", "operator"],
    ]) {
      await page.goto(`${locked.url}/console${path}`);
      await page.getByText(`The role ${role} may use it.`).waitFor();
    }
    await page.goto(`${locked.url}/console/tasks?run_id=${stage.asking}`);
    await page.getByRole("link", { name: "Ask the chief" }).click();
    await page.getByText("The role operator may submit it.").waitFor();
    await page.goto(`${locked.url}/console/workers`);
    await page.getByText("No worker is connected.").waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    expect(faults).toEqual([]);
  });

  it("the platform alone the workers and the cluster", async () => {
    const { page, faults } = await locked.openAs(await locked.newKey(["platform"]), "/console");
    await page.waitForURL("**/console/workers");
    expect(await pagesOf(page)).toEqual(["Workers", "Cluster"]);
    await page.getByRole("heading", { name: "Workers", level: 1 }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it.each([["worker"], ["scrape"]])("a credential of the role %s no page, but the way out", async (role) => {
    const { page, faults } = await locked.openPage("/console/runs");
    const { key } = await locked.newKey([role]);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Log in", exact: true }).click();
    await page.getByRole("heading", { name: "There is no console for this credential" }).waitFor();
    expect(await page.getByRole("navigation").count()).toBe(0);
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in", level: 1 }).waitFor();
    expect(faults).toEqual([]);
  });

  it("a narrowed author what concerns its workflows, and no change of a rule", async () => {
    const narrowed = await locked.newKey(["author"], { workflows: ["waits"] });
    const { page } = await locked.openAs(narrowed, "/console/rules/shipping");
    await page.locator("td.acts").waitFor();
    await page.getByRole("button", { name: "Try", exact: true }).waitFor();
    expect(await page.getByRole("button", { name: /^Unpublish/ }).count()).toBe(0);
  });

  it("a narrowed author triggers with a schedule, and of those on records only what is left to do with them", async () => {
    const { id } = await locked.call<{ id: string }>(admin, "POST", "/triggers", {
      ...{ trigger_type: "record_transition", workflow_id: "waits" },
      config: { record_type: "order", from_state: "new", to_state: "paid" },
    });
    const dialogs = async (key: Key) => {
      const { page } = await locked.openAs(key, `/console/triggers/${id}`);
      const shown = page.getByRole("main").getByRole("button");
      await shown.getByText("Delete …").waitFor();
      const acts = await shown.allTextContents();
      await page.goto(`${locked.url}/console/triggers`);
      await page.getByRole("button", { name: "New trigger" }).click();
      const types = page.getByRole("dialog").getByRole("combobox", { name: /^Type/ }).getByRole("option");
      await types.first().waitFor({ state: "attached" });
      return { acts, types: (await types.allTextContents()).map((text) => text.split(":")[0]) };
    };
    expect(await dialogs(admin)).toEqual({
      acts: ["Fire now …", "Disable …", "Change …", "Delete …"],
      types: ["cron", "record transition"],
    });
    expect(await dialogs(await locked.newKey(["author"], { workflows: ["waits"] }))).toEqual({
      acts: ["Fire now …", "Delete …"],
      types: ["cron"],
    });
  });

  it("shows the service's sentence where it refuses nevertheless", async () => {
    const { page } = await locked.openAs(admin, inRun(stage));
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page.route("**/pause", (route) =>
      route.fulfill({
        status: 403,
        json: { error: "forbidden", message: "the role operator may do this", request_id: "" },
      }),
    );
    await page.getByRole("dialog").getByRole("button", { name: "Pause the run" }).click();
    await page.getByRole("dialog").getByText("the role operator may do this").waitFor();
  });

  it("an admin to erase an ended run, who types that it is meant", async () => {
    const { run_id: id } = await locked.call<{ run_id: string }>(admin, "POST", "/sagas/start", {
      workflow_id: "quick",
    });
    await until(async () => (await locked.call<{ state: string }>(admin, "GET", `/sagas/${id}`)).state === "succeeded");
    const { page, faults } = await locked.openAs(admin, `/console/runs/${id}`);
    await page.getByRole("button", { name: "Erase …" }).click();
    const dialog = page.getByRole("dialog", { name: "Erase the run?" });
    const really = dialog.getByRole("button", { name: "Erase for good" });
    expect(await really.isDisabled()).toBe(true);
    await dialog.getByLabel("Type “erase” to go on").fill("eras");
    expect(await really.isDisabled()).toBe(true);
    await dialog.getByLabel("Type “erase” to go on").fill("erase");
    expect(await seriousFindings(page)).toEqual([]);
    await really.click();
    await page.waitForURL("**/console/runs");
    await page.locator(`a[href="/console/runs/${stage.ended}"]`).first().waitFor();
    expect(await page.locator(`a[href="/console/runs/${id}"]`).count()).toBe(0);
    await expect(locked.call(admin, "GET", `/sagas/${id}`)).rejects.toThrow(/404/);
    expect(faults).toEqual([]);
  });
});

const pagesOf = (page: Page) =>
  page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link").allTextContents();

async function setUp(locked: LockedService, admin: Key): Promise<Stage> {
  const post = <T>(path: string, body: object) => locked.call<T>(admin, "POST", path, body);
  const publish = (id: string, step: { id: string }) =>
    post("/workflows", { id, name: id, start: step.id, steps: [step], published: true });
  await publish("waits", HEAR);
  await publish("asks", ASK);
  await publish("quick", { id: "end", type: "end" } as { id: string });
  await post("/rules", RULE);
  const start = async (id: string) => (await post<{ run_id: string }>("/sagas/start", { workflow_id: id })).run_id;
  const [waiting, ended, asking] = [await start("waits"), await start("quick"), await start("asks")];
  const { id: trigger } = await post<{ id: string }>("/triggers", {
    ...{ trigger_type: "cron", workflow_id: "waits", config: { schedule: "0 5 * * *" } },
  });
  const reasonOf = async (id: string) =>
    (await locked.call<{ paused_reason?: string }>(admin, "GET", `/sagas/${id}`)).paused_reason;
  await until(async () => (await reasonOf(waiting)) === "signal" && (await reasonOf(asking)) === "user_task");
  return { waiting, ended, asking, trigger };
}
