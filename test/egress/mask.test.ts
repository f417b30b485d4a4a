// Masking: wherever a response contains a secret, its run does not get it.
import { describe, expect, it } from "vitest";
import { Mask } from "../../src/egress/mask.js";

const mask = new Mask([
  "tok3n/with+chars",
  "Basic dXNlcjpwYXNzd29y",
  "tok3n",
  "schlüssel",
  "a-long-prefix of-15-character",
]);

describe("a mask", () => {
  it("hides a secret in texts, names and nested values", () => {
    const echo = {
      status: 200,
      headers: { "x-echo": "Bearer tok3n/with+chars" },
      body: [{ tok3n: "a tok3n b tok3n" }, 7, null, true],
    };
    expect(mask.json(echo)).toEqual({
      status: 200,
      headers: { "x-echo": "Bearer [secret]" },
      body: [{ "[secret]": "a [secret] b [secret]" }, 7, null, true],
    });
  });

  it("hides the credentials of a header without their scheme", () => {
    expect(mask.json(["Basic dXNlcjpwYXNzd29y", "token=dXNlcjpwYXNzd29y"])).toEqual(["[secret]", "token=[secret]"]);
  });

  it("does not hide a part of a secret that is short enough to be guessed", () => {
    expect(mask.json(["a-long-prefix of-15-character", "of-15-character"])).toEqual(["[secret]", "of-15-character"]);
  });

  it("hides the longest of two that begin alike", () => {
    expect(mask.json("tok3n/with+chars")).toBe("[secret]");
  });

  it("hides it in bytes that are no text", () => {
    const bytes = Buffer.concat([Buffer.from([0xff, 0x00]), Buffer.from("schlüssel"), Buffer.from([0xfe])]);
    expect(mask.bytes(bytes)).toEqual(
      Buffer.concat([Buffer.from([0xff, 0x00]), Buffer.from("[secret]"), Buffer.from([0xfe])]),
    );
  });

  it("leaves what contains none as it is, the same object", () => {
    const value = { a: ["x"], b: { c: 1 } };
    expect(mask.json(value)).toBe(value);
    const bytes = Buffer.from("nothing");
    expect(mask.bytes(bytes)).toBe(bytes);
    expect(new Mask([]).json(value)).toBe(value);
  });

  it("takes a secret's characters as they are", () => {
    expect(new Mask(["a.b*c"]).json(["a.b*c", "axbbc"])).toEqual(["[secret]", "axbbc"]);
  });
});
