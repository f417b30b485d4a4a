// The list over a million runs in a real browser: what a person does is followed by a frame that shows it, and then by the rows. The times
// are printed; a test asserts none of them.
// @module-tag alone
import type { Page } from "playwright-core";
import postgres from "postgres";
import { beforeAll, expect, it } from "vitest";
import { fill } from "../../bench/scenarios/reads.js";
import { describeWithBrowser, openPage, screenshot } from "../harness/browser.js";
import { createTestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";

const RUNS = 1_000_000;
const ROUNDS = 10;

/** In ms after the input: the first frame in which the page is another, and the frame that has the rows. */
interface Seen {
  readonly frame: number;
  readonly rows: number;
}

/** A frame is painted when the task after its callback begins. The rows are there when the list of the new address is. */
const WATCH = `window.seen = new Promise((resolve) => {
  const { search } = location;
  const areThere = () => location.search !== search && document.querySelector(".run-list").ariaBusy === "false";
  const begin = ({ timeStamp: from }) => {
    for (const type of ["keydown", "click"]) removeEventListener(type, begin, true);
    const painted = (then) => requestAnimationFrame(() => setTimeout(() => then(performance.now() - from)));
    let frame;
    const changes = new MutationObserver(() => {
      changes.disconnect();
      painted((ms) => { frame = ms; });
    });
    changes.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    const look = () =>
      frame !== undefined && areThere() ? painted((rows) => resolve({ frame, rows })) : requestAnimationFrame(look);
    look();
  };
  for (const type of ["keydown", "click"]) addEventListener(type, begin, true);
}); 0`;

/** Each click is another list. */
const STATES = ["failed", "paused", "succeeded", "running", "pending", "cancelled", "compensating"];

describeWithBrowser("the list over a million runs", () => {
  let service: ServiceProcess;
  let page: Page;

  beforeAll(async () => {
    const database = await createTestDatabase({ fresh: true });
    atFileEnd(() => database.drop());
    // The service's own sessions give a statement 30 s.
    const sql = postgres(database.url, { max: 1 });
    await fill(sql, RUNS);
    await sql.end();
    service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" })).start();
  }, 1_200_000);

  async function measured(what: string, act: (round: number) => Promise<void>) {
    const seen: Seen[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      await page.evaluate(WATCH);
      await act(round);
      seen.push(await page.evaluate<Seen>("window.seen"));
    }
    const of = (key: keyof Seen) => seen.map((each) => each[key]).sort((a, b) => a - b);
    const said = (ms: readonly number[]) =>
      `median ${ms[ROUNDS / 2]?.toFixed(0)} ms, longest ${ms.at(-1)?.toFixed(0)} ms`;
    console.log(`${what}: a frame that shows it ${said(of("frame"))}; the rows ${said(of("rows"))}`);
    expect(seen).toHaveLength(ROUNDS);
  }

  it("follows who types a filter, turns pages, and goes from state to state", async () => {
    ({ page } = await openPage(service.url, "/console/runs"));
    await page.getByText("10,000 or more runs").waitFor();
    await page.getByRole("button", { name: "all 1,000,000" }).waitFor();
    const id = (await page.locator("table.runs tbody th a").first().textContent()) ?? "";
    await page.getByLabel("Id or business key begins with").focus();
    await measured("typing a filter", (round) => page.keyboard.type(id[round] ?? ""));

    await page.goto(`${service.url}/console/runs`);
    await measured("the next page", () => page.getByRole("link", { name: "Next page" }).first().click());

    await page.goto(`${service.url}/console/runs`);
    await page.getByRole("button", { name: "failed 1,000" }).waitFor();
    const state = (round: number) =>
      page.getByRole("button", { name: new RegExp(`^${STATES[round % STATES.length]} `) });
    await measured("another state", (round) => state(round).click());
    await screenshot(page, "runs-million");
  });
});
