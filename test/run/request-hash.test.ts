// The hash of a request is stored beside its key: a release that hashed in another way would take repeats for other requests.
import { hash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { requestHash } from "../../src/ids.js";

/** All members sorted, then written in the order in which an object has them. */
function hashedPlainly(body: unknown): string {
  const sorted = (_: string, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([left], [right]) => (left < right ? -1 : 1)))
      : member;
  return hash("sha256", JSON.stringify(body, sorted), "base64url");
}

describe("the hash of a request", () => {
  it("is that of all members sorted, as it has always been", () => {
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
        expect(requestHash(body)).toBe(hashedPlainly(body));
      }),
      { numRuns: 500 },
    );
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
