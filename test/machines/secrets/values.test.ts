// Marks of secret values: in values and in JSON text alike, nothing of a secret is left behind a mask, and nothing else changes.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  holdsSecret,
  inPlaceOf,
  type Json,
  type JsonObject,
  MASK,
  masked,
  maskedText,
  revealed,
  revealedText,
  secret,
  spread,
  withoutSecrets,
} from "../../../machines/index.js";

const leaf = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom('{"$secret":1}', '"$secret"', "}{", '\\"', MASK, "$enc"),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => (value === 0 ? 0 : value)),
  fc.boolean(),
  fc.constant(null),
);
const { value } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    leaf,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.oneof(fc.string({ maxLength: 6 }), fc.constantFrom("$secret", "$enc")), tie("value"), {
      maxKeys: 4,
    }),
    tie("value").map((inner) => secret(inner)),
    fc
      .dictionary(fc.string({ maxLength: 4 }), leaf, { maxKeys: 2 })
      .map((inner): Json => ({ $enc: inner as JsonObject })),
  ),
}));

describe("secret values", () => {
  it("a text of JSON is masked and revealed as its value is", () => {
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 2), (given, space) => {
        const text = JSON.stringify(given, null, space);
        expect(JSON.parse(maskedText(text))).toEqual(JSON.parse(JSON.stringify(masked(given))));
        expect(JSON.parse(revealedText(text))).toEqual(JSON.parse(JSON.stringify(revealed(given))));
      }),
      { numRuns: 2_000 },
    );
  });

  it("what has no mark is the same object, masked or revealed", () => {
    const plain = { a: [1, { b: "$secret" }], $secret: 1, more: null };
    expect(masked(plain)).toBe(plain);
    expect(revealed(plain)).toBe(plain);
    expect(maskedText(JSON.stringify(plain))).toBe(JSON.stringify(plain));
  });

  it("a mask shows neither the kind nor the length, and every kind is hidden", () => {
    const all = {
      text: "canary",
      number: 42.5,
      yes: true,
      none: null,
      list: [1, 2],
      object: { inner: "canary" },
      empty: "",
    };
    const hidden = Object.fromEntries(Object.entries(all).map(([name, one]) => [name, secret(one as Json)]));
    expect(masked(hidden)).toEqual(Object.fromEntries(Object.keys(all).map((name) => [name, MASK])));
    expect(revealed(hidden)).toEqual(all);
    expect(masked([{ $enc: { k: "1" } }, { $enc: "no object" }])).toEqual([MASK, { $enc: "no object" }]);
    expect(revealed({ $enc: { k: "1" } })).toEqual({ $enc: { k: "1" } });
  });

  it("a secret list or object is spread as secret items or members", () => {
    expect(spread(secret([1, 2]))).toEqual([secret(1), secret(2)]);
    expect(spread(secret({ a: 1 }))).toEqual({ a: secret(1) });
    expect(spread([1])).toEqual([1]);
    expect(spread(secret("x"))).toEqual(secret("x"));
  });

  it("an error loses the secret texts and numbers that it repeats, whole and quoted, and no short ones", () => {
    const given = {
      key: secret('sk-"live"-1'),
      pin: secret(987654),
      short: secret("abc"),
      deep: [{ at: secret({ of: "canary" }) }],
    };
    expect(withoutSecrets('denied: sk-"live"-1, "sk-\\"live\\"-1", 987654, abc, canary!', given)).toBe(
      `denied: ${MASK}, "${MASK}", ${MASK}, abc, ${MASK}!`,
    );
    expect(withoutSecrets("nothing", { plain: "nothing" })).toBe("nothing");
  });

  it("a mask in the place of a secret is that secret, and what replaces a secret is secret", () => {
    const original = { card: secret("4111"), note: "n", list: [secret("a"), "b"] };
    expect(inPlaceOf({ card: MASK, note: "m", list: [MASK, MASK] }, original)).toEqual({
      ...{ card: secret("4111"), note: "m", list: [secret("a"), MASK] },
    });
    expect(inPlaceOf({ card: "4222", more: 1 }, original)).toEqual({ card: secret("4222"), more: 1 });
    expect(inPlaceOf({ list: ["a", "b", "c"] }, original)).toEqual({ list: secret(["a", "b", "c"]) });
    expect(inPlaceOf("other", original)).toEqual(secret("other"));
    expect(inPlaceOf(MASK, "plain")).toBe(MASK);
    expect(holdsSecret(inPlaceOf({ note: "m" }, { note: "n" }))).toBe(false);
  });
});
