// The hash of a request is stored beside its key: a release that hashed in another way would take repeats for other requests.
import { hash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { requestHash, requestHashes } from "../../src/run/request-hash.js";

/** As release 0.6 hashed: all members sorted, then written in the order in which an object has them. */
function hashedBefore(body: unknown): string {
  const sorted = (_: string, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member;
  return hash("sha256", JSON.stringify(body, sorted), "base64url");
}

describe("the hash of a request", () => {
  it("is what it was in earlier releases", () => {
    const name = fc.oneof(
      fc.string(),
      fc.string({ unit: "binary" }),
      fc.nat().map(String),
      fc.constantFrom(
        "0",
        "01",
        "-1",
        "1.5",
        "4294967294",
        "4294967295",
        "4294967296",
        "10",
        "9",
        "__proto__",
        "é",
        "🎉",
      ),
    );
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.oneof(fc.string(), fc.double(), fc.boolean(), fc.constantFrom(null, undefined)),
        fc.array(tie("value"), { maxLength: 6 }),
        fc.dictionary(name, tie("value"), { maxKeys: 8 }),
      ),
    }));
    fc.assert(
      fc.property(fc.record({ inputs: value, key: value }), (body) => {
        expect(requestHash(body)).toBe(hashedBefore(body));
      }),
      { numRuns: 500 },
    );
  });

  it("is made once of a request without spelled-out defaults, and twice of one with", () => {
    let reads = 0;
    const get = (target: object, name: string | symbol) => {
      if (name === "large") reads++;
      return Reflect.get(target, name);
    };
    const inputs = new Proxy({ large: 1 }, { get });
    expect(requestHashes({ inputs, entrypoint: undefined }, { inputs })).not.toHaveProperty("earlier");
    expect(reads).toBe(1);
    const { hash: normal, earlier } = requestHashes({ inputs }, { inputs, entrypoint: "default" });
    expect([normal, earlier]).toEqual([requestHash({ inputs }), requestHash({ inputs, entrypoint: "default" })]);
  });

  it("reads each member once", () => {
    let reads = 0;
    const get = (target: object, name: string | symbol) => {
      reads++;
      return Reflect.get(target, name);
    };
    const members = Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`k${n}`, n]));
    requestHash({ inputs: new Proxy(members, { get }) });
    expect(reads).toBe(10_000);
  });
});
