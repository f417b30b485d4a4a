// The console tried as a new user would, in a real browser against a real service and a real worker: incidents below a run, times in one zone,
// a graph that can be read, words that a person uses, and what a phone shows. Each page alone is tested in the other files.
// @module-tag long
import type { Page } from "playwright-core";
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { seriousFindings } from "./axe.js";
import { layoutFaults } from "./layout-faults.js";
import { INPUTS, openStage, type Stage } from "./newcomer-stage.js";
import { call, start } from "./runs-service.js";

const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

interface Rect {
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
}

/** The rectangles of what is drawn of the first element, or of its text. */
const rectsOf = (page: Page, selector: string, what: "element" | "text" = "element") =>
  page.evaluate<Rect[]>(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const { top, bottom, left, right } = (${what === "text"} ? range : element).getBoundingClientRect();
    return { top, bottom, left, right };
  })`);

async function rectOf(page: Page, selector: string): Promise<Rect> {
  await page.locator(selector).first().waitFor();
  return (await rectsOf(page, selector))[0]!;
}

/** The size of a text as it is seen: its style says it before the graph is made smaller. */
const seenSize = (page: Page, selector: string) =>
  page.evaluate<number>(`(() => {
    const element = document.querySelector(${JSON.stringify(selector)});
    const zoom = element.getBoundingClientRect().width / element.offsetWidth;
    return parseFloat(getComputedStyle(element).fontSize) * zoom;
  })()`);

describeWithBrowser("the console, as a new user tries it", () => {
  let stage: Stage;

  beforeAll(async () => {
    stage = await openStage();
  }, 120_000);

  const opened = (path: string, viewport = DESK) => openPage(stage.service.url, `/console${path}`, { viewport });
  const ofRun = (name: keyof Stage["runs"], more = "") => `/runs/${stage.runs[name]}${more}`;

  it("shows the incidents of branches and items in the list, by the filter, and on the page of their root, with what helps", async () => {
    const { page, faults } = await opened("/runs");
    const root = page.locator("table.runs tr", { hasText: "order-7" });
    await root.getByText("3 incidents below").waitFor();
    const [state, more] = await root.locator(".states > *").all();
    const [left, right] = [await state?.boundingBox(), await more?.boundingBox()];
    expect(
      (left?.y ?? 0) + (left?.height ?? 0) + 2 < (right?.y ?? 0) ||
        (left?.x ?? 0) + (left?.width ?? 0) + 2 < (right?.x ?? 0),
    ).toBe(true);
    await root.getByText("card_declined").waitFor();
    await page.getByText("More filters").click();
    await page.getByRole("combobox", { name: /^At an incident/ }).selectOption("true");
    await page.getByText("5 runs", { exact: true }).waitFor();
    expect(await page.getByLabel("Branches, items and sub-sagas too").isChecked()).toBe(true);
    await page.getByLabel("Branches, items and sub-sagas too").uncheck();
    await page.getByText("There are no such runs").waitFor();
    await page.goto(`${stage.service.url}/console${ofRun("family")}`);
    const below = page.getByRole("region", { name: "Incidents of its branches, items and sub-sagas" });
    await below.getByRole("link", { name: "Deliver[ship]" }).waitFor();
    await page.locator(".run-title").getByText("3 incidents below").waitFor();
    await below.getByText("(1 attempt)").first().waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    const first = below.locator(".family-incident").first();
    const child = await first.getByRole("link").getAttribute("href");
    await first.getByRole("button", { name: "Skip step" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Skip the step" }).click();
    await page.locator(".run-title").getByText("2 incidents below").waitFor();
    const id = child?.split("/").at(-1);
    await until(
      async () => (await call<{ state: string }>(stage.service, "GET", `/sagas/${id}`)).state === "succeeded",
    );
    expect(faults).toEqual([]);
  }, 120_000);

  it("shows the incidents below a run in red in its graph, at each step that leads to them, with the way there", async () => {
    const { page } = await opened(ofRun("nested"));
    const red = (step: string, word: string) =>
      page.locator(`[data-step=${step}][data-tone=failed] .node-type`, { hasText: word }).waitFor();
    await red("fork", "2 incidents below · parallel");
    await red("each", "2 incidents below · foreach");
    await red("pack", "at an incident · action");
    await page.goto(`${stage.service.url}/console${ofRun("nested", "?step=fork")}`);
    const panel = page.getByRole("complementary", { name: "Step Deliver" });
    const way = panel.getByRole("region", { name: "Incidents below this step" }).getByRole("link").first();
    const href = await way.getAttribute("href");
    await way.click();
    await page.waitForURL(`**${href}`);
    await page.locator("[data-step=pack][data-tone=failed]").getByText("at an incident · action").waitFor();
  }, 60_000);

  it("says of a run the same in the list, at its head and in its graph, in the same colour", async () => {
    const { page } = await opened("/runs");
    const listed = page.locator("table.runs tr", { hasText: "order-7" }).locator(".state").first();
    const said = "waiting for child runs";
    await listed.getByText(said).waitFor();
    const colour = (selector: string, property: string) =>
      page.evaluate<string>(
        `getComputedStyle(document.querySelector(${JSON.stringify(selector)})).getPropertyValue("${property}")`,
      );
    const inList = await colour("table.runs .tone-waiting", "color");
    await page.goto(`${stage.service.url}/console${ofRun("family")}`);
    expect(await page.locator(".run-title .state").first().textContent()).toBe(said);
    await page.locator(".run-title .tone-running", { hasText: "1 child running" }).waitFor();
    await page.locator("[data-step=join][data-tone=waiting]").getByText("waiting · join").waitFor();
    await page.locator("[data-step=join]").getByText("for child runs").waitFor();
    expect(await colour(".run-title .tone-waiting", "color")).toBe(inList);
    expect(await colour("[data-step=join]", "border-left-color")).toBe(inList);
    await page.getByRole("button", { name: "Timeline", exact: true }).click();
    await page.getByRole("button", { name: /^join: waits for child runs, / }).waitFor();
    expect(await colour(".lane .span.children", "background-image")).toContain(inList);
  }, 60_000);

  it("has the times of a page in one zone, and names it", async () => {
    const { page } = await opened("/runs");
    const zone = await page.context().newCDPSession(page);
    await zone.send("Emulation.setTimezoneOverride", { timezoneId: "Asia/Tokyo" });
    await zone.send("Emulation.setLocaleOverride", { locale: "en-US" });
    const { items } = await call<{ items: readonly { recorded_at: string }[] }>(
      ...([stage.service, "GET", `/sagas/${stage.runs.travel}/events`] as const),
    );
    const at = new Date(items[0]?.recorded_at ?? "");
    const hour = new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Tokyo", hour: "2-digit", hourCycle: "h23" });
    const day = new Intl.DateTimeFormat("en-US", { timeZone: "Asia/Tokyo", month: "short", day: "numeric" });
    await page.goto(`${stage.service.url}/console${ofRun("travel", "?tab=events")}`);
    await page.getByText("times in Asia/Tokyo, GMT+09:00").waitFor();
    const row = page.locator(".event-row time").first();
    await row.waitFor();
    expect(await row.textContent()).toMatch(
      new RegExp(`^${day.format(at)}, ${hour.format(at)}:\\d\\d:\\d\\d\\.\\d{3}$`),
    );
    await page.locator(".moment-words time", { hasText: `${day.format(at)}, ` }).waitFor();
    for (const name of ["travel", "approve", "family"] as const) {
      await page.goto(`${stage.service.url}/console${ofRun(name)}`);
      await page.locator(".because").waitFor();
      expect(await page.locator("main").innerText()).not.toMatch(/UTC|\d\dZ/);
      expect(await page.locator("time[title]").first().getAttribute("title")).toContain("GMT+09:00");
    }
  }, 120_000);

  it("shows a graph of nineteen steps at a size that can be read, the step that failed first, and its details in sight", async () => {
    const { page } = await opened(ofRun("travel"));
    const failed = "[data-step=pay][data-tone=failed]";
    await page.locator(failed).waitFor();
    await until(async () => (await rectOf(page, failed)).bottom <= DESK.height);
    expect(await seenSize(page, `${failed} .node-type`)).toBeGreaterThanOrEqual(9.5);
    expect(await page.locator(`${failed} .node-name`).textContent()).toBe("Charge the card of Ann");
    expect(await page.locator("[data-step=s1] .node-name").textContent()).toBe("Reise nach Reykjavík für 3 Personen");
    await page.locator(failed).click();
    const panel = "aside.step";
    await page.locator(panel).waitFor();
    const { top, left, right } = await rectOf(page, panel);
    expect([top >= 0, top < DESK.height / 2 + 50, left >= 0, right <= DESK.width]).toEqual([true, true, true, true]);
    const inFrame = async () => {
      const [frame, node] = [await rectOf(page, ".graph-frame"), await rectOf(page, "[data-step=pay]")];
      return node.top >= frame.top && node.bottom <= frame.bottom && node.right <= frame.right;
    };
    await until(inFrame);
    await page.evaluate("scrollTo(0, document.body.scrollHeight)");
    await until(async () => (await rectOf(page, panel)).top < DESK.height / 2);
    await page.getByRole("button", { name: /fit view/i }).click();
    await until(async () => (await seenSize(page, `${failed} .node-type`)) < 9);
    await page.setViewportSize(PHONE);
    await until(async () => (await rectOf(page, panel)).bottom <= PHONE.height + 1);
  }, 120_000);

  it("opens an event where it is seen", async () => {
    const { page } = await opened(ofRun("travel", "?tab=events"));
    for (const viewport of [DESK, PHONE]) {
      await page.setViewportSize(viewport);
      await page.locator(".event-row").nth(3).click();
      const event = page.getByRole("region", { name: "Event 4", exact: true });
      await event.waitFor();
      await until(async () => (await rectOf(page, "section.event")).top < viewport.height * 0.75);
      await event.getByRole("button", { name: "Close the event" }).click();
    }
  }, 60_000);

  it("calls waiting what waits, running what works, and a deadline what it is", async () => {
    const { page } = await opened(ofRun("family"));
    await page.locator(".run-title .tone-waiting", { hasText: "waiting for child runs" }).waitFor();
    await page.locator(".run-title .tone-running", { hasText: "1 child running" }).waitFor();
    await page.goto(`${stage.service.url}/console${ofRun("approve")}`);
    await page.locator(".run-title .tone-waiting", { hasText: "waiting for a person" }).waitFor();
    const because = page.locator(".because");
    await because.getByText(/If it is not decided until .*, the approval fails\./).waitFor();
    expect(await because.textContent()).not.toContain("by itself");
    await page.goto(`${stage.service.url}/console/runs`);
    await page.getByRole("button", { name: /^waiting \d/ }).waitFor();
    expect(await page.getByRole("main").innerText()).not.toMatch(/paused/i);
    const working = page
      .getByRole("group", { name: "States" })
      .locator(".reasons")
      .getByRole("button", { name: "running 1" });
    await working.click();
    await page.locator("table.runs tbody tr", { hasText: "Deliver[bill]" }).waitFor();
    await page.goto(`${stage.service.url}/console/runs`);
    await page.getByRole("button", { name: "for a person 1" }).click();
    await page.getByText("1 run", { exact: true }).waitFor();
  }, 60_000);

  it("says in the list why a run failed, and begins it again with its first inputs", async () => {
    const { page } = await opened("/runs");
    const failed = page.locator("table.runs tr", { hasText: "trip-1" });
    // The names are read after the runs.
    const workflow = failed.getByRole("link", { name: "Reise mit Flug und Hotel" });
    expect(await workflow.getAttribute("title")).toBe("travel");
    expect(await failed.locator(".why").innerText()).toBe("card_declined at Charge the card of Ann");
    await failed.getByRole("link", { name: "trip-1" }).click();
    await page.getByRole("button", { name: "Run again" }).click();
    const dialog = page.getByRole("dialog", { name: "Run again" });
    expect(await dialog.getByLabel("City").inputValue()).toBe(INPUTS.city);
    expect(await dialog.getByLabel("Name").inputValue()).toBe(INPUTS.payer.name);
    await dialog.getByLabel("City").fill("Oslo");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.getByRole("button", { name: "Run again" }).click();
    await dialog.locator(".misfit", { hasText: "is required" }).waitFor();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.getByRole("button", { name: "Run again" }).click();
    const link = dialog.getByRole("status").getByRole("link");
    const again = await call<{ inputs: object }>(stage.service, "GET", `/sagas/${await link.textContent()}`);
    expect(again.inputs).toMatchObject({ ...INPUTS, city: "Oslo" });
  }, 60_000);

  it("tries a workflow with the form that starts it, lists the versions to migrate to, and links the runs that a sentence names", async () => {
    const { page } = await opened("/workflows/travel?tab=try");
    await page.getByLabel("City").fill("Oslo");
    await page.getByLabel("People").fill("2");
    await page.getByRole("button", { name: "Rehearse" }).click();
    await page.getByText("The rehearsal ends as").waitFor();
    await page.goto(`${stage.service.url}/console${ofRun("approve")}`);
    await page.getByRole("button", { name: "Migrate" }).click();
    const versions = page.getByRole("dialog").getByLabel("Version");
    await versions.locator("option").nth(1).waitFor({ state: "attached" });
    expect(await versions.locator("option").allTextContents()).toEqual(["choose one", "2: Approval with a deadline"]);
    await page.goto(`${stage.service.url}/console${ofRun("family")}`);
    const child = page.locator(".because").getByRole("link").first();
    const id = await child.textContent();
    await child.click();
    await page.waitForURL(`**/console/runs/${id}`);
  }, 60_000);

  it("calls the workflows and the runs of a bulk act in its preview as the list does, and tells the children of a run apart", async () => {
    const { page } = await opened("/runs?incident=true");
    await page.getByRole("button", { name: "Act on all that match …" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Preview" }).click();
    await dialog.getByRole("row", { name: "An incident below v1 at an incident" }).waitFor();
    await dialog.getByText("All of them", { exact: true }).click();
    await dialog.getByRole("listitem").filter({ hasText: "order-7 each[1]" }).waitFor();
    const said = await dialog.getByRole("listitem").allTextContents();
    expect(new Set(said).size).toBe(said.length);
  }, 60_000);

  it("keeps the words of a graph that is still loaded away from its frame", async () => {
    const { page } = await opened("/workflows");
    await page.route(/\/view-[^/]*\.js$/, () => undefined);
    await page.goto(`${stage.service.url}/console${ofRun("approve")}`);
    await page.locator(".graph").getByText("Loading …").waitFor();
    expect(await layoutFaults(page)).toEqual([]);
  }, 60_000);

  it("names the tabs of the browser by what they show", async () => {
    const { page } = await opened("/runs?state=failed");
    const titled = (title: string) => until(async () => (await page.title()) === title, { what: title });
    await titled("failed · Runs · Sagas");
    const pages = {
      "/workflows/travel?tab=start": "Reise mit Flug und Hotel · Start · Sagas",
      [ofRun("travel")]: "trip-1 · failed · Reise mit Flug und Hotel · Sagas",
      "/tasks": "Tasks · Sagas",
      "/rules": "Rules · Sagas",
      "/triggers": "Triggers · Sagas",
      "/bulk": "Bulk jobs · Sagas",
      "/workers": "Workers · Sagas",
      "/cluster": "Cluster · Sagas",
    };
    for (const [path, title] of Object.entries(pages)) {
      await page.goto(`${stage.service.url}/console${path}`);
      await titled(title);
    }
  }, 60_000);

  it("calls a step the same in graph, timeline, events and undo list, and an undone one undone", async () => {
    const { page } = await opened(ofRun("travel", "?tab=timeline"));
    const name = "Reise nach Reykjavík für 3 Personen";
    await page.locator(".lane-name", { hasText: name }).waitFor();
    await page.getByRole("button", { name: new RegExp(`^undo of ${name}, .*, undone$`) }).waitFor();
    await page.getByRole("button", { name: "Events", exact: true }).click();
    await page.getByLabel("Find in events").fill("undone");
    await page.getByRole("button", { name: `${name}: undone` }).waitFor();
    await page.getByRole("button", { name: "Undo", exact: true }).click();
    await page.getByRole("row", { name: new RegExp(`${name}.*undone`) }).waitFor();
  }, 60_000);

  it("keeps words whole on a phone: headings, times, tables, ticks", async () => {
    const { page } = await opened("/runs", PHONE);
    const heading = await rectOf(page, "h1");
    expect(heading.bottom - heading.top).toBeLessThan(50);
    await page.goto(`${stage.service.url}/console${ofRun("travel", "?tab=timeline")}`);
    await page.locator(".axis .mark").first().waitFor();
    const marks = await rectsOf(page, ".axis .mark", "text");
    expect(marks.filter(({ left }, nth) => nth > 0 && left < (marks[nth - 1]?.right ?? 0))).toEqual([]);
    expect(marks.every(({ right }) => right <= PHONE.width)).toBe(true);
    for (const path of ["/workflows", "/cluster", ofRun("travel", "?tab=undo")]) {
      await page.goto(`${stage.service.url}/console${path}`);
      await page.locator(".scroll [data-column]").first().waitFor();
      const over =
        "(() => { const { scrollWidth, clientWidth } = document.querySelector('.scroll'); return scrollWidth - clientWidth })()";
      expect(await page.evaluate<number>(over), path).toBeLessThanOrEqual(1);
    }
  }, 60_000);

  it("opens a task of a long list where it is seen", async () => {
    for (let nth = 0; nth < 40; nth++) await start(stage.service, "approve", { inputs: INPUTS });
    for (const viewport of [DESK, PHONE]) {
      const { page } = await opened("/tasks", viewport);
      await page.locator(".inbox li a").nth(30).click();
      await page.locator("section.task").waitFor();
      const isSeen = async () => {
        const { top } = await rectOf(page, "section.task");
        return top >= -1 && top < viewport.height * 0.75;
      };
      await until(isSeen, { what: `the task in sight at ${viewport.width}` });
    }
  }, 60_000);

  it("shows on a phone what happened in an event, however long the name of its step is", async () => {
    const { page } = await opened(ofRun("travel", "?tab=events"), PHONE);
    await page.getByRole("button", { name: /Reise nach Reykjavík für 3 Personen: +sent to a worker/ }).waitFor();
    const cut = await page.evaluate<string[]>(`[...document.querySelectorAll(".event-row")].flatMap((row) => {
      const said = row.querySelector(".event-said") ?? row.children[2];
      const [inside, frame] = [said.getBoundingClientRect(), row.getBoundingClientRect()];
      const isSeen = inside.width > 0 && inside.bottom <= frame.bottom && inside.right <= frame.right;
      return isSeen && said.scrollWidth <= said.clientWidth ? [] : [said.textContent];
    })`);
    expect(cut).toEqual([]);
  }, 60_000);

  it("has no literal backticks in the page of the API", async () => {
    const { page } = await openPage(stage.service.url, "/docs");
    await page.locator(".opblock-summary-description").first().waitFor();
    const said = await page.locator(".opblock-summary-description").allTextContents();
    expect(said.filter((text) => text.includes("`"))).toEqual([]);
  }, 60_000);
});
