// Every view of the console and the page of the API, on a phone, a desk and a large screen, in light and dark: each is kept as a picture, and nothing in
// it is cut, torn, covered or out of line. What the views do is tested in the other files.
// @module-tag long
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { ACTS, type ActName } from "../../src/console/acts/acts.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { endSessions, logIn } from "./access-stage.js";
import { seriousFindings } from "./axe.js";
import { layoutFaults } from "./layout-faults.js";
import { openShown, type Shown } from "./pictures-stage.js";

const PHONE = { width: 390, height: 844 };
const DESK = { width: 1440, height: 900 };
const SIZES = [PHONE, DESK, { width: 2560, height: 1440 }];
/** The layout is the same in the dark, so one size is enough for it. */
const coloursAt = (size: object) => (size === PHONE ? (["light", "dark"] as const) : (["light"] as const));
/** It looks once at each colour, because it takes as long as the pictures of a size. */
const isForAxe = (size: object, colour: string) => size === (colour === "dark" ? PHONE : DESK);

interface View {
  readonly path: string | ((shown: Shown) => string);
  /** Of what is there when the page is. */
  readonly ready: string;
  /** What a person does to come to the view; then `ready` is there. */
  readonly open?: (page: Page, shown: Shown) => Promise<unknown>;
  /** Of the service with access control, before the login. */
  readonly isLocked?: true;
  /** Its dialog is in sight. */
  readonly act?: ActName;
  /** Drawn by Swagger UI. axe takes long for it, and looks at it in the test of that page. */
  readonly isForeign?: true;
}

const press = (name: string | RegExp) => (page: Page) =>
  page.getByRole("button", { name, exact: true }).first().click();
const ofRun =
  (name: keyof Shown["runs"], more = "") =>
  (shown: Shown) =>
    `/console/runs/${shown.runs[name]}${more}`;
const tab = (name: string, of: keyof Shown["runs"] = "travel") => ofRun(of, `?tab=${name}`);
const ORDER = "/console/workflows/order-fulfilment";
const ofTrigger = (name: keyof Shown["triggers"]) => (shown: Shown) => `/console/triggers/${shown.triggers[name]}`;
const ofBranch = (shown: Shown) => `/console/runs/${shown.branch}`;
const MODAL = "dialog[open]";

/** The dialog of an act on the page of a run. */
const dialogOf = (act: ActName, path: View["path"]): View => ({
  ...{ act, path, ready: MODAL },
  open: press(ACTS.find(({ name }) => name === act)?.button ?? act),
});

/** What the service answers to a move of the run to another version. */
const checkOf = (version: string, ready: string): View => ({
  ...dialogOf("migrate", ofRun("approve")),
  ready: `${MODAL} ${ready}`,
  open: async (page) => {
    await press("Migrate")(page);
    await page.getByRole("dialog").getByLabel("Version").selectOption(version);
    await press("Check")(page);
  },
});

async function makeKey(page: Page): Promise<void> {
  await press("New key")(page);
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel(/^Name/).fill("the dashboard in the hall of the warehouse");
  await dialog.getByRole("checkbox", { name: /^viewer/ }).check();
  await dialog.getByLabel(/^Tenant/).fill("0190a000-0000-7000-8000-0000000000f1");
  await press("Make the key")(page);
}

const NARROWING = { workflows: ["billing.*", "order-fulfilment", "settlement-with-the-hotels-of-the-north"] };

/** Logs in with a key of the roles, then goes on. */
const asRoles =
  (roles: readonly string[], then?: (page: Page, shown: Shown) => Promise<unknown>) =>
  async (page: Page, shown: Shown) => {
    const { key } = await shown.locked.newKey(roles, roles.includes("author") ? NARROWING : {});
    await logIn(page, key);
    await then?.(page, shown);
  };

/** With access control. */
const LOCKED: Readonly<Record<string, View>> = {
  login: { isLocked: true, path: "/console/runs", ready: ".key-form" },
  "login: wrong key": {
    ...{ isLocked: true, path: "/console/runs", ready: ".key-form .refused" },
    open: (page) => logIn(page, "saga_none_none"),
  },
  "session ended": {
    ...{ isLocked: true, path: "/console/runs", ready: `${MODAL} .key-form` },
    open: asRoles(["admin"], async (page, { locked }) => {
      await press("Start a run …")(page);
      await endSessions(locked);
    }),
  },
  "who I am": {
    ...{ isLocked: true, path: "/console/workflows", ready: ".who-card button" },
    open: asRoles(["viewer", "operator", "author"], (page) => page.locator(".who > button").click()),
  },
  "no console": { isLocked: true, path: "/console/runs", ready: "#no-console", open: asRoles(["scrape"]) },
  "not for my roles": { isLocked: true, path: "/console/cluster", ready: "main h1", open: asRoles(["viewer"]) },
};

const VIEWS: Readonly<Record<string, View>> = {
  runs: { path: "/console/runs", ready: "table.runs tbody tr" },
  "runs: filters": { path: "/console/runs?incident=true&label.region=eu", ready: "main details[open]" },
  "runs: start": { path: "/console/runs", ready: `${MODAL} li`, open: press("Start a run …") },
  "runs: bulk": { path: "/console/runs?incident=true", ready: MODAL, open: press("Act on all that match …") },
  "runs: bulk preview": {
    ...{ path: "/console/runs?incident=true", ready: `${MODAL} li` },
    open: async (page) => {
      await press("Act on all that match …")(page);
      await press("Preview")(page);
      await page.getByText("All of them", { exact: true }).click();
    },
  },
  run: { path: ofRun("travel"), ready: "[data-step=pay][data-tone=failed]" },
  "run: step": { path: ofRun("travel", "?step=pay"), ready: "aside.step" },
  "run: incidents": { path: ofRun("family"), ready: ".family-incident button" },
  "run: waiting": { path: ofRun("approve"), ready: "[data-step=ask][data-tone=waiting]" },
  "run: timeline": { path: tab("timeline"), ready: ".lane-name" },
  "run: events": { path: tab("events"), ready: ".event-row" },
  "run: event": {
    ...{ path: tab("events"), ready: "section.event" },
    open: (page) => page.locator(".event-row").nth(3).click(),
  },
  "run: variables": { path: tab("variables"), ready: "main table tbody tr" },
  "run: signals": { path: tab("signals"), ready: "main .row button" },
  "run: tasks": { path: tab("tasks", "approve"), ready: "main table tbody tr" },
  "run: undo": { path: tab("undo"), ready: "main table tbody tr" },
  "run: children": { path: tab("children", "family"), ready: ".tree-line" },
  "run: paused": { path: ofRun("paused"), ready: "[data-step=bill][data-tone=paused]" },
  "run: quarantined": { path: ofRun("quarantined"), ready: "[data-step=bill][data-tone=failed]" },
  "run: undo failed": { path: tab("undo", "refund"), ready: "main table tbody tr" },
  "run: pause": dialogOf("pause", ofRun("approve")),
  "run: resume": dialogOf("resume", ofRun("paused")),
  "run: release": dialogOf("release", ofRun("quarantined")),
  "run: retry undo": dialogOf("compensations/retry", ofRun("refund")),
  "run: skip undo": dialogOf("compensations/skip", ofRun("refund")),
  "run: cancel": dialogOf("cancel", ofRun("approve")),
  "run: terminate": dialogOf("terminate", ofRun("approve")),
  "run: migrate": {
    ...dialogOf("migrate", ofRun("approve")),
    ready: `${MODAL} select:has(option:nth-of-type(2))`,
  },
  "run: may migrate": checkOf("2", "p[role=status]"),
  "run: may not migrate": checkOf("3", ".refused li"),
  "run: fork": { ...dialogOf("fork", ofRun("travel")), ready: `${MODAL} input` },
  "run: again": { ...dialogOf("rerun", ofRun("travel")), ready: `${MODAL} input` },
  "run: retry": dialogOf("retry_step", ofBranch),
  "run: skip": dialogOf("skip_step", ofBranch),
  "run: let fail": dialogOf("fail", ofBranch),
  "run: erase": { path: ofRun("travel"), ready: MODAL, open: press("Erase …") },
  "run: signal": { ...dialogOf("signal", tab("signals", "approve")), open: press("Send a signal …") },
  "run: none": { path: "/console/runs/01900000-0000-7000-8000-000000000000", ready: "[role=alert]" },
  workflows: { path: "/console/workflows", ready: "table tbody tr" },
  "workflow: new": { path: "/console/workflows?new=1", ready: ".valid" },
  workflow: { path: "/console/workflows/travel", ready: "[data-step=s1]" },
  "workflow: step": { path: `${ORDER}?step=check`, ready: "[data-step=check][aria-pressed=true]" },
  "workflow: versions": { path: `${ORDER}?tab=versions`, ready: "table tbody tr" },
  "workflow: difference": { path: `${ORDER}?tab=versions&version=2&compare=1`, ready: ".difference .changed" },
  "workflow: stats": { path: "/console/workflows/quick?tab=stats&hours=1", ready: ".plot canvas" },
  "workflow: start": { path: "/console/workflows/travel?tab=start", ready: ".start input" },
  "workflow: try": { path: "/console/workflows/travel?tab=try", ready: "[data-step=s1]" },
  "workflow: rehearsal": {
    ...{ path: `${ORDER}?tab=try&version=1`, ready: "[data-step=ship][data-tone=failed]" },
    open: async (page) => {
      await page.getByLabel("SKU").fill("tea");
      await page.getByLabel("Quantity").fill("20");
      await page.getByRole("combobox", { name: "Step" }).selectOption("ship");
      await press("Let it fail")(page);
      await press("Rehearse")(page);
    },
  },
  "workflow: edit": { path: `${ORDER}?tab=edit`, ready: ".valid" },
  "workflow: problems": {
    ...{ path: "/console/workflows/quick?tab=edit", ready: "[data-step=first][data-tone=failed]" },
    open: (page) =>
      page
        .getByLabel("Definition (JSON)")
        .fill(
          '{"id": "quick", "name": "", "start": "first", "steps": [{"id": "first", "type": "noop", "next": "dome"}]}',
        ),
  },
  tasks: { path: "/console/tasks", ready: ".inbox li" },
  "task: form": {
    ...{ path: "/console/tasks", ready: "main .schema-form input" },
    open: (page) => page.getByRole("link", { name: "Details of the travel insurance" }).click(),
  },
  "task: misfits": {
    ...{ path: "/console/tasks", ready: ".misfit" },
    open: async (page) => {
      await page.getByRole("link", { name: "Details of the travel insurance" }).click();
      await press("Add")(page);
      await press("Submit the task")(page);
    },
  },
  "task: approval": {
    ...{ path: "/console/tasks", ready: "main .schema-form input" },
    open: (page) => page.getByRole("link", { name: /genehmigen/ }).click(),
  },
  rules: { path: "/console/rules", ready: "table tbody tr" },
  rule: { path: "/console/rules/shipping", ready: ".acts button" },
  "rule: tried": {
    ...{ path: "/console/rules/shipping", ready: "tr.hit" },
    open: async (page) => {
      await page.getByLabel("Inputs (JSON)").fill('{"weight": 1, "country": "AT", "insured": false}');
      await press("Try")(page);
    },
  },
  "rule: draft": { path: "/console/rules/draft", ready: ".acts button" },
  triggers: { path: "/console/triggers", ready: "table tbody tr" },
  "triggers: new": { path: "/console/triggers", ready: MODAL, open: press("New trigger") },
  "triggers: new transition": {
    ...{ path: "/console/triggers", ready: MODAL },
    open: async (page) => {
      await press("New trigger")(page);
      await page.getByRole("dialog").getByLabel("Type").selectOption("record_transition");
    },
  },
  trigger: { path: ofTrigger("nightly"), ready: "table tbody a" },
  "trigger: change": { path: ofTrigger("nightly"), ready: MODAL, open: press("Change …") },
  "trigger: disable": { path: ofTrigger("nightly"), ready: MODAL, open: press("Disable …") },
  "trigger: backfill": { path: ofTrigger("nightly"), ready: MODAL, open: press("Backfill …") },
  "trigger: delete": { path: ofTrigger("nightly"), ready: MODAL, open: press("Delete …") },
  "trigger: fire": { path: ofTrigger("paid"), ready: MODAL, open: press("Fire now …") },
  bulk: { path: "/console/bulk", ready: ".jobs li" },
  "bulk: job": { path: ({ job }) => `/console/bulk/${job}`, ready: "dl" },
  workers: { path: "/console/workers", ready: "details.action" },
  "workers: action": {
    ...{ path: "/console/workers", ready: "details.action[open]" },
    open: (page) => page.getByText("shop.reserve@1").click(),
  },
  keys: { path: "/console/keys", ready: "table tbody tr" },
  "keys: none": { path: "/console/keys?tenant_id=01900000-0000-7000-8000-000000000000", ready: "main p.quiet" },
  "keys: new": { path: "/console/keys", ready: MODAL, open: press("New key") },
  "keys: shown": { path: "/console/keys", ready: ".shown-key", open: makeKey },
  "keys: revoke": { path: "/console/keys", ready: MODAL, open: press(/^Revoke …/) },
  cluster: { path: "/console/cluster", ready: ".plot canvas" },
  nowhere: { path: "/console/nowhere", ready: "h1" },
  docs: { isForeign: true, path: "/docs", ready: ".opblock-summary-description" },
  "docs: operation": {
    isForeign: true,
    ...{ path: "/docs", ready: ".responses-wrapper pre" },
    // The library draws all operations, and then all schemas of one: seconds of computing on a slow machine.
    open: (page) => page.getByText(/^Start a run; with/).click({ timeout: 240_000 }),
  },
  ...LOCKED,
};

/** Addresses as they are when everything has the id 1. */
function addresses(): readonly string[] {
  const ids = new Proxy({}, { get: () => "1" });
  const shown = { service: ids, locked: ids, runs: ids, branch: "1", triggers: ids, job: "1" } as unknown as Shown;
  return Object.values(VIEWS).map(({ path }) => (typeof path === "string" ? path : path(shown)));
}

/** What the files of the console say of themselves: this test has no browser's types. */
function namesIn(file: string, each: RegExp): readonly string[] {
  const text = readFileSync(join(packageRoot(), "src", "console", file), "utf8");
  return [...text.matchAll(each)].map(([, name = ""]) => name);
}

describe("the views", () => {
  it("are those of every page, of every tab and of the dialog of every act on a run", () => {
    const pages = namesIn("app.tsx", /^ {2}\{ path: "(\/[^"]+)"/gm);
    const tabs = [
      ...namesIn("run/index.tsx", /^ {2}(\w+): \{ name: "/gm),
      ...namesIn("workflows/workflow.tsx", /^ {2}\{ id: "(\w+)", name: "/gm),
    ];
    expect([pages.length > 10, tabs.length > 10]).toEqual([true, true]);
    const all = addresses();
    const isSeen = (page: string) => {
      const form = new RegExp(`^/console${page.replace(/:id/, "[^/?]+")}(\\?|$)`);
      return all.some((address) => form.test(address));
    };
    const without = [
      ...pages.filter((page) => !isSeen(page)),
      ...tabs.filter((tab) => tab !== "graph" && !all.some((address) => address.includes(`tab=${tab}`))),
    ];
    expect(without).toEqual([]);
    const shown = new Set(Object.values(VIEWS).map(({ act }) => act));
    expect(ACTS.map(({ name }) => name).filter((name) => !shown.has(name))).toEqual([]);
  });
});

describeWithBrowser("every view", () => {
  let shown: Shown;

  beforeAll(async () => {
    shown = await openShown();
  }, 120_000);

  it.each(Object.entries(VIEWS))(
    "is whole at every size, in light and dark: %s",
    async (name, { path, ready, open, isForeign, isLocked }) => {
      const address = typeof path === "string" ? path : path(shown);
      const { page, faults } = isLocked
        ? await shown.locked.openPage(address, { viewport: DESK })
        : await openPage(shown.service.url, address, { viewport: DESK });
      await open?.(page, shown);
      await page.locator(ready).first().waitFor();
      // Behind a dialog, the page may still be on its way.
      const loading = page.getByText("Loading …", { exact: true }).filter({ visible: true });
      await until(async () => (await loading.count()) === 0);
      const found: string[] = [];
      for (const size of SIZES) {
        await page.setViewportSize(size);
        found.push(...(await settled(page)).map((fault) => `${size.width}: ${fault}`));
        for (const colorScheme of coloursAt(size)) {
          await page.emulateMedia({ colorScheme });
          await screenshot(page, `view-${name.replace(/\W+/g, "-")}-${size.width}-${colorScheme}`);
          if (!isForeign && isForAxe(size, colorScheme)) found.push(...(await seriousFindings(page)));
        }
      }
      expect([...found, ...faults]).toEqual([]);
    },
    300_000,
  );
});

/** A page is drawn anew a moment after it was resized. */
const PATIENCE_MS = 2_000;

/** What stays wrong with the layout. */
async function settled(page: Page): Promise<readonly string[]> {
  let found: readonly string[] = [];
  const isWhole = async () => {
    found = await layoutFaults(page);
    return found.length === 0;
  };
  await until(isWhole, { within: PATIENCE_MS }).catch(() => undefined);
  return found;
}
