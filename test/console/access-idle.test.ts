// A session that was idle for too long, played on two real services with one database: the store's time is moved for its rows. An active one goes on at
// both, and the page of the idle one says so when it asks again.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, screenshot } from "../harness/browser.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { type Key, LockedService, logIn } from "./access-stage.js";
import { seriousFindings } from "./axe.js";

describeWithBrowser("a session of the console that nobody uses", () => {
  let locked: LockedService;
  let other: ServiceProcess;

  beforeAll(async () => {
    locked = await LockedService.open();
    const env = { DATABASE_URL: locked.database.url, SAGA_WORKERS: "1", SAGA_AUTH: "api_key" };
    other = await (await createService(env)).start();
  });

  const seenAgo = async ({ id }: Key) => {
    const [row] = await locked.database.sql<{ minutes: number }[]>`
      select extract(epoch from now() - seen_at)::float8 / 60 as minutes from sessions where key_id = ${id}`;
    return row?.minutes;
  };
  const pass = ({ id }: Key, minutes: number) =>
    locked.database.sql`update sessions set seen_at = now() - make_interval(mins => ${minutes}) where key_id = ${id}`;

  it("ends after half an hour, an active one does not, and the page says so", async () => {
    const [idle, active] = [await locked.newKey(["admin"]), await locked.newKey(["admin"])];
    // A page that asks for nothing by itself.
    const { page } = await locked.openAs(idle, "/console/keys");
    await page.getByRole("heading", { name: "API keys" }).waitFor();
    await page.evaluate("window.isTheSame = true");
    const opened = await fetch(`${locked.url}/auth/session`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: locked.url },
      body: JSON.stringify({ api_key: active.key }),
    });
    const cookie = opened.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    const asActive = async (url: string) => (await fetch(`${url}/api/v1/workflows`, { headers: { cookie } })).status;

    await pass(active, 29);
    expect(await asActive(locked.url)).toBe(200);
    // The other service has not written anything of it in this minute.
    expect(await asActive(other.url)).toBe(200);
    await until(async () => ((await seenAgo(active)) ?? 99) < 2, { what: "the request of the active session" });
    // The request of the page may be noted late, but not once the session has ended.
    await pass(idle, 31);
    expect(await page.getByRole("dialog").count()).toBe(0);
    // What a node knows of a session counts for five seconds at most.
    const over = page.getByRole("dialog", { name: "Your session has ended" });
    await until(
      async () => {
        for (const name of ["Rules", "API keys"])
          if (!(await over.isVisible())) await page.getByRole("link", { name }).click({ timeout: 1_000 });
        return over.isVisible();
      },
      { pause: 500, what: "the end of the idle session" },
    );
    expect(await seriousFindings(page)).toEqual([]);
    await screenshot(page, "session-idle");
    for (const { url } of [locked, other]) expect(await asActive(url)).toBe(200);
    await logIn(page, idle.key);
    await over.waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Rules" }).click();
    await page.getByText(/^There are no rules\./).waitFor();
    expect(await page.evaluate("window.isTheSame")).toBe(true);
  });
});
