// Tokens: every classical attack is refused, times and audiences are read strictly, and claims become a principal or a refusal. The tokens are
// those of a real issuer; the clock is the test's.
import { createHmac } from "node:crypto";
import {
  type CompactJWSHeaderParameters,
  type CryptoKey,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  importJWK,
  SignJWT,
} from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Principal, Unauthenticated } from "../../src/access/index.js";
import { IssuerKeys, issuerAt } from "../../src/access/issuer-keys.js";
import { claimAt, Tokens } from "../../src/access/tokens.js";
import type { ClaimPaths } from "../../src/config/index.js";
import { SagaError } from "../../src/errors.js";
import { silentLog } from "../harness/database.js";
import { AUDIENCE, Issuer, makeSigningKey } from "../harness/issuer.js";

const NOW_S = 1_790_000_000;
const TENANT = "0190a000-0000-7000-8000-0000000000aa";
const CLAIMS: ClaimPaths = {
  ...{ roles: "roles", tenantId: "tenant_id", tenants: "tenants" },
  ...{ workflows: "workflows", services: "services", secrets: "secrets" },
};

let now = NOW_S * 1_000;
let elapsed = 0;
let issuer: Issuer;
let keys: IssuerKeys;
let tokens: Tokens;

beforeAll(async () => {
  issuer = await Issuer.open(() => NOW_S);
  await issuer.rotate("rsa", { keep: true, algorithm: "RS256" });
  await issuer.rotate("newest", { keep: true });
});
afterAll(() => issuer.close());

beforeEach(async () => {
  now = NOW_S * 1_000;
  await keys?.stop();
  keys = new IssuerKeys({
    source: issuerAt(issuer.keysUrl),
    refreshMs: 600_000,
    log: silentLog,
    elapsed: () => elapsed,
  });
  await keys.refresh();
  tokens = tokensWith();
});
afterAll(() => keys.stop());

const tokensWith = (claims: Partial<ClaimPaths> = {}, audience = AUDIENCE) =>
  new Tokens({ settings: { issuer: issuer.name, audience, claims: { ...CLAIMS, ...claims } }, keys, now: () => now });

/** The reason of the refusal, the status of an answer that is none, or the subject. */
async function outcome(token: string, verifier = tokens): Promise<string | number> {
  try {
    return (await verifier.verify(token)).sub;
  } catch (error) {
    if (error instanceof Unauthenticated) return error.reason;
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

async function principalOf(claims: object, paths: Partial<ClaimPaths> = {}): Promise<Principal> {
  return tokensWith(paths).verify(await issuer.sign(claims as Record<string, unknown>));
}

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
const GOOD = () => ({
  iss: issuer.name,
  aud: AUDIENCE,
  sub: "mallory",
  exp: NOW_S + 300,
  roles: ["admin", "platform"],
});
/** A token whose signature is what the attacker makes of its content. */
const forged = (header: object, sign: (content: string) => string) => {
  const content = `${base64(header)}.${base64(GOOD())}`;
  return `${content}.${sign(content)}`;
};

describe("a good token", () => {
  it("is its subject", async () => {
    expect(await tokens.verify(await issuer.sign({ tenant_id: TENANT }))).toMatchObject({
      ...{ kind: "user", sub: "ann", actor: "user:ann", tenantId: TENANT, expiresAt: (NOW_S + 330) * 1_000 },
      roles: new Set(["viewer"]),
    });
  });

  it("may be signed by any published key, and by its algorithm", async () => {
    for (const key of issuer.keys) expect(await outcome(await issuer.sign({}, { key }))).toBe("ann");
  });

  it("without a key id is refused where several keys could be meant", async () => {
    expect(await outcome(await issuer.sign({}, { header: { kid: undefined } }))).toBe("unknown key of a token");
  });
});

describe("a forged token", () => {
  const byHmac = (secret: string | Buffer) => (content: string) =>
    createHmac("sha256", secret).update(content).digest("base64url");
  const publicPem = async () => exportSPKI((await importJWK(issuer.newest.jwk, "ES256")) as CryptoKey);
  const published = (id: string) => issuer.keys.find((key) => key.id === id)?.jwk ?? {};
  const own = async (header: object, algorithm = "ES256", claims: object = GOOD()) => {
    const { privateKey } = await generateKeyPair(algorithm);
    return new SignJWT({ ...claims }).setProtectedHeader(header as CompactJWSHeaderParameters).sign(privateKey);
  };

  it.each<readonly [string, () => string | Promise<string>]>([
    ["without an algorithm", () => forged({ alg: "none" }, () => "")],
    ["without an algorithm, in other letters", () => forged({ alg: "nOnE", kid: "newest" }, () => "")],
    ["without an algorithm, with a good key id", () => forged({ alg: "none", kid: "newest" }, () => "")],
    ["with no alg at all", () => forged({ kid: "newest" }, () => "")],
    ["with an alg that is a list", () => forged({ alg: ["ES256"], kid: "newest" }, () => "")],
    ["without a signature", async () => (await issuer.sign()).replace(/[^.]+$/, "")],
    [
      "signed by HMAC with the public key as PEM",
      async () => forged({ alg: "HS256", kid: "newest" }, byHmac(await publicPem())),
    ],
    [
      "signed by HMAC with the public key as JWK",
      () => forged({ alg: "HS256", kid: "newest" }, byHmac(JSON.stringify(issuer.newest.jwk))),
    ],
    [
      "signed by HMAC with a public key of RSA",
      () => forged({ alg: "HS256", kid: "rsa" }, byHmac(Buffer.from(String(published("rsa").n), "base64url"))),
    ],
    ["signed by HMAC with nothing", () => forged({ alg: "HS512", kid: "newest" }, byHmac(""))],
    ["of another algorithm than the key's", () => own({ alg: "ES384", kid: "newest" }, "ES384")],
    ["of an algorithm that the key's type has, and the key has not", () => own({ alg: "PS256", kid: "rsa" }, "PS256")],
    ["of another key under a good key id", () => own({ alg: "ES256", kid: "newest" })],
    ["of another key under an unknown key id", () => own({ alg: "ES256", kid: "mine" })],
    [
      "with its own key in the header",
      async () => {
        const key = await makeSigningKey("mine");
        return issuer.sign(GOOD(), { key, header: { jwk: key.jwk } });
      },
    ],
    [
      "with its own key in the header, under a good key id",
      async () => {
        const key = await makeSigningKey("newest");
        return issuer.sign(GOOD(), { key, header: { jwk: key.jwk } });
      },
    ],
    ["with the address of its own keys", () => own({ alg: "ES256", kid: "mine", jku: `${issuer.name}/other` })],
    ["with the address of a certificate", () => own({ alg: "ES256", kid: "newest", x5u: `${issuer.name}/other` })],
    ["with a certificate", () => own({ alg: "ES256", kid: "newest", x5c: ["MIIB"] })],
    [
      "whose payload was changed",
      async () => {
        const [header, , signature] = (await issuer.sign()).split(".");
        return `${header}.${base64(GOOD())}.${signature}`;
      },
    ],
    [
      "whose header was changed",
      async () => {
        const [, payload, signature] = (await issuer.sign()).split(".");
        return `${base64({ alg: "ES256", kid: "first" })}.${payload}.${signature}`;
      },
    ],
    [
      "with the signature of another token",
      async () => {
        const [one, other] = [await issuer.sign({ sub: "one" }), await issuer.sign({ sub: "other" })];
        return `${one.slice(0, one.lastIndexOf("."))}${other.slice(other.lastIndexOf("."))}`;
      },
    ],
    [
      "with a signature of zeros",
      () => forged({ alg: "ES256", kid: "newest" }, () => Buffer.alloc(64).toString("base64url")),
    ],
  ])("%s is refused", async (_, make) => {
    expect(await outcome(await make())).toMatch(/^(token: |algorithm of a token|unknown key|header |malformed token)/);
  });

  it.each(["jku", "x5u", "jwk", "x5c", "crit"])(
    "with the header %s is refused, also with a good signature",
    async (name) => {
      // jose does not sign what it cannot mean, so the header is signed as an unknown member.
      for (const value of ["x", null, ["exp"]])
        expect(await outcome(await signedAnyway({ [name]: value }))).toBe(`header ${name} of a token`);
    },
  );

  it.each<readonly [string, unknown]>([
    ["a path", "../../../../dev/null"],
    ["a URL", "http://127.0.0.1:1/keys"],
    ["a statement", "x' union select 'key' --"],
    ["the name of a member of objects", "__proto__"],
    ["empty", ""],
    ["very long", "k".repeat(4_000)],
    ["a number", 7],
    ["null", null],
    ["a list", ["newest"]],
  ])("with a key id that is %s is refused", async (_, kid) => {
    const asked = issuer.asked;
    expect(await outcome(forged({ alg: "ES256", kid }, () => "AAAA"))).toMatch(/^(unknown key|key id) of a token$/);
    expect(issuer.asked - asked).toBeLessThanOrEqual(1);
  });
});

/** A header that jose would not sign, signed with the issuer's newest key. */
async function signedAnyway(header: object): Promise<string> {
  const content = `${base64({ alg: "ES256", kid: "newest", ...header })}.${base64(GOOD())}`;
  const signature = await crypto.subtle.sign(
    { name: "ECDSA", hash: "SHA-256" },
    issuer.newest.privateKey as never,
    Buffer.from(content),
  );
  return `${content}.${Buffer.from(signature).toString("base64url")}`;
}

describe("what is no token", () => {
  it.each<readonly [string, () => string | Promise<string>]>([
    ["nothing", () => ""],
    ["one word", () => "token"],
    ["two parts", () => "a.b"],
    ["dots", () => ".."],
    ["five parts, as an encrypted one has", async () => `${await issuer.sign()}.a.b`],
    ["signs that are not Base64url", async () => (await issuer.sign()).replace(/\.(?=[^.]*$)/, ".+/=")],
    ["a header that is not JSON", () => `${Buffer.from("{oops").toString("base64url")}.e30.AAAA`],
    ["a header that is a list", () => `${base64(["ES256"])}.e30.AAAA`],
    [
      "a token as JSON",
      async () => {
        const [header, payload, signature] = (await issuer.sign()).split(".");
        return JSON.stringify({ protected: header, payload, signature });
      },
    ],
    [
      "a token in a token",
      async () => {
        const inner = await issuer.sign();
        return `${base64({ alg: "ES256", kid: "newest", cty: "JWT" })}.${Buffer.from(inner).toString("base64url")}.AAAA`;
      },
    ],
  ])("is refused: %s", async (_, make) => {
    expect(await outcome(await make())).toMatch(/^(malformed token|token: |algorithm of a token)/);
  });

  it("is refused before it is looked at, if it is oversized", async () => {
    expect(await outcome(await issuer.sign({ roles: ["x".repeat(9_000)] }))).toBe("oversized token");
    expect(await outcome("a".repeat(8_192))).toBe("malformed token");
    expect(await outcome("a".repeat(8_193))).toBe("oversized token");
  });

  it("is a signed list, or a signed word", async () => {
    for (const payload of ["[]", '"ann"', "null", "{", "\u0000"]) {
      const content = `${base64({ alg: "ES256", kid: "newest" })}.${Buffer.from(payload).toString("base64url")}`;
      const algorithm = { name: "ECDSA", hash: "SHA-256" };
      const signature = await crypto.subtle.sign(algorithm, issuer.newest.privateKey as never, Buffer.from(content));
      expect(await outcome(`${content}.${Buffer.from(signature).toString("base64url")}`)).toMatch(/^token: /);
    }
  });
});

describe("the times of a token", () => {
  const EXPIRED = "token: ERR_JWT_EXPIRED";
  const INVALID = "token: ERR_JWT_CLAIM_VALIDATION_FAILED";
  it.each<readonly [string, object, string]>([
    ["exp, 29 s ago", { exp: NOW_S - 29 }, "ann"],
    ["exp, 30 s ago", { exp: NOW_S - 30 }, EXPIRED],
    ["exp, 31 s ago", { exp: NOW_S - 31 }, EXPIRED],
    ["no exp", { exp: undefined }, INVALID],
    ["exp as text", { exp: String(NOW_S + 300) }, INVALID],
    ["exp of null", { exp: null }, INVALID],
    ["exp of zero", { exp: 0 }, EXPIRED],
    ["exp below zero", { exp: -1 }, EXPIRED],
    ["exp beyond all times", { exp: 1e300 }, "exp of a token"],
    ["nbf in 30 s", { nbf: NOW_S + 30 }, "ann"],
    ["nbf in 31 s", { nbf: NOW_S + 31 }, INVALID],
    ["nbf as text", { nbf: "0" }, INVALID],
    ["iat in 30 s", { iat: NOW_S + 30 }, "ann"],
    ["iat in 31 s", { iat: NOW_S + 31 }, "iat of a token"],
    ["iat long ago", { iat: 0 }, "ann"],
    ["no iat", { iat: undefined }, "ann"],
    ["iat as text", { iat: "0" }, INVALID],
  ])("%s", async (_, claims, expected) => {
    expect(await outcome(await issuer.sign(claims as Record<string, unknown>))).toBe(expected);
  });

  it("exp without an end is refused", async () => {
    const content = `${base64({ alg: "ES256", kid: "newest" })}.${Buffer.from(JSON.stringify(GOOD()).replace(/"exp":\d+/, '"exp":1e999')).toString("base64url")}`;
    const algorithm = { name: "ECDSA", hash: "SHA-256" };
    const signature = await crypto.subtle.sign(algorithm, issuer.newest.privateKey as never, Buffer.from(content));
    expect(await outcome(`${content}.${Buffer.from(signature).toString("base64url")}`)).toMatch(
      /exp of a token|token: /,
    );
  });

  it("are compared anew after the token was verified", async () => {
    const token = await issuer.sign({ exp: NOW_S + 10 });
    expect(await outcome(token)).toBe("ann");
    now += 39_999;
    expect(await outcome(token)).toBe("ann");
    now += 1;
    expect(await outcome(token)).toBe(EXPIRED);
  });
});

describe("the end of a token", () => {
  it("is, for what goes on longer than a request, the moment from which it is refused", async () => {
    const token = await issuer.sign({ exp: NOW_S - 10 });
    const { expiresAt = 0 } = await tokens.verify(token);
    now = expiresAt - 1;
    expect(await outcome(token)).toBe("ann");
    now = expiresAt;
    expect(await outcome(token)).toBe("token: ERR_JWT_EXPIRED");
  });

  it("can be said, however late it is", async () => {
    const { expiresAt = 0 } = await tokens.verify(await issuer.sign({ exp: 9e12 }));
    expect(() => new Date(expiresAt).toISOString()).not.toThrow();
  });
});

describe("who a token is of and for", () => {
  const INVALID = "token: ERR_JWT_CLAIM_VALIDATION_FAILED";
  it.each<readonly [string, object, string]>([
    ["our audience", { aud: AUDIENCE }, "ann"],
    ["our audience among others", { aud: ["https://other.example", AUDIENCE] }, "ann"],
    ["another audience", { aud: "https://other.example" }, INVALID],
    ["other audiences", { aud: ["https://other.example", "saga"] }, INVALID],
    ["our audience in a list in a list", { aud: [[AUDIENCE]] }, INVALID],
    ["our audience in an object", { aud: { aud: AUDIENCE } }, INVALID],
    ["an audience that begins as ours does", { aud: `${AUDIENCE}.evil.example` }, INVALID],
    ["our audience in other letters", { aud: AUDIENCE.toUpperCase() }, INVALID],
    ["an empty list", { aud: [] }, INVALID],
    ["no audience", { aud: undefined }, INVALID],
    ["the audience null", { aud: null }, INVALID],
    ["another issuer", { iss: "https://evil.example" }, INVALID],
    ["no issuer", { iss: undefined }, INVALID],
    ["the issuer with a slash", { iss: "+/" }, INVALID],
    ["several issuers", { iss: ["a", "b"] }, INVALID],
    ["no subject", { sub: undefined }, INVALID],
    ["an empty subject", { sub: "" }, "sub of a token"],
    ["a subject that is a number", { sub: 7 }, "sub of a token"],
    ["the subject null", { sub: null }, "sub of a token"],
    ["a subject that is a list", { sub: ["ann"] }, "sub of a token"],
    ["a long subject", { sub: "a".repeat(256) }, "sub of a token"],
    ["a subject that cannot be stored", { sub: "a\u0000b" }, "sub of a token"],
    ["half of a sign as subject", { sub: "a\ud800b" }, "sub of a token"],
  ])("%s", async (_, claims, expected) => {
    expect(await outcome(await issuer.sign(claims as Record<string, unknown>))).toBe(expected);
  });

  it("a token for another service is refused here, and one for this is refused there", async () => {
    const other = tokensWith({}, "https://other.example");
    expect(await outcome(await issuer.sign(), other)).toBe(INVALID);
    expect(await outcome(await issuer.sign({ aud: "https://other.example" }), other)).toBe("ann");
  });
});

describe("the claims of a token", () => {
  it.each(["tenants", "workflows", "services", "secrets"])("%s that is no list of texts is refused", async (name) => {
    for (const value of [null, "a", 7, true, {}, [1], ["a", null], [["a"]], { 0: "a" }])
      await expect(principalOf({ [name]: value })).rejects.toMatchObject({
        reason: `${name} is not a list of strings`,
      });
  });

  it.each([null, "", "shop", 7, [TENANT], {}, `${TENANT} `, TENANT.slice(1)])(
    "tenant_id %j is refused",
    async (value) => {
      await expect(principalOf({ tenant_id: value })).rejects.toMatchObject({ reason: "tenant_id is not a UUID" });
    },
  );

  it("a tenant that is no UUID is refused among tenants, too", async () => {
    await expect(principalOf({ tenants: [TENANT, "shop"] })).rejects.toMatchObject({ reason: "tenants is not a UUID" });
  });

  it("a tenant is read in lower case", async () => {
    const upper = TENANT.toUpperCase();
    expect(await principalOf({ tenant_id: upper, tenants: [upper] })).toMatchObject({
      tenantId: TENANT,
      tenants: [TENANT],
    });
  });

  it.each<readonly [string, unknown, readonly string[]]>([
    ["known ones", ["viewer", "worker"], ["viewer", "worker"]],
    ["unknown ones", ["viewer", "root", "Admin", "admin "], ["viewer"]],
    ["other things", ["viewer", 7, null, ["admin"]], ["viewer"]],
    ["a text", "admin", []],
    ["null", null, []],
    ["an object", { admin: true }, []],
    ["nothing", undefined, []],
  ])("roles: %s", async (_, roles, expected) => {
    expect([...(await principalOf({ roles })).roles]).toEqual(expected);
  });

  it("say nothing of workflows, services and secrets: all workflows, and no service and no secret", async () => {
    const { workflows, services, secrets, tenantId } = await principalOf({});
    expect([workflows, services.texts, secrets.texts, tenantId]).toEqual([undefined, [], [], undefined]);
  });

  it("name no tenant beside the role platform, whose own is none; what is no UUID is refused there, too", async () => {
    const { tenantId, tenants } = await principalOf({ roles: ["platform", "author"], tenant_id: TENANT });
    expect([tenantId, tenants]).toEqual([undefined, undefined]);
    await expect(principalOf({ roles: ["platform"], tenant_id: "shop" })).rejects.toMatchObject({
      reason: "tenant_id is not a UUID",
    });
  });

  it("name ids and prefixes, and an empty list names none", async () => {
    const { workflows, services } = await principalOf({ workflows: [], services: ["shop", "bank.*"] });
    expect(["a", "*"].some((id) => workflows?.match(id))).toBe(false);
    expect(["shop", "bank.eu", "shops", "bank"].map((id) => services.match(id))).toEqual([true, true, false, false]);
  });

  it("are found at the paths that are set", async () => {
    const namespaced = {
      "https://saga.example/roles": ["admin"],
      app: { saga: { tenant: TENANT } },
      roles: ["platform"],
    };
    const paths = { roles: "https://saga.example/roles", tenantId: "app.saga.tenant" };
    expect(await principalOf(namespaced, paths)).toMatchObject({ roles: new Set(["admin"]), tenantId: TENANT });
    expect((await principalOf({ roles: ["admin"] }, { roles: "realm_access.roles" })).roles.size).toBe(0);
  });

  it("are found by own members only", () => {
    expect(claimAt({}, "constructor.name")).toBeUndefined();
    expect(claimAt({ a: "text" }, "a.length")).toBeUndefined();
    expect(claimAt({ a: ["x"] }, "a.0")).toBeUndefined();
    expect(claimAt(JSON.parse('{"a":{"__proto__":{"b":1}}}'), "a.b")).toBeUndefined();
  });
});

describe("a token that was verified", () => {
  it("is known at once, and is the same principal", async () => {
    const token = await issuer.sign();
    const first = await tokens.verify(token);
    expect(tokens.verify(token)).toBe(first);
  });

  it("is refused when its key has gone, and whoever listens hears of it", async () => {
    const { keys: before } = issuer;
    try {
      const token = await issuer.sign();
      const { ended } = await tokens.verify(token);
      await issuer.rotate("next");
      await keys.refresh();
      expect([ended?.aborted, await outcome(token)]).toEqual([true, "unknown key of a token"]);
    } finally {
      issuer.keys = before;
    }
  });

  it("goes on while the issuer is away, and a token of an unknown key is 503", async () => {
    const [good, other] = [await issuer.sign(), await issuer.sign({}, { key: await makeSigningKey("other") })];
    issuer.isAway();
    try {
      elapsed += 30_000;
      expect([await outcome(other), await outcome(good)]).toEqual([503, "ann"]);
    } finally {
      issuer.isBack();
    }
  });

  it("is kept with many others in bounded memory", async () => {
    const many = await Promise.all(
      Array.from({ length: 500 }, (_, nth) => issuer.sign({ sub: `s${nth}`, secrets: ["x".repeat(4_000)] })),
    );
    const heap = () => (tokens as unknown as { verified: { weight: number } }).verified.weight;
    for (const token of many) await tokens.verify(token);
    expect(heap()).toBeGreaterThan(1_000_000);
    expect(heap()).toBeLessThan(16 * 1024 * 1024);
  });
});

describe("a private key of the issuer", () => {
  it("is in no refusal", async () => {
    const secret = await exportJWK(issuer.newest.privateKey);
    const token = await issuer.sign({ aud: "other" });
    const error = await Promise.resolve(tokens.verify(token)).catch((thrown: unknown) => thrown);
    const said = JSON.stringify([error, String(error), (error as Error).stack, (error as { cause?: unknown }).cause]);
    for (const part of [...token.split("."), String(secret.d)]) expect(said).not.toContain(part);
  });
});
