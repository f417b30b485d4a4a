// What may be granted by whom: every rule on its own, on principals of each kind. Nothing is stored.
import { describe, expect, it } from "vitest";
import { expiryIn, grantedBy, isRole, type KeyGrant, PATTERN, type Role, secretsOf } from "../../src/access/index.js";
import { SagaError } from "../../src/errors.js";
import { type PrincipalFacts, principalOf } from "../harness/verifier.js";

const OWN = "0190a000-0000-7000-8000-0000000000aa";
const OTHER = "0190a000-0000-7000-8000-0000000000bb";
const NOW = 1_790_000_000_000;

const admin = { roles: ["admin"], tenantId: OWN } as const;
const narrowed = { ...admin, workflows: ["billing.*", "order"], secrets: ["bank", "mail.*"] };
const platform = { roles: ["platform", "admin"] } as const;
const someTenants = { ...platform, tenants: [OWN, OTHER] };

type Asked = Partial<Omit<KeyGrant, "roles">> & { readonly roles?: readonly Role[] };

/** What was granted, or the status of the refusal. */
function granted(facts: PrincipalFacts, { roles = ["viewer"], ...asked }: Asked, ends?: number): KeyGrant | number {
  try {
    return grantedBy(principalOf("ann", facts), { name: "k", roles, ...asked }, { now: NOW, ...(ends && { ends }) });
  } catch (error) {
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

describe("an admin", () => {
  it.each(["viewer", "operator", "author", "admin", "worker"] as const)("grants %s, in its own tenant", (role) => {
    expect(granted(admin, { roles: [role] })).toEqual({ name: "k", roles: [role], tenantId: OWN });
    expect(granted(admin, { roles: [role], tenantId: OWN })).toEqual({ name: "k", roles: [role], tenantId: OWN });
  });

  it.each<readonly [string, Asked]>([
    ["platform", { roles: ["platform"] }],
    ["platform, among others", { roles: ["viewer", "platform"] }],
    ["scrape", { roles: ["scrape"] }],
    ["another tenant", { tenantId: OTHER }],
    ["tenants", { roles: ["worker"], tenants: [OWN] }],
    ["no tenants", { tenants: [] }],
    ["the platform of its tenant", { roles: ["platform"], tenantId: OWN }],
  ])("does not grant %s", (_, asked) => {
    expect(granted(admin, asked)).toBe(403);
  });

  it("grants any narrowing, any service, and every secret", () => {
    const lists = { workflows: ["a"], services: ["*"], secrets: ["*"] };
    expect(granted(admin, lists)).toEqual({ name: "k", roles: ["viewer"], tenantId: OWN, ...lists });
  });

  it("of the workflows * is not narrowed", () => {
    const all = { ...admin, workflows: ["*"] };
    expect(granted(all, { roles: ["worker"] })).toEqual({ name: "k", roles: ["worker"], tenantId: OWN });
  });

  it("grants a role once", () => {
    expect(granted(admin, { roles: ["viewer", "viewer"] })).toMatchObject({ roles: ["viewer"] });
  });
});

describe("a narrowed admin", () => {
  it.each<readonly [string, Asked, readonly string[]]>([
    ["its narrowing, if it names none", {}, ["billing.*", "order"]],
    ["one of its workflows", { workflows: ["order"] }, ["order"]],
    ["a part of a prefix", { workflows: ["billing.eu.*", "billing.x"] }, ["billing.eu.*", "billing.x"]],
    ["nothing", { workflows: [] }, []],
  ])("grants %s", (_, asked, workflows) => {
    expect(granted(narrowed, asked)).toEqual({ name: "k", roles: ["viewer"], tenantId: OWN, workflows });
  });

  it.each<readonly [string, Asked]>([
    ["another workflow", { workflows: ["orders"] }],
    ["all workflows", { workflows: ["*"] }],
    ["a wider prefix", { workflows: ["billing*"] }],
    ["one of its own as a prefix", { workflows: ["order*"] }],
    ["one of two", { workflows: ["order", "shop"] }],
    ["a worker", { roles: ["worker"], services: ["shop"] }],
    ["a worker beside a viewer", { roles: ["viewer", "worker"] }],
    ["another secret", { secrets: ["cloud"] }],
    ["all secrets", { secrets: ["*"] }],
    ["a wider prefix of secrets", { secrets: ["mail*"] }],
  ])("does not grant %s", (_, asked) => {
    expect(granted(narrowed, asked)).toBe(403);
  });

  it("grants its own secrets", () => {
    expect(granted(narrowed, { secrets: ["bank", "mail.eu"] })).toMatchObject({ secrets: ["bank", "mail.eu"] });
  });

  it("that is narrowed to nothing grants nothing", () => {
    expect(granted({ ...admin, workflows: [] }, {})).toMatchObject({ workflows: [] });
    expect(granted({ ...admin, workflows: [] }, { workflows: ["a"] })).toBe(403);
  });
});

describe("the platform", () => {
  it("grants itself, to metrics, and into any tenant", () => {
    expect(granted(platform, { roles: ["platform", "admin"] })).toEqual({ name: "k", roles: ["platform", "admin"] });
    expect(granted(platform, { roles: ["scrape"] })).toEqual({ name: "k", roles: ["scrape"] });
    expect(granted(platform, { tenantId: OTHER })).toEqual({ name: "k", roles: ["viewer"], tenantId: OTHER });
    const workers = { roles: ["platform", "worker"] as const, tenants: [OWN], services: ["*"] };
    expect(granted(platform, workers)).toEqual({ name: "k", ...workers });
  });

  it("beside a tenant is of none", () => {
    expect(granted(platform, { roles: ["platform"], tenantId: OTHER })).toEqual({ name: "k", roles: ["platform"] });
  });

  it("makes no key that could do nothing", () => {
    expect(granted(platform, {})).toBe(400);
    expect(granted(platform, { roles: ["worker"] })).toBe(400);
    expect(granted(platform, { roles: ["worker"], tenants: [OWN] })).toBe(400);
  });

  it("of some tenants grants no others", () => {
    expect(granted(someTenants, { tenantId: OTHER })).toMatchObject({ tenantId: OTHER });
    expect(granted({ ...platform, tenants: [OWN] }, { tenantId: OTHER })).toBe(403);
    expect(granted({ ...platform, tenants: [OWN] }, { roles: ["platform"], tenants: [OWN, OTHER] })).toBe(403);
    expect(granted(someTenants, { roles: ["platform"], tenants: [OWN] })).toMatchObject({ tenants: [OWN] });
    expect(granted(someTenants, { roles: ["platform"] })).toMatchObject({ tenants: [OWN, OTHER] });
  });
});

describe("the end of a key", () => {
  const ends = NOW + 1_000;
  it("is that of the key that makes it, and not later", () => {
    expect(granted(admin, {}, ends)).toMatchObject({ expiresAt: ends });
    expect(granted(admin, { expiresAt: ends }, ends)).toMatchObject({ expiresAt: ends });
    expect(granted(admin, { expiresAt: ends - 1 }, ends)).toMatchObject({ expiresAt: ends - 1 });
    expect(granted(admin, { expiresAt: ends + 1 }, ends)).toBe(403);
  });

  it("is free where the maker's credential has none that counts", () => {
    expect(granted(admin, {})).not.toHaveProperty("expiresAt");
    expect(granted(admin, { expiresAt: ends })).toMatchObject({ expiresAt: ends });
  });

  it("is at most that of the year 9999, whatever its offset adds", () => {
    expect(expiryIn("9999-12-31T18:59:59.5-05:00")).toBe(Date.parse("9999-12-31T23:59:59.500Z"));
    expect(expiryIn("9999-12-31T23:59:59-05:00")).toBe(Date.parse("9999-12-31T23:59:59Z"));
    expect(expiryIn("2027-01-01T01:00:00+01:00")).toBe(Date.parse("2027-01-01T00:00:00Z"));
    expect(expiryIn("tomorrow")).toBeUndefined();
  });

  it("is not in the past", () => {
    expect([granted(admin, { expiresAt: NOW }), granted(admin, { expiresAt: NOW + 1 })]).toEqual([
      400,
      expect.anything(),
    ]);
  });
});

describe("a pattern", () => {
  it.each(["a", "billing.*", "*", "a/b", "x".repeat(128), `${"x".repeat(127)}*`])("may be %j", (text) => {
    expect(new RegExp(PATTERN).test(text)).toBe(true);
  });
  it.each(["", "a*b", "**", "*a", "x".repeat(129), "a\n", "a\u0000"])("is not %j", (text) => {
    expect(new RegExp(PATTERN).test(text)).toBe(false);
  });
});

describe("the secrets of", () => {
  it.each<readonly [string, PrincipalFacts, boolean]>([
    ["an admin are all", admin, true],
    ["a narrowed admin are its own", narrowed, false],
    ["an admin of the workflows * are all", { ...admin, workflows: ["*"] }, true],
    ["an author are its own", { roles: ["author"], tenantId: OWN }, false],
  ])("%s", (_, facts, all) => {
    expect(secretsOf(principalOf("ann", facts)).matchesAll).toBe(all);
    expect(facts.roles.every(isRole)).toBe(true);
  });
});
