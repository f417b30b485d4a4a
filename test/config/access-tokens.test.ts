// The settings of tokens: what is mandatory, what an address may be, and what stops the start.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readClaims, readTokens } from "../../src/config/access-tokens.js";
import { Environment } from "../../src/config/environment.js";

const folder = mkdtempSync(join(tmpdir(), "saga-tokens-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = (name: string, text: string) => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

const BASE = { SAGA_AUTH_JWT_ISSUER: "https://issuer.example", SAGA_AUTH_JWT_AUDIENCE: "saga" };
const AT = { SAGA_AUTH_JWKS_URL: "https://issuer.example/keys" };

function read(env: Readonly<Record<string, string>>, on = true) {
  const environment = new Environment(env);
  const settings = readTokens(environment, { on, claims: readClaims(environment) });
  return { settings, problems: environment.problems, unknown: environment.unknownNames("SAGA_") };
}

describe("the settings of tokens", () => {
  it("have defaults for what may be left out", () => {
    expect(read({ ...BASE, ...AT })).toEqual({
      settings: {
        ...{ issuer: "https://issuer.example", audience: "saga", refreshMs: 600_000 },
        keysAt: { url: "https://issuer.example/keys" },
        claims: {
          ...{ roles: "roles", tenantId: "tenant_id", tenants: "tenants" },
          ...{ workflows: "workflows", services: "services", secrets: "secrets" },
        },
      },
      problems: [],
      unknown: [],
    });
  });

  it("take paths of claims and the time between two reads", () => {
    const more = { SAGA_AUTH_CLAIM_ROLES: "realm_access.roles", SAGA_AUTH_JWKS_REFRESH_MS: "60000" };
    expect(read({ ...BASE, ...AT, ...more }).settings).toMatchObject({
      ...{ refreshMs: 60_000, claims: { roles: "realm_access.roles", secrets: "secrets" } },
    });
  });

  it.each<readonly [string, Readonly<Record<string, string>>, readonly string[]]>([
    [
      "nothing",
      {},
      [
        "SAGA_AUTH_JWKS_URL is missing, and so is SAGA_AUTH_JWKS_FILE: SAGA_AUTH has jwt",
        "SAGA_AUTH_JWT_ISSUER is missing: SAGA_AUTH has jwt",
        "SAGA_AUTH_JWT_AUDIENCE is missing: SAGA_AUTH has jwt",
      ],
    ],
    ["no audience", { ...AT, SAGA_AUTH_JWT_ISSUER: "a" }, ["SAGA_AUTH_JWT_AUDIENCE is missing: SAGA_AUTH has jwt"]],
    [
      "plain HTTP",
      { ...BASE, SAGA_AUTH_JWKS_URL: "http://issuer.example/keys" },
      ["SAGA_AUTH_JWKS_URL must begin with https://: only on loopback may it be http://"],
    ],
    [
      "plain HTTP to a host that is named like loopback",
      { ...BASE, SAGA_AUTH_JWKS_URL: "http://localhost.evil.example/keys" },
      ["SAGA_AUTH_JWKS_URL must begin with https://: only on loopback may it be http://"],
    ],
    [
      "another scheme",
      { ...BASE, SAGA_AUTH_JWKS_URL: "file:///etc/keys" },
      ["SAGA_AUTH_JWKS_URL must be a URL that begins with https:// or http://"],
    ],
    [
      "credentials",
      { ...BASE, SAGA_AUTH_JWKS_URL: "https://ann:s3cr3t@issuer.example/keys" },
      ["SAGA_AUTH_JWKS_URL must not contain credentials"],
    ],
    [
      "a URL and a file",
      { ...BASE, ...AT, SAGA_AUTH_JWKS_FILE: file("both.json", "{}") },
      ["SAGA_AUTH_JWKS_FILE and SAGA_AUTH_JWKS_URL are both set: keep one of them"],
    ],
    [
      "a file that is not there",
      { ...BASE, SAGA_AUTH_JWKS_FILE: join(folder, "none") },
      ["SAGA_AUTH_JWKS_FILE names a file that cannot be read (ENOENT)"],
    ],
    [
      "a folder",
      { ...BASE, SAGA_AUTH_JWKS_FILE: folder },
      ["SAGA_AUTH_JWKS_FILE names a file that cannot be read (EISDIR)"],
    ],
    [
      "an empty file",
      { ...BASE, SAGA_AUTH_JWKS_FILE: file("empty.json", "\n") },
      ["SAGA_AUTH_JWKS_FILE names an empty file"],
    ],
    [
      "a time that is too short",
      { ...BASE, ...AT, SAGA_AUTH_JWKS_REFRESH_MS: "999" },
      ["SAGA_AUTH_JWKS_REFRESH_MS must be a whole number from 1000 to 43200000"],
    ],
    [
      "a path that is too long",
      { ...BASE, ...AT, SAGA_AUTH_CLAIM_ROLES: "x".repeat(201) },
      ["SAGA_AUTH_CLAIM_ROLES must be at most 200 characters"],
    ],
  ])("with %s stop the start", (_, env, problems) => {
    expect(read(env).problems).toEqual(problems);
  });

  it.each(["http://127.0.0.1:8000/keys", "http://[::1]:8000/keys", "http://localhost/keys", "https://10.0.0.1/keys"])(
    "may have the keys at %s",
    (url) => {
      expect(read({ ...BASE, SAGA_AUTH_JWKS_URL: url })).toMatchObject({ settings: { keysAt: { url } }, problems: [] });
    },
  );

  it("may have the keys in a file", () => {
    const path = file("keys.json", "{}");
    expect(read({ ...BASE, SAGA_AUTH_JWKS_FILE: path })).toMatchObject({
      settings: { keysAt: { file: path } },
      problems: [],
    });
  });

  it("are known, and mean nothing, where tokens are off", () => {
    const env = { SAGA_AUTH_JWT_ISSUER: "a", SAGA_AUTH_JWKS_FILE: "/none", SAGA_AUTH_CLAIM_SECRETS: "b" };
    expect(read(env, false)).toEqual({ settings: undefined, problems: [], unknown: [] });
  });
});
