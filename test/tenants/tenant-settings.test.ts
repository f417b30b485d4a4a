// The files with settings of tenants: who gets what, and what stops the start.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readTenantSettings } from "../../src/tenants/tenant-settings.js";

const TENANT = "0190a000-0000-7000-8000-0000000000aa";
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "saga-tenants-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const file = (text: string | Buffer) => {
  const path = join(folder, "settings.json");
  writeFileSync(path, text);
  return path;
};
const variablesOf = (text: string | Buffer) => readTenantSettings({ startupVariablesFile: file(text) });

describe("settings of tenants", () => {
  it("startup variables of a tenant override those of everyone", () => {
    const settings = variablesOf(JSON.stringify({ "*": { a: 1, b: 1 }, [TENANT]: { b: 2 } }));
    expect(settings.startupVariables(TENANT)).toEqual({ a: 1, b: 2 });
    expect(settings.startupVariables(undefined)).toEqual({ a: 1, b: 1 });
    expect(settings.startupVariables("constructor")).toEqual({ a: 1, b: 1 });
    expect(readTenantSettings({}).startupVariables(TENANT)).toEqual({});
  });

  it("licence groups are those of the tenant and of everyone; without a file everything is allowed", () => {
    const settings = readTenantSettings({ licensesFile: file(JSON.stringify({ "*": ["base"], [TENANT]: ["gold"] })) });
    const allowed = (tenant?: string) => ["base", "gold", "other"].map((group) => settings.licensed(tenant, group));
    expect([allowed(TENANT), allowed()]).toEqual([
      [true, true, false],
      [true, false, false],
    ]);
    expect(readTenantSettings({}).licensed(undefined, "other")).toBe(true);
  });

  it("the share of a tenant is its own, else that of everyone, else one", () => {
    const shares = (all: object) => readTenantSettings({ tenantSharesFile: file(JSON.stringify(all)) });
    const { dispatchShare } = shares({ "*": 2, [TENANT]: 1_000 });
    expect([TENANT, "0190a000-0000-7000-8000-0000000000bb", "constructor", undefined].map(dispatchShare)).toEqual([
      ...[1_000, 2, 2, 2],
    ]);
    expect([shares({ [TENANT]: 4 }).dispatchShare("other"), readTenantSettings({}).dispatchShare(TENANT)]).toEqual([
      1, 1,
    ]);
    for (const wrong of [0, 1_001, 1.5, "4", null, [4]])
      expect(() => shares({ [TENANT]: wrong }), JSON.stringify(wrong)).toThrow(
        `settings.json: ${TENANT}: must be an integer from 1 to 1000`,
      );
  });

  it.each([
    ["no JSON", "{"],
    ["a list", "[]"],
    ["variables that are a list", '{"*": [1]}'],
    ["a variable that would reach a prototype", '{"*": {"__proto__": 1}}'],
    ["a value that cannot be stored", '{"*": {"a": "\\u0000"}}'],
  ])("%s stops the start, and the error names the file", (_, text) => {
    expect(() => variablesOf(text)).toThrow(/settings\.json/);
  });

  it("a file that is not JSON says where, and one that is not UTF-8 says so", () => {
    expect(() => variablesOf('{\n  "*": {},\n}')).toThrow("settings.json: is not JSON: see line 3, column 1");
    const latin1 = Buffer.from('{"*": {"greeting": "Gr\xfc\xdfe"}}', "latin1");
    expect(() => variablesOf(latin1)).toThrow("settings.json: is not UTF-8");
    expect(() => readTenantSettings({ licensesFile: join(folder, "absent") })).toThrow(
      "absent: cannot be read (ENOENT)",
    );
  });
});
