// The keys of the issuer: which are used, when they are read, and what holds while the issuer is away, hangs, or lies. The issuer is a real one.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exportJWK, generateKeyPair, generateSecret, type JWK } from "jose";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { Unauthenticated } from "../../src/access/index.js";
import { IssuerKeys, type IssuerKeysOptions, issuerAt, keysInFile } from "../../src/access/issuer-keys.js";
import { SagaError } from "../../src/errors.js";
import type { silentLog } from "../harness/database.js";
import { ELSEWHERE, Issuer, makeSigningKey, type SigningKey } from "../harness/issuer.js";
import { until } from "../harness/until.js";

/** How long an issuer that hangs is waited for, where one does. */
const SHORT_MS = 200;
const DAY_MS = 86_400_000;

let elapsed = 0;
let issuer: Issuer;
const opened: IssuerKeys[] = [];
const lines: unknown[] = [];
const note = (...line: unknown[]) => void lines.push(line);
const log = { debug: note, info: note, warn: note, error: note } as unknown as typeof silentLog;

beforeEach(async () => {
  elapsed = 1_000_000;
  lines.length = 0;
  issuer = await Issuer.open(() => 1_000);
});
afterEach(async () => {
  for (const keys of opened.splice(0)) await keys.stop();
  await issuer.close();
});

function keysOf(more: Partial<IssuerKeysOptions> = {}): IssuerKeys {
  const source = issuerAt(issuer.keysUrl);
  const keys = new IssuerKeys({ source, refreshMs: 600_000, log, elapsed: () => elapsed, ...more });
  opened.push(keys);
  return keys;
}

async function started(more: Partial<IssuerKeysOptions> = {}): Promise<IssuerKeys> {
  const keys = keysOf(more);
  await keys.start();
  return keys;
}

const headerOf = ({ id, algorithm }: Pick<SigningKey, "id" | "algorithm">) => ({ id, algorithm });
const unknown = (id = "unknown") => ({ id, algorithm: "ES256" });

/** 401 or 503, or the key. */
async function outcome(keys: IssuerKeys, header = headerOf(issuer.newest)): Promise<string | number> {
  try {
    return (await keys.keyFor(header)).id ?? "";
  } catch (error) {
    if (error instanceof Unauthenticated) return 401;
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

describe("the keys of the issuer", () => {
  it("are read at the start, and found without asking again", async () => {
    const keys = await started();
    expect([await outcome(keys), await outcome(keys), issuer.asked]).toEqual(["first", "first", 1]);
  });

  it("are read again by themselves, after the time that is set", async () => {
    await started({ refreshMs: 1 });
    await until(() => issuer.asked > 3, { what: "further reads" });
  });

  it("are found by the id and the algorithm together", async () => {
    const { id } = await issuer.rotate("rsa", { keep: true, algorithm: "RS256" });
    const keys = await started();
    expect(await outcome(keys, { id, algorithm: "RS256" })).toBe("rsa");
    for (const algorithm of ["ES256", "PS256", "RS512", "HS256", "none", "", "ES256K"])
      expect([algorithm, await outcome(keys, { id, algorithm })]).toEqual([algorithm, 401]);
  });

  it.each(["RS256", "PS512", "ES384", "ES512", "EdDSA", "Ed25519"])("of %s are used", async (algorithm) => {
    await issuer.rotate("only", { algorithm });
    expect(await outcome(await started())).toBe("only");
  });

  it("need no id if only one fits, and are refused without one if several do", async () => {
    const keys = await started();
    expect((await keys.keyFor({ algorithm: "ES256" })).id).toBe("first");
    await issuer.rotate("second", { keep: true });
    await keys.refresh();
    await expect(async () => keys.keyFor({ algorithm: "ES256" })).rejects.toThrow(Unauthenticated);
  });
});

describe("a new key of the issuer", () => {
  it("is found at once, because an unknown id asks the issuer", async () => {
    const keys = await started();
    await issuer.rotate("second", { keep: true });
    expect([await outcome(keys), issuer.asked]).toEqual(["second", 2]);
  });

  it("leaves the others as they are, and ends the one that it replaces", async () => {
    const keys = await started();
    const first = await keys.keyFor(headerOf(issuer.newest));
    await issuer.rotate("second", { keep: true });
    await keys.refresh();
    expect(await keys.keyFor(unknown("first"))).toBe(first);
    const second = await keys.keyFor(unknown("second"));
    await issuer.rotate("third");
    await keys.refresh();
    expect([first.gone.aborted, second.gone.aborted]).toEqual([true, true]);
    expect(await outcome(keys, unknown("first"))).toBe(401);
  });

  it("under the id of another one replaces that one", async () => {
    const keys = await started();
    const old = await keys.keyFor(headerOf(issuer.newest));
    await issuer.rotate("first");
    await keys.refresh();
    expect([old.gone.aborted, (await keys.keyFor(unknown("first"))) === old]).toEqual([true, false]);
  });
});

describe("thousands of unknown key ids", () => {
  it("ask the issuer once in 30 s", async () => {
    const keys = await started();
    const many = (prefix: string) =>
      Array.from({ length: 3_000 }, (_, nth) => outcome(keys, unknown(`${prefix}${nth}`)));
    expect(new Set(await Promise.all(many("a")))).toEqual(new Set([401]));
    elapsed += 29_999;
    expect(new Set(await Promise.all(many("b")))).toEqual(new Set([401]));
    expect(issuer.asked).toBe(2);
    elapsed += 1;
    await Promise.all(many("c"));
    expect(issuer.asked).toBe(3);
  });

  it("that are paths and URLs are only looked up", async () => {
    const keys = await started();
    for (const id of [
      "../../etc/passwd",
      "/dev/null",
      `${issuer.name}/other`,
      "first' or '1'='1",
      "__proto__",
      "constructor",
      "",
    ])
      expect([id, await outcome(keys, unknown(id))]).toEqual([id, 401]);
    expect(issuer.asked).toBe(2);
  });
});

describe("while the issuer is away", () => {
  it("known keys are used, and an unknown one is 503", async () => {
    const keys = await started();
    issuer.isAway();
    expect(await outcome(keys, unknown())).toBe(503);
    expect(await outcome(keys)).toBe("first");
    issuer.isBack();
    elapsed += 30_000;
    expect(await outcome(keys, unknown())).toBe(401);
  });

  it("keys are kept for a day and no longer", async () => {
    const keys = await started();
    const held = await keys.keyFor(headerOf(issuer.newest));
    issuer.isAway();
    elapsed += DAY_MS;
    expect([await outcome(keys), held.gone.aborted]).toEqual(["first", false]);
    elapsed += 1;
    expect([await outcome(keys), held.gone.aborted]).toEqual([503, true]);
    issuer.isBack();
    await keys.refresh();
    expect(await outcome(keys)).toBe("first");
  });

  it("at the start, every token is 503 until it is back", async () => {
    issuer.isAway();
    const keys = keysOf();
    await expect(keys.start()).rejects.toThrow();
    expect(await outcome(keys)).toBe(503);
    issuer.isBack();
    // The reads after a failure come by themselves, seconds apart.
    await until(async () => (await outcome(keys)) === "first", { what: "the keys" });
  });

  it("and hangs, a read of its keys ends, and those that wait are 503", async () => {
    const keys = keysOf({ readWithinMs: SHORT_MS });
    await until(() => keys.refresh().then(() => true), { what: "the keys" });
    const asked = issuer.asked;
    issuer.hangs();
    const outcomes = Array.from({ length: 100 }, (_, nth) => outcome(keys, unknown(String(nth))));
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set([503]));
    expect([issuer.asked - asked, await outcome(keys)]).toEqual([1, "first"]);
  });
});

describe("an issuer that lies", () => {
  const set = (...keys: readonly object[]) => JSON.stringify({ keys });
  const jwk = () => issuer.newest.jwk;

  it.each<readonly [string, () => void | Promise<void>]>([
    ["with a page of HTML", () => issuer.answers("<html>sign in</html>", { headers: { "content-type": "text/html" } })],
    [
      "with a redirect to good keys",
      () => {
        const body = set(jwk());
        issuer.answers(body, { status: 302, headers: { location: `${issuer.name}${ELSEWHERE}` } });
      },
    ],
    ["with an error that has good keys in it", () => issuer.answers(set(jwk()), { status: 500 })],
    ["with a huge body", () => issuer.answers(JSON.stringify({ keys: [jwk()], more: "x".repeat(300_000) }))],
    ["with a body of unknown length that does not end", () => issuer.answers(Buffer.alloc(4_000_000, 32))],
    ["with too many keys", () => issuer.answers(set(...Array.from({ length: 101 }, () => jwk())))],
    ["with no object", () => issuer.answers(JSON.stringify([jwk()]))],
    ["with no list", () => issuer.answers(JSON.stringify({ keys: { 0: jwk() } }))],
    ["with a list of other things", () => issuer.answers(JSON.stringify({ keys: [jwk(), null] }))],
    ["with an empty set", () => issuer.answers(set())],
    ["with a member that reaches a prototype", () => issuer.answers(`{"__proto__":${set(jwk())}}`)],
  ])("%s is away, and the keys that were read stay", async (_, lie) => {
    const keys = await started();
    await issuer.rotate("second", { keep: true });
    await lie();
    expect([await outcome(keys), await outcome(keys, unknown("first"))]).toEqual([503, "first"]);
  });

  const publicKey = async (algorithm: string, options = {}): Promise<JWK> =>
    exportJWK((await generateKeyPair(algorithm, { extractable: true, ...options })).publicKey);

  it.each<readonly [string, string, () => Promise<object>]>([
    ["a private key", "ES256", async () => exportJWK((await makeSigningKey("bad")).privateKey)],
    ["a private key of RSA", "RS256", async () => exportJWK((await makeSigningKey("bad", "RS256")).privateKey)],
    [
      "a secret that both sides would share",
      "HS256",
      async () => exportJWK(await generateSecret("HS256", { extractable: true })),
    ],
    ["a key for encryption", "ES256", async () => ({ ...(await publicKey("ES256")), use: "enc" })],
    ["a key that may not verify", "ES256", async () => ({ ...(await publicKey("ES256")), key_ops: ["sign"] })],
    ["a key of another algorithm than its own", "ES256", async () => ({ ...(await publicKey("ES256")), alg: "RS256" })],
    ["a key that is no point of its curve", "ES256", async () => ({ ...(await publicKey("ES256")), x: "AAAA" })],
    ["a key whose members are no texts", "RS256", async () => ({ kty: "RSA", n: 1, e: {} })],
    ["a key of an unknown curve", "ES256", async () => ({ ...(await publicKey("ES256")), crv: "toString" })],
    ["an id that is no text", "ES256", async () => ({ ...(await publicKey("ES256")), kid: 1 })],
  ])("about one key, with %s, has the others used", async (_, algorithm, make) => {
    const bad = { kid: "bad", ...(await make()) };
    issuer.answers(set(bad, jwk()));
    const keys = await started();
    expect([await outcome(keys), await outcome(keys, { id: "bad", algorithm })]).toEqual(["first", 401]);
  });

  it("refuses a short key of RSA", async () => {
    const { generateKeyPairSync } = await import("node:crypto");
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1_024 });
    issuer.answers(set({ ...publicKey.export({ format: "jwk" }), kid: "short" }, jwk()));
    expect(await outcome(await started(), { id: "short", algorithm: "RS256" })).toBe(401);
  });

  it("with a key that was good and now shows its secret ends it, and says so without it", async () => {
    const keys = await started();
    const held = await keys.keyFor(headerOf(issuer.newest));
    const secret = await exportJWK(issuer.newest.privateKey);
    const other = await makeSigningKey("other");
    issuer.answers(set({ ...jwk(), d: secret.d }, other.jwk));
    await keys.refresh();
    expect([held.gone.aborted, await outcome(keys)]).toEqual([true, 401]);
    expect(JSON.stringify(lines)).toContain("must be secret");
    expect(JSON.stringify(lines)).not.toContain(secret.d);
  });
});

describe("keys in a file", () => {
  const folder = mkdtempSync(join(tmpdir(), "saga-keys-"));
  const path = join(folder, "jwks.json");
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (...keys: readonly SigningKey[]) =>
    writeFileSync(path, JSON.stringify({ keys: keys.map(({ jwk }) => jwk) }));

  it("are read as those of an issuer are, and again", async () => {
    const [one, two] = [await makeSigningKey("one"), await makeSigningKey("two")];
    write(one);
    const keys = await started({ source: keysInFile(path) });
    expect(await outcome(keys, headerOf(one))).toBe("one");
    write(one, two);
    expect(await outcome(keys, headerOf(two))).toBe("two");
    rmSync(path);
    elapsed += 30_000;
    expect([await outcome(keys, unknown()), await outcome(keys, headerOf(one))]).toEqual([503, "one"]);
  });

  it("are bounded", async () => {
    writeFileSync(path, " ".repeat(300_000));
    await expect(keysOf({ source: keysInFile(path) }).start()).rejects.toThrow("over 262144 bytes");
  });
});
