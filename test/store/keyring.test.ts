// The data keys of tenants: how many values each seals, what another node knows of it, and what an envelope gives away.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { randomBytes } from "../../src/ambient.js";
import { isStoreAway } from "../../src/store/engine/failure.js";
import { Keyring } from "../../src/store/sealed/keyring.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";

const TENANT = "0190a000-0000-7000-8000-0000000000e2";
const masters = { current: "m", byId: new Map([["m", randomBytes(32)]]) };

interface Envelope {
  readonly $sealed: [number, string, string, string];
}

describe("the data keys of tenants", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
  });
  afterAll(() => database?.drop());

  const open = async (about: { keyUses?: number; block?: number } = {}) => {
    const keyring = new Keyring({ masters, ...about });
    await keyring.start(database.sql);
    return keyring;
  };

  it("a key that is full is followed by a fresh one, and seals no more values than it may", async () => {
    const keyring = await open({ keyUses: 8, block: 4 });
    const sealed: Envelope[] = [];
    for (let nth = 0; nth < 20; nth++) {
      const sealer = await keyring.sealer(TENANT);
      sealed.push(sealer.seal({ nth }, `t/${nth}`) as Envelope);
    }
    const counts = new Map<number, number>();
    for (const { $sealed } of sealed) counts.set($sealed[0], (counts.get($sealed[0]) ?? 0) + 1);
    expect(counts.size).toBeGreaterThanOrEqual(3);
    expect(Math.max(...counts.values())).toBeLessThanOrEqual(8);
    expect(sealed.map((one, nth) => keyring.read(JSON.stringify(one), `t/${nth}`))).toEqual(
      Array.from({ length: 20 }, (_, nth) => ({ nth })),
    );
  });

  it("a node that does not have a key yet says that it is to be asked again, and has the value once it has read the key", async () => {
    const [one, other] = [await open(), await open()];
    const text = JSON.stringify({
      a: (await one.sealer("0190a000-0000-7000-8000-0000000000e3")).seal("secret", "t/1/a"),
    });
    if (one.parse(text) === undefined) throw new Error("it is not read");
    expect(other.parse(text)).toEqual({ a: expect.stringContaining("does not have the key") });
    expect(other.missed).toBe(1);
    const failure = await Promise.resolve()
      .then(() => other.read(text, "t/1/a"))
      .catch((error: unknown) => error);
    expect(isStoreAway(failure)).toBe(true);
    await other.refresh();
    expect(other.parse(text)).toEqual({ a: "secret" });
  });

  it("a value is read at its own place alone, and never under the key of another tenant", async () => {
    const keyring = await open();
    const sealer = await keyring.sealer(TENANT);
    const envelope = sealer.seal("secret", "t/1/a") as Envelope;
    const others = await keyring.sealer("0190a000-0000-7000-8000-0000000000e4");
    const { $sealed: other } = others.seal("x", "t/1/a") as Envelope;
    expect(keyring.read(JSON.stringify({ a: envelope }), "t/1")).toEqual({ a: "secret" });
    expect(() => keyring.read(JSON.stringify({ b: envelope }), "t/1")).toThrow("stands elsewhere");
    const renamed = { $sealed: envelope.$sealed.with(1, "t/2/a") };
    expect(() => keyring.read(JSON.stringify({ a: renamed }), "t/2")).toThrow("it was changed");
    const rekeyed = { $sealed: envelope.$sealed.with(0, other[0]) };
    expect(() => keyring.read(JSON.stringify({ a: rekeyed }), "t/1")).toThrow("it was changed");
  });

  it("a value of a user that looks like an envelope comes out as it went in", async () => {
    const keyring = await open();
    const forged = { $sealed: [1, "t/1", "o", "AAAA"], __proto__: null };
    const text = JSON.stringify((await keyring.sealer(TENANT)).seal({ inner: forged }, "t/1"));
    expect(keyring.read(text, "t/1")).toEqual({ inner: { $sealed: [1, "t/1", "o", "AAAA"] } });
  });
});
