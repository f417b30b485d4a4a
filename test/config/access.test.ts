// The settings of access control, as they are read: which credentials there are, what stops the start, and what is warned of.
import { describe, expect, it } from "vitest";
import { ConfigError, type Env, loadConfig } from "../../src/config/index.js";

const TOKENS = {
  ...{ SAGA_AUTH: "jwt", SAGA_AUTH_JWT_ISSUER: "https://issuer.example", SAGA_AUTH_JWT_AUDIENCE: "saga" },
  SAGA_AUTH_JWKS_URL: "https://issuer.example/keys",
};

function problemsOf(env: Env): readonly string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}

describe("SAGA_AUTH", () => {
  it("is off, or a list of kinds of credentials", () => {
    for (const [SAGA_AUTH, auth, credentials] of [
      ["", "off", []],
      ["off", "off", []],
      ["api_key", "on", ["api_key"]],
    ] as const)
      expect(loadConfig({ SAGA_AUTH }).config).toMatchObject({ auth, credentials });
    expect(loadConfig({ ...TOKENS, SAGA_AUTH: "api_key,jwt" }).config).toMatchObject({
      ...{ credentials: ["jwt", "api_key"], tokens: { issuer: "https://issuer.example" } },
    });
  });

  it.each([
    [{ SAGA_AUTH: "on" }, /^SAGA_AUTH must be off, or a list of jwt, api_key, mtls/],
    [{ SAGA_AUTH: "api_key,off" }, /^SAGA_AUTH must be off, or a list/],
    [{ SAGA_AUTH: "api_key," }, /^SAGA_AUTH must be off, or a list/],
    [{ ...TOKENS, SAGA_AUTH_JWT_ISSUER: "" }, /^SAGA_AUTH_JWT_ISSUER is missing/],
    [{ SAGA_AUTH: "api_key", SAGA_RATE_LIMIT: "10" }, /^SAGA_RATE_LIMIT must be like 10\/s/],
    [{ SAGA_AUTH: "api_key", SAGA_RATE_LIMIT: "0/s" }, /^SAGA_RATE_LIMIT must be like 10\/s/],
    [{ SAGA_AUTH: "api_key", SAGA_RATE_LIMIT: "10/s,0" }, /^SAGA_RATE_LIMIT must be like 10\/s/],
    [{ SAGA_TRUSTED_PROXIES: "proxy.example" }, /^SAGA_TRUSTED_PROXIES has an entry that is not an address/],
    [{ SAGA_TRUSTED_PROXIES: "10.0.0.0/33" }, /^SAGA_TRUSTED_PROXIES has an entry that is not an address/],
    [{ SAGA_AUTH: "api_key", SAGA_OIDC_CLIENT_ID: "console" }, /^SAGA_OIDC_ISSUER is missing/],
    [{ ...TOKENS, SAGA_OIDC_CLIENT_ID: "saga" }, /^SAGA_OIDC_CLIENT_ID must differ from SAGA_AUTH_JWT_AUDIENCE/],
    [
      { ...TOKENS, SAGA_OIDC_CLIENT_ID: "c", SAGA_OIDC_ISSUER: "http://issuer.example" },
      /^SAGA_OIDC_ISSUER must be a URL/,
    ],
    [
      { ...TOKENS, SAGA_OIDC_CLIENT_ID: "c", SAGA_OIDC_TOKEN_URL: "http://tokens.example" },
      /^SAGA_OIDC_TOKEN_URL must be a URL/,
    ],
  ])("%o stops the start", (env, problem) => {
    expect(problemsOf(env)).toEqual([expect.stringMatching(problem)]);
  });

  it("has another kind beside mtls, which needs its files too", () => {
    expect(problemsOf({ SAGA_AUTH: "mtls" })).toEqual([
      expect.stringMatching(/^SAGA_AUTH needs jwt or api_key beside mtls/),
      expect.stringMatching(/^SAGA_AUTH has mtls, which needs both/),
    ]);
  });

  it("lets the service listen beyond loopback, where without it SAGA_INSECURE is asked for", () => {
    expect(loadConfig({ SAGA_AUTH: "api_key", HOST: "0.0.0.0" }).config.host).toBe("0.0.0.0");
    expect(problemsOf({ HOST: "0.0.0.0" })).toEqual([
      expect.stringMatching(/^HOST is beyond .*SAGA_AUTH.*SAGA_INSECURE=1/),
    ]);
    expect(loadConfig({ HOST: "0.0.0.0", SAGA_INSECURE: "1" }).config.auth).toBe("off");
  });

  it("makes SAGA_INSECURE have no effect, which is warned of", () => {
    const warnings = (env: Env) => loadConfig({ SAGA_AUTH: "api_key", ...env }).warnings;
    expect(warnings({ SAGA_INSECURE: "1" })).toEqual([expect.stringMatching(/^SAGA_INSECURE has no effect/)]);
    expect(warnings({ SAGA_INSECURE: "0" })).toEqual([]);
  });

  it("on without TLS is warned of beyond loopback, unless a proxy ends TLS", () => {
    const warnings = (env: Env) => loadConfig({ SAGA_AUTH: "api_key", ...env }).warnings;
    expect(warnings({})).toEqual([]);
    expect(warnings({ HOST: "0.0.0.0" })).toEqual([expect.stringMatching(/^SAGA_AUTH is on without TLS/)]);
    expect(warnings({ HOST: "0.0.0.0", SAGA_PUBLIC_URL: "https://saga.example" })).toEqual([]);
  });

  it("may differ between nodes while SAGA_AUTH_ROLLOUT is on, which is warned of", () => {
    const { config, warnings } = loadConfig({ SAGA_AUTH: "api_key", SAGA_AUTH_ROLLOUT: "1" });
    expect([config.authRollout, warnings]).toEqual([true, [expect.stringMatching(/^SAGA_AUTH_ROLLOUT is on/)]]);
  });
});

describe("the settings beside it", () => {
  it("are a rate with its burst, and the proxies that are trusted", () => {
    const rate = (SAGA_RATE_LIMIT: string) => loadConfig({ SAGA_RATE_LIMIT }).config.rateLimit;
    expect([rate(""), rate("10/s"), rate("10/s,50")]).toEqual([
      ...[undefined, { perSecond: 10, burst: 10 }, { perSecond: 10, burst: 50 }],
    ]);
    const proxies = { SAGA_TRUSTED_PROXIES: "10.0.0.0/8, ::1" };
    expect(loadConfig(proxies).config.trustedProxies).toEqual(["10.0.0.0/8", "::1"]);
  });

  it("are a client at the issuer of tokens, or at another one; its secret is not printed", () => {
    const login = { ...TOKENS, SAGA_OIDC_CLIENT_ID: "console", SAGA_OIDC_CLIENT_SECRET: "hunter2" };
    const { config } = loadConfig(login);
    expect(config.oidc).toMatchObject({
      issuer: "https://issuer.example",
      clientId: "console",
      clientSecret: "hunter2",
    });
    expect(JSON.stringify(config)).not.toContain("hunter2");
    const other = loadConfig({ ...login, SAGA_OIDC_ISSUER: "https://login.example" });
    expect(other.config.oidc?.issuer).toBe("https://login.example");
    const [jwks_uri, token_endpoint] = ["https://keys.example/", "https://tokens.example/"];
    const byHand = loadConfig({ ...login, SAGA_OIDC_JWKS_URL: jwks_uri, SAGA_OIDC_TOKEN_URL: token_endpoint });
    expect(byHand.config.oidc?.addresses).toEqual({ jwks_uri, token_endpoint });
    expect(loadConfig({ SAGA_OIDC_CLIENT_ID: "console" }).config.oidc).toBeUndefined();
  });
});
