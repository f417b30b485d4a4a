// Both kinds of bearers behind one verifier: which kind a text is, what is off, and that nothing of a credential comes out: in no line of the
// log, no error and no row.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { inspect } from "node:util";
import { exportJWK } from "jose";
import type { Sql } from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type BearerOptions, Bearers } from "../../src/access/bearers.js";
import { ANYONE, Unauthenticated } from "../../src/access/index.js";
import { makeApiKey } from "../../src/access/key-maker.js";
import { makeKey } from "../../src/access/key-text.js";
import { ConfigError, type TokenSettings } from "../../src/config/index.js";
import { SagaError } from "../../src/errors.js";
import { createLogger } from "../../src/log.js";
import { openDatabase } from "../../src/store/engine/connection.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../harness/database.js";
import { AUDIENCE, Issuer, makeSigningKey } from "../harness/issuer.js";

const NOW = 1_790_000_000_000;
const CLAIMS = {
  ...{ roles: "roles", tenantId: "tenant_id", tenants: "tenants" },
  ...{ workflows: "workflows", services: "services", secrets: "secrets" },
};

let database: TestDatabase;
let issuer: Issuer;
let settings: TokenSettings;
const lines: string[] = [];
const log = createLogger(
  { logLevel: "trace" },
  new Writable({
    write(chunk, _, done) {
      lines.push(String(chunk));
      done();
    },
  }),
);
const opened: Bearers[] = [];

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  issuer = await Issuer.open(() => NOW / 1_000);
  const keysAt = { url: issuer.keysUrl };
  settings = { issuer: issuer.name, audience: AUDIENCE, keysAt, refreshMs: 600_000, claims: CLAIMS };
});
afterAll(async () => {
  await issuer?.close();
  await database?.drop();
});
beforeEach(() => {
  lines.length = 0;
  issuer.isBack();
});
afterEach(async () => {
  for (const bearers of opened.splice(0)) await bearers.stop();
});

async function open(more: Partial<BearerOptions> = {}): Promise<Bearers> {
  const options = { apiKeys: true, tokens: settings, sql: database.sql, log, now: () => NOW, ...more };
  const bearers = await Bearers.open(options);
  opened.push(bearers);
  return bearers;
}

const made = async (sql: Sql = database.sql) =>
  (await makeApiKey(sql, ANYONE, { name: "k", roles: ["platform", "admin"] }, { now: NOW })).key;

async function outcome(bearers: Bearers, bearer: string): Promise<string | number> {
  try {
    return (await bearers.verify(bearer)).kind;
  } catch (error) {
    if (error instanceof Unauthenticated) return error.reason;
    if (error instanceof SagaError) return error.status;
    throw error;
  }
}

const NOT_ACCEPTED = "a kind of credential that is not accepted";

describe("a bearer", () => {
  it("is an API key or a token by its form", async () => {
    const bearers = await open();
    await bearers.start();
    expect([await outcome(bearers, await made()), await outcome(bearers, await issuer.sign())]).toEqual([
      "key",
      "user",
    ]);
    expect(await outcome(bearers, "saga_")).toBe("malformed key");
    for (const text of ["", "admin", "Basic YTpi", (await made()).slice(5)])
      expect(await outcome(bearers, text)).toBe("malformed token");
  });

  it("of a kind that is off is refused", async () => {
    const [keysOnly, tokensOnly] = [await open({ tokens: undefined }), await open({ apiKeys: false })];
    await Promise.all([keysOnly.start(), tokensOnly.start()]);
    expect([await outcome(keysOnly, await made()), await outcome(keysOnly, await issuer.sign())]).toEqual([
      "key",
      NOT_ACCEPTED,
    ]);
    expect([await outcome(tokensOnly, await made()), await outcome(tokensOnly, await issuer.sign())]).toEqual([
      NOT_ACCEPTED,
      "user",
    ]);
  });

  it("that is a key is known as revoked at once where it was revoked", async () => {
    const bearers = await open();
    const key = await made();
    const { sub, ended } = await bearers.verify(key);
    bearers.keyRevoked(sub);
    expect([ended?.aborted, await outcome(bearers, key)]).toEqual([true, "revoked key"]);
  });
});

describe("the start", () => {
  it("does not wait for an issuer that is away, and answers 503", async () => {
    issuer.isAway();
    const bearers = await open();
    await bearers.start();
    expect([await outcome(bearers, await issuer.sign()), await outcome(bearers, await made())]).toEqual([503, "key"]);
  });

  const folder = mkdtempSync(join(tmpdir(), "saga-bearers-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  it.each([
    ["is not JSON", "s3cr3t", "is not JSON"],
    ["has no keys", '{"keys":[]}', "no key in it that verifies tokens"],
    ["has a shared secret", '{"keys":[{"kty":"oct","k":"s3cr3t","kid":"a"}]}', "no key in it that verifies tokens"],
  ])("stops at a file that %s, and shows nothing of it", async (_, text, sentence) => {
    const path = join(folder, "keys.json");
    writeFileSync(path, text);
    const bearers = await open({ tokens: { ...settings, keysAt: { file: path } } });
    const error = await bearers.start().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigError);
    expect(String(error)).toContain(sentence);
    expect(String(error) + lines.join("")).not.toContain("s3cr3t");
  });

  it("reads a file of keys", async () => {
    const path = join(folder, "good.json");
    writeFileSync(path, JSON.stringify({ keys: issuer.keys.map(({ jwk }) => jwk) }));
    const bearers = await open({ tokens: { ...settings, keysAt: { file: path } } });
    await bearers.start();
    expect(await outcome(bearers, await issuer.sign())).toBe("user");
  });

  it("may be left out, and the end comes twice", async () => {
    const bearers = await open();
    await bearers.stop();
    await bearers.stop();
  });
});

describe("a credential", () => {
  it("comes out nowhere: in no line, no error, no row, and not in what the verifier holds", async () => {
    const bearers = await open();
    await bearers.start();
    const stranger = await makeSigningKey("stranger");
    const key = await made();
    const keys = [key, `${key.slice(0, 22)}${makeKey().key.slice(22)}`, makeKey().key, `${key}x`];
    const tokens = await Promise.all([
      issuer.sign(),
      issuer.sign({ aud: "other" }),
      issuer.sign({ exp: 1 }),
      issuer.sign({ tenants: null }),
      issuer.sign({ sub: "" }),
      issuer.sign({}, { header: { jku: "http://127.0.0.1/" } }),
      issuer.sign({}, { key: stranger }),
    ]);
    const errors: unknown[] = [];
    const present = async (from: Bearers) => {
      for (const bearer of [...keys, ...tokens])
        await Promise.resolve()
          .then(() => from.verify(bearer))
          .catch((error: unknown) => errors.push(error));
    };
    await present(bearers);
    issuer.isAway();
    const away = openDatabase("postgres://postgres@127.0.0.1:1/postgres", {
      max: 1,
      applicationName: "saga-test",
      log: silentLog,
    });
    const lost = await open({ sql: away.sql });
    await lost.start();
    await present(lost);
    await away.close();
    expect(errors.length).toBeGreaterThan(15);
    const rows = await database.sql<{ row: string }[]>`select api_keys::text as row from api_keys`;
    const held = [bearers, lost].map((each) =>
      inspect(each, { depth: 20, showHidden: true, maxArrayLength: null, maxStringLength: null }),
    );
    const said = [
      ...lines,
      ...errors.map((error) => inspect(error, { depth: 20, showHidden: true })),
      ...rows.map(({ row }) => row),
      ...held,
    ].join("\n");
    expect(said).toContain(key.split("_")[1]);
    for (const bearer of keys) expect(said).not.toContain(bearer.slice(22, 65));
    for (const token of tokens) for (const part of token.split(".").slice(1)) expect(said).not.toContain(part);
    const secret = await exportJWK(issuer.newest.privateKey);
    expect(said).not.toContain(secret.d);
  });
});
