// The login at an issuer, from the console and back to it, in a real browser.
// @module-tag long
import { beforeAll, expect, it } from "vitest";
import { describeWithBrowser } from "../harness/browser.js";
import { atFileEnd } from "../harness/file-end.js";
import { CLIENT, OidcIssuer } from "../harness/oidc-issuer.js";
import { endSessions, LockedService, TENANT } from "./access-stage.js";
import { seriousFindings } from "./axe.js";

describeWithBrowser("a login at the issuer", () => {
  let issuer: OidcIssuer;
  let locked: LockedService;

  beforeAll(async () => {
    issuer = await OidcIssuer.open();
    atFileEnd(() => issuer.close());
    issuer.claims = { roles: ["viewer"], tenant_id: TENANT };
    locked = await LockedService.open({
      ...{ SAGA_OIDC_ISSUER: issuer.name, SAGA_OIDC_CLIENT_ID: CLIENT.id, SAGA_OIDC_CLIENT_SECRET: CLIENT.secret },
    });
  });

  it("is offered beside the key, and comes back to the page that was asked for", async () => {
    const path = "/console/runs?state=failed&label.region=eu";
    const { page, faults } = await locked.openPage(path, { allowed: [issuer.name] });
    await page.getByLabel("API key").waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByRole("link", { name: "Single sign-on" }).click();
    await page.getByRole("button", { name: "ann", exact: true }).waitFor();
    expect(page.url()).toBe(`${locked.url}${path}`);
    expect(await page.getByRole("button", { name: "Start a run …" }).count()).toBe(0);
    expect(faults).toEqual([]);
  });

  it("renews a session that has ended in a page of its own, and the page goes on as it was", async () => {
    const { page } = await locked.openPage("/console/runs", { allowed: [issuer.name] });
    await page.getByRole("link", { name: "Single sign-on" }).click();
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    await page.evaluate("window.isTheSame = true");
    await endSessions(locked);
    const over = page.getByRole("dialog", { name: "Your session has ended" });
    await over.waitFor();
    const opened = page.context().waitForEvent("page");
    await over.getByRole("link", { name: /^Single sign-on/ }).click();
    const other = await opened;
    await over.waitFor({ state: "detached" });
    await other.close();
    await page.getByRole("link", { name: "Rules" }).click();
    await page.getByText(/^There are no rules\./).waitFor();
    expect(await page.evaluate("window.isTheSame")).toBe(true);
  });
});
