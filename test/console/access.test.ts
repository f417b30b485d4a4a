// The console of a service with access control, in a real browser: the login, who is logged in, and a session that ends while pages are open.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { until } from "../harness/until.js";
import { endSessions, type Key, LockedService, logIn, TENANT } from "./access-stage.js";
import { seriousFindings } from "./axe.js";
import { startService } from "./runs-service.js";

const STEPS = [{ id: "hear", type: "wait_for_signal", signal_name: "go", timeout_ms: 86_400_000 }];
const WAITS = { id: "waits", name: "Waits", start: "hear", steps: STEPS, published: true };
const ENDED = "Your session has ended";

describeWithBrowser("the console with access control", () => {
  let locked: LockedService;
  let admin: Key;
  let run: string;

  beforeAll(async () => {
    locked = await LockedService.open();
    admin = await locked.newKey(["admin"]);
    await locked.call(admin, "POST", "/workflows", WAITS);
    ({ run_id: run } = await locked.call<{ run_id: string }>(admin, "POST", "/sagas/start", { workflow_id: "waits" }));
  });

  it("shows nothing before the login, and after it the page that was asked for", async () => {
    const { page, faults } = await locked.openPage(`/console/runs/${run}?tab=signals`);
    await page.getByRole("heading", { name: "Log in", level: 1 }).waitFor();
    expect(await page.getByRole("navigation").count()).toBe(0);
    const field = page.getByLabel("API key");
    expect(
      await field.evaluate((input: { type: string; autocomplete: string }) => [input.type, input.autocomplete]),
    ).toEqual(["password", "current-password"]);
    expect(await page.getByText("Single sign-on").count()).toBe(0);
    expect(await seriousFindings(page)).toEqual([]);
    await logIn(page, admin.key);
    await page.getByRole("button", { name: "Send a signal …" }).waitFor();
    expect(page.url()).toBe(`${locked.url}/console/runs/${run}?tab=signals`);
    expect(faults).toEqual([]);
  });

  it("says in one sentence that a key is wrong, and shows the service's for a key without a tenant", async () => {
    const { page } = await locked.openPage("/console/runs");
    await logIn(page, `${admin.key.slice(0, -2)}xx`);
    expect(await page.getByRole("alert").textContent()).toBe(
      "The service does not take this key: it is mistyped, expired or revoked.",
    );
    expect(await page.getByLabel("API key").inputValue()).toBe("");
    const { id, key } = await locked.newKey(["viewer"]);
    await locked.database.sql`update api_keys set tenant_id = null where id = ${id}`;
    await logIn(page, key);
    await page.getByText("the credential belongs to no tenant").waitFor();
    expect(await page.getByRole("heading", { name: "Log in", level: 1 }).count()).toBe(1);
  });

  it("keeps the key nowhere", async () => {
    const { page } = await locked.openAs(admin, "/console/runs");
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    const kept = await page.evaluate<string>(
      "JSON.stringify([location.href, { ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML, document.cookie])",
    );
    const [, , secret = ""] = admin.key.split("_");
    expect(kept).not.toContain(secret);
    const cookies = await page.context().cookies();
    expect(cookies.map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }))).toEqual([
      { name: "saga", httpOnly: true, sameSite: "Strict" },
    ]);
    expect(JSON.stringify(cookies)).not.toContain(secret);
    expect(locked.service.log.join("\n")).not.toContain(secret);
  });

  it("names in its head who is logged in, with roles, tenant and narrowing, and logs out", async () => {
    const narrowed = await locked.newKey(["viewer", "operator"], { workflows: ["billing.*", "waits"] });
    const { page, faults } = await locked.openAs(narrowed, "/console/runs");
    await page.getByRole("button", { name: narrowed.id }).click();
    const who = page.getByRole("region", { name: "Who you are" });
    const words = await who.textContent();
    for (const word of [narrowed.id, "session", "viewer, operator", TENANT, "billing.*, waits"])
      expect(words).toContain(word);
    expect(await seriousFindings(page)).toEqual([]);
    await who.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in", level: 1 }).waitFor();
    expect(await page.getByRole("navigation").count()).toBe(0);
    await page.reload();
    await page.getByRole("heading", { name: "Log in", level: 1 }).waitFor();
    expect(faults).toEqual([]);
  });

  it("says all tenants for the platform", async () => {
    const platform = await locked.newKey(["platform", "admin"]);
    const { page } = await locked.openAs(platform, "/console/cluster");
    await page.getByRole("button", { name: platform.id }).click();
    expect(await page.getByRole("region", { name: "Who you are" }).textContent()).toContain("all tenants");
  });

  it("lays the login over a page whose session has ended; what was typed stays, and a command is not sent by itself", async () => {
    const { page, faults } = await locked.openAs(admin, `/console/runs/${run}?tab=signals`);
    await page.getByRole("button", { name: "Send a signal …" }).click();
    const dialog = page.getByRole("dialog", { name: "Send a signal" });
    await dialog.getByLabel("Signal").fill("not-yet");
    await endSessions(locked);
    const over = page.getByRole("dialog", { name: ENDED });
    await over.waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await until(() => over.isVisible());
    await logIn(page, admin.key);
    await over.waitFor({ state: "detached" });
    expect(await dialog.getByLabel("Signal").inputValue()).toBe("not-yet");
    await dialog.getByRole("button", { name: "Send a signal" }).click();
    await page.getByRole("cell", { name: "not-yet" }).waitFor();
    expect(faults).toEqual([]);
  });

  it("opens no stream after one that ended with its key, until somebody logs in", async () => {
    const key = await locked.newKey(["operator"]);
    const { page } = await locked.openPage(`/console/runs/${run}`);
    const sockets: { isClosed: boolean }[] = [];
    page.on("websocket", (socket) => {
      const seen = { isClosed: false };
      sockets.push(seen);
      socket.on("close", () => {
        seen.isClosed = true;
      });
    });
    await logIn(page, key.key);
    await until(() => sockets.length === 1, { what: "the stream of the run" });
    await locked.call(admin, "DELETE", `/api_keys/${key.id}`).catch(() => undefined);
    await page.getByRole("dialog", { name: ENDED }).waitFor();
    await until(() => sockets.every(({ isClosed }) => isClosed));
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    // Longer than the pages wait before they ask again.
    const since = Date.now();
    await until(() => Date.now() - since > 6_000, { within: 10_000 });
    expect([sockets.length, asked]).toEqual([1, []]);
    await logIn(page, admin.key);
    await until(() => sockets.length === 2, { what: "the stream of another principal" });
  });

  it("reads everything again for another principal, and forgets what was open", async () => {
    const narrowed = await locked.newKey(["viewer"], { workflows: ["other"] });
    const { page } = await locked.openAs(admin, "/console/runs");
    await page
      .getByRole("link", { name: /Waits|waits/ })
      .first()
      .waitFor();
    await page.getByRole("button", { name: "Start a run …" }).click();
    await endSessions(locked);
    await page.getByRole("dialog", { name: ENDED }).waitFor();
    await logIn(page, narrowed.key);
    await page.getByText(/^There are no runs/).waitFor();
    expect(await page.getByRole("dialog").count()).toBe(0);
  });

  it("follows the session over the pages of a browser: a logout and a login in one of them count in all", async () => {
    const { page } = await locked.openAs(admin, "/console/workflows");
    const other = (await openPage(locked.url, "/console/rules")).page;
    await other.getByRole("button", { name: admin.id }).click();
    await other.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("dialog", { name: ENDED }).waitFor();
    await logIn(other, admin.key);
    await page.getByRole("dialog", { name: ENDED }).waitFor({ state: "detached" });
  });
});

describeWithBrowser("the console without access control", () => {
  it("has no login, and names nobody", async () => {
    const { service } = await startService();
    const { page, faults } = await openPage(service.url, "/console/runs");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.reload();
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    expect(await page.locator(".who").count()).toBe(0);
    expect(await page.getByText(/log (in|out)/i).count()).toBe(0);
    expect(asked.filter((url) => url.includes("/auth/"))).toEqual([]);
    expect(faults).toEqual([]);
  });
});
