// The page of API keys in a real browser, against a service with access control: who is offered what, a key that is shown once and is nowhere
// afterwards, what a refusal looks like, and the end of a key. What the service grants is tested at its API.
// @module-tag both
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, it } from "vitest";
import { bodyOf, EMPTY, memberOf, offerOf, problemOf } from "../../src/console/keys/grant.js";
import { showOnce } from "../../src/console/keys/shown-once.js";
import { describeWithBrowser, screenshot } from "../harness/browser.js";
import { sealingSettings } from "../harness/service.js";
import { until } from "../harness/until.js";
import { type Key, LockedService, TENANT } from "./access-stage.js";
import { seriousFindings } from "./axe.js";
import { layoutFaults } from "./layout-faults.js";

const NOW = Date.parse("2026-11-24T00:00:00Z");
const NEVER = { ...EMPTY, name: " shop ", expiry: "" };
const person = (roles: readonly string[], more: object = {}) => ({
  kind: "session",
  sub: "a",
  roles: [...roles],
  ...more,
});
const rolesOffered = (...of: Parameters<typeof offerOf>) => offerOf(...of).roles.map(({ name }) => name);

describe("the form of a key", () => {
  it("tells an absent list from an empty one and from all", () => {
    const lists = {
      workflows: { extent: "absent", text: "forgotten" },
      services: { extent: "these", text: " \n" },
      secrets: { extent: "all", text: "" },
    } as const;
    expect(bodyOf({ ...NEVER, ...lists }, NOW)).toEqual({ name: "shop", roles: [], services: [], secrets: ["*"] });
    expect(bodyOf({ ...NEVER, workflows: { extent: "these", text: " a.*\n\nб 🛒 " } }, NOW)).toMatchObject({
      workflows: ["a.*", "б 🛒"],
    });
  });

  it("names a tenant, or for the platform the tenants that it serves", () => {
    const fields = { ...NEVER, tenant_id: " t ", tenants: "u\nv" };
    expect(bodyOf({ ...fields, roles: ["viewer"] }, NOW)).toEqual({ name: "shop", roles: ["viewer"], tenant_id: "t" });
    expect(bodyOf({ ...fields, roles: ["platform"] }, NOW)).toMatchObject({ tenants: ["u", "v"] });
    expect(bodyOf({ ...fields, roles: ["platform"] }, NOW)).not.toHaveProperty("tenant_id");
  });

  it("expires after days, at a moment, or not", () => {
    expect(bodyOf({ ...NEVER, expiry: "30" }, NOW).expires_at).toBe("2026-12-24T00:00:00.000Z");
    const at = { ...NEVER, expiry: "at", expires_at: "2027-01-02T03:04" };
    expect(bodyOf(at, NOW).expires_at).toBe(new Date("2027-01-02T03:04").toISOString());
    expect(bodyOf({ ...at, expires_at: "soon" }, NOW).expires_at).toBe("soon");
    expect(bodyOf(NEVER, NOW)).not.toHaveProperty("expires_at");
  });

  it("offers what its maker may grant", () => {
    const ladder = ["viewer", "operator", "author", "admin"];
    expect(rolesOffered(person(["admin"]))).toEqual([...ladder, "worker"]);
    expect(rolesOffered(person(["admin"], { workflows: ["a.*"] }))).toEqual(ladder);
    for (const maker of [undefined, person(["platform", "admin"])])
      expect(rolesOffered(maker)).toEqual([...ladder, "worker", "scrape", "platform"]);
    expect(offerOf(person(["admin"]))).toMatchObject({ tenant: false });
    expect(offerOf(person(["admin"]))).not.toHaveProperty("secrets");
    expect(offerOf(person(["admin"], { workflows: ["a.*"] })).secrets).toEqual([]);
    expect(offerOf(person(["admin"], { workflows: ["*"] }))).not.toHaveProperty("workflows");
  });

  it("finds what the service says about a member", () => {
    const details = [
      { path: "$.workflows[0]", message: "must match" },
      { path: "$", message: "is too much" },
    ];
    expect(problemOf(details, "workflows")).toBe("must match");
    expect(problemOf(details, "name")).toBeUndefined();
    expect(memberOf("$")).toBe("");
  });
});

describe("a key that is shown once", () => {
  it("is in neither the box nor the field once its dialog has closed", () => {
    const [box, field] = [{ key: "saga_a_b" }, { value: "", select() {} }];
    const close = showOnce(box, field);
    expect([box.key, field.value]).toEqual(["saga_a_b", "saga_a_b"]);
    close();
    expect([box.key, field.value]).toEqual(["", ""]);
  });
});

const SIZES = [
  { width: 390, height: 844 },
  { width: 1440, height: 900 },
  { width: 2560, height: 1440 },
];
const KEY = /^saga_[0-9A-Za-z]+_[0-9A-Za-z]{43}$/;

interface Listed {
  readonly items: readonly { readonly id: string; readonly name: string; readonly revoked_at?: string }[];
}

describeWithBrowser("the page of API keys", { tags: "long" }, () => {
  let locked: LockedService;
  let admin: Key;

  beforeAll(async () => {
    locked = await LockedService.open();
    admin = await locked.newKey(["admin"]);
  });

  /** The dialog with a key that was made, and the key. */
  async function make(page: Page, name: string): Promise<string> {
    await page.getByRole("button", { name: "New key" }).click();
    await page.getByLabel(/^Name/).fill(name);
    await page.getByRole("checkbox", { name: /^viewer/ }).check();
    await page.getByRole("button", { name: "Make the key" }).click();
    const field = page.getByRole("dialog", { name: "The new key" }).getByRole("textbox");
    await field.waitFor();
    return field.inputValue();
  }

  /** It is whole at every size, and axe finds nothing serious. */
  async function look(page: Page, name: string): Promise<void> {
    for (const size of SIZES) {
      await page.setViewportSize(size);
      await until(async () => (await layoutFaults(page)).length === 0, { within: 2_000 }).catch(() => undefined);
      expect(await layoutFaults(page)).toEqual([]);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        await screenshot(page, `keys-${name}-${size.width}-${colorScheme}`);
      }
    }
    expect(await seriousFindings(page)).toEqual([]);
  }

  it("shows a new key once; then neither the page nor its storage, address or caches have it", async () => {
    const { page, faults } = await locked.openAs(admin, "/console/keys");
    const said: string[] = [];
    page.on("console", (message) => said.push(message.text()));
    const name = 'Nightly <b>&amp;</b> 🛒 "report" / привет';
    const key = await make(page, name);
    expect(key).toMatch(KEY);
    await page.getByText("it will not be shown again").waitFor();
    const { status } = await fetch(`${locked.url}/api/v1/workflows`, { headers: { authorization: `Bearer ${key}` } });
    expect(status).toBe(200);
    await look(page, "shown");
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText(name, { exact: true }).first().waitFor();
    const secret = key.split("_")[2] ?? "";
    expect(await page.content()).not.toContain(secret);
    const kept =
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, history.state, document.cookie])";
    expect(await page.evaluate<string>(kept)).not.toContain(secret);
    // What is garbage is collected first.
    expect((await stringsOf(page)).filter((text) => text.includes(secret))).toEqual([]);
    expect(said.join("\n")).not.toContain(secret);
    expect(faults).toEqual([]);
  });

  it.each([
    ["with the browser's leave", ""],
    ["without it", "navigator.clipboard.writeText = () => Promise.reject(new Error('denied'))"],
    ["at an address without https", "Object.defineProperty(navigator, 'clipboard', { value: undefined })"],
  ])("copies the key %s", async (_, before) => {
    const { page } = await locked.openAs(admin, "/console/keys");
    if (before === "") await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.evaluate(before);
    await page.evaluate("addEventListener('copy', () => { window.copied = getSelection().toString() })");
    const key = await make(page, "copied");
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied.").waitFor();
    const read = before === "" ? "navigator.clipboard.readText()" : "document.activeElement.value";
    expect(await page.evaluate<string>(read)).toBe(key);
    await page.context().clearPermissions();
  });

  it("is used by keyboard alone: a key is made, copied, and revoked", async () => {
    const { page } = await locked.openAs(admin, "/console/keys");
    const press = async (...keys: readonly string[]) => {
      for (const each of keys) await page.keyboard.press(each);
    };
    await page.getByRole("button", { name: "New key" }).focus();
    await press("Enter");
    await page.getByLabel(/^Name/).focus();
    await page.keyboard.type("by keyboard");
    await press("Tab", "Space", "Enter");
    await page.getByText("it will not be shown again").waitFor();
    await press("Tab", "Enter");
    await page.getByText(/^Copied\.|is selected/).waitFor();
    await press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Revoke … by keyboard" }).focus();
    await press("Enter");
    await page.getByRole("dialog", { name: "Revoke the key?" }).waitFor();
    await page.getByRole("button", { name: "Revoke", exact: true }).focus();
    await press("Enter");
    await page
      .getByRole("row", { name: /by keyboard/ })
      .getByText("revoked")
      .waitFor();
    const { items } = await locked.call<Listed>(admin, "GET", "/api_keys?limit=500");
    expect(items.find(({ name }) => name === "by keyboard")?.revoked_at).toBeDefined();
  });

  it("says before a revocation what ends with the key", async () => {
    const { name } = await locked.call<{ name: string }>(admin, "POST", "/api_keys", {
      ...{ name: "W".repeat(200), roles: ["worker"], services: ["shop", "bank.*"], secrets: [] },
    });
    const { page } = await locked.openAs(admin, "/console/keys");
    await page.getByRole("button", { name: `Revoke … ${name}` }).waitFor();
    await look(page, "list");
    await page.getByRole("button", { name: `Revoke … ${name}` }).click();
    const dialog = page.getByRole("dialog", { name: "Revoke the key?" });
    for (const words of ["sessions", "bulk jobs", "streams", "cannot be undone", "never been used"])
      expect(await dialog.textContent()).toContain(words);
    await look(page, "revoke");
  });

  it("shows what the service refuses at its field, and keeps the form", async () => {
    const { page } = await locked.openAs(admin, "/console/keys");
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel(/^Name/).fill("refused");
    await dialog.getByRole("checkbox", { name: /^worker/ }).check();
    await dialog.getByLabel(/^Workflows/).selectOption("these");
    await dialog.getByLabel("Only these workflows").fill("a*b");
    await dialog.getByRole("button", { name: "Make the key" }).click();
    await dialog.getByText("No key was made").waitFor();
    const field = dialog.getByLabel("Only these workflows");
    expect(await field.getAttribute("aria-invalid")).toBe("true");
    expect(await dialog.getByLabel(/^Name/).inputValue()).toBe("refused");
    await look(page, "refused");
    await field.fill("a.*");
    await dialog.getByRole("button", { name: "Make the key" }).click();
    await page.getByText("it will not be shown again").waitFor();
  });

  it("offers a narrowed admin no more than they may grant, and the platform a tenant", async () => {
    const narrowed = await locked.newKey(["admin"], { workflows: ["billing.*"] });
    const { page } = await locked.openAs(narrowed, "/console/keys");
    await page.getByRole("columnheader", { name: "Key" }).waitFor();
    expect(await page.getByRole("columnheader", { name: "Tenant" }).count()).toBe(0);
    await page.getByRole("button", { name: "New key" }).click();
    expect(await page.getByRole("checkbox").count()).toBe(4);
    expect(await page.getByLabel(/^Workflows/).textContent()).toContain("all of yours: billing.*");
    expect(await page.getByLabel(/^Secrets/).textContent()).toBe("none");

    const platform = await locked.newKey(["platform", "admin"]);
    const { page: wide } = await locked.openAs(platform, "/console/keys");
    await wide.getByRole("columnheader", { name: "Tenant" }).waitFor();
    await wide.getByRole("button", { name: "New key" }).click();
    await wide.getByLabel(/^Tenant: /).fill(TENANT);
    await wide.getByRole("checkbox", { name: /^platform/ }).check();
    await wide.getByLabel(/^Tenants that it serves/).waitFor();
    await look(wide, "create");
  });

  it("says for the platform when a tenant has none", async () => {
    const platform = await locked.newKey(["platform", "admin"]);
    const { page } = await locked.openAs(platform, "/console/keys?tenant_id=0190a000-0000-7000-8000-0000000000f9");
    await page.getByText("No key matches.").waitFor();
    await look(page, "empty");
  });

  it("destroys the data keys of a tenant, after a word", async () => {
    const sealed = await LockedService.open(sealingSettings());
    const [author, platform] = [
      await sealed.newKey(["author", "operator"]),
      await sealed.newKey(["platform", "admin"]),
    ];
    const steps = [{ id: "wait", type: "wait_for_signal", signal_name: "go" }];
    await sealed.call(author, "POST", "/workflows", { id: "w", name: "W", start: "wait", steps, published: true });
    const { run_id } = await sealed.call<{ run_id: string }>(author, "POST", "/sagas/start", { workflow_id: "w" });

    const { page, faults } = await sealed.openAs(platform, `/console/keys?tenant_id=${TENANT}`);
    await page.getByRole("button", { name: "Data keys of the tenant …" }).click();
    const dialog = page.getByRole("dialog", { name: "Data keys of the tenant" });
    await dialog.getByText("1 key in use, 0 destroyed.").waitFor();
    await look(page, "data-keys");
    const button = dialog.getByRole("button", { name: "Destroy them for good" });
    expect(await button.isDisabled()).toBe(true);
    await dialog.getByLabel(/^Type “erase”/).fill("erase");
    await button.click();
    await dialog.getByText(/, 1 destroyed, the last/).waitFor();
    await until(async () => {
      const run = await sealed.call<{ error?: { code: string } }>(author, "GET", `/sagas/${run_id}`);
      return run.error?.code === "key_destroyed";
    });
    expect(faults).toEqual([]);

    // Without encryption.
    const { page: other } = await locked.openAs(
      await locked.newKey(["platform", "admin"]),
      `/console/keys?tenant_id=${TENANT}`,
    );
    await other.getByRole("button", { name: "Data keys of the tenant …" }).click();
    await other.getByText(/encryption at rest is off/).waitFor();
  });

  it("is for nobody but admins", async () => {
    const { page } = await locked.openAs(await locked.newKey(["author"]), "/console/keys");
    await page.getByText("The role admin may use it.").waitFor();
    expect(await page.getByRole("link", { name: "API keys" }).count()).toBe(0);
  });
});

/** The strings that live in the heap of the page. */
async function stringsOf(page: Page): Promise<readonly string[]> {
  const session = await page.context().newCDPSession(page);
  const chunks: string[] = [];
  session.on("HeapProfiler.addHeapSnapshotChunk", ({ chunk }) => chunks.push(chunk));
  await session.send("HeapProfiler.collectGarbage");
  await session.send("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  await session.detach();
  return (JSON.parse(chunks.join("")) as { readonly strings: readonly string[] }).strings;
}
