// The setting of the signing secrets: what each of its two forms gives a service, and that a malformed one stops the start without showing a
// secret. What is signed with them, and who refuses what, is in sdk/signed-calls.test.ts.
import { describe, expect, it } from "vitest";
import { misfit } from "../../machines/index.js";
import { ConfigError } from "../../src/config/index.js";
import { readSecrets } from "../../src/egress/secrets.js";
import { isReceiver, readSigning } from "../../src/egress/signing.js";

const ONE = "0123456789abcdef0123456789abcdef";
/** openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt key:$ONE -kdfopt info:saga/signing/v1/payments -binary HKDF | base64 */
const OF_PAYMENTS = "whsec_08wGjDv/rngkIvgt0JPeMiSIcxf+r01+/U2hXgX3BGM=";
const OF_WEBHOOKS = "whsec_PqA0EbMF/kBma4UYDt1lmScHNE0YRXO/eGll1/ROlos=";

function problemsOf(setting: string): readonly string[] {
  try {
    readSigning(setting);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe("one signing secret", () => {
  it("is used for nothing itself: each receiver has its own, derived by HKDF as OpenSSL does it", () => {
    const signing = readSigning(ONE);
    expect(signing.of("payments")).toEqual([OF_PAYMENTS]);
    expect(signing.of("@webhook")).toEqual([OF_WEBHOOKS]);
    expect(signing.of("payments")).toEqual([OF_PAYMENTS]);
    expect(signing.of("other")).not.toEqual([OF_PAYMENTS]);
    expect([signing.gap("payments"), signing.gap("@webhook")]).toEqual([undefined, undefined]);
  });

  it("with whsec_ stands for the bytes of its Base64", () => {
    expect(readSigning(`whsec_${Buffer.from(ONE).toString("base64")}`).of("payments")).toEqual([OF_PAYMENTS]);
  });

  it("has one for each of any number of services, and hides those of the first thousand", () => {
    const hidden = new Set<string>();
    const signing = readSigning(ONE, (secrets) => {
      for (const secret of secrets) hidden.add(secret);
    });
    const all = Array.from({ length: 1_500 }, (_, nth) => signing.of(`s-${nth}`)[0]);
    expect(new Set(all).size).toBe(1_500);
    expect(signing.of("s-1499")).toEqual([all[1_499]]);
    // That of the setting, those of 999 services, and that of webhooks.
    expect(hidden.size).toBe(1_001);
    expect([hidden.has(ONE), hidden.has(OF_WEBHOOKS), hidden.has(all[0] ?? "")]).toEqual([true, true, true]);
  });

  it("that a worker could find by trying stops the start", () => {
    expect(problemsOf(ONE.slice(1))).toEqual([
      "SAGA_SIGNING_SECRET must have at least 32 characters: the secrets of all services are derived from it",
    ]);
  });
});

describe("a map of signing secrets", () => {
  const signing = readSigning('\n{"payments": "s3cr3t", "labels": ["whsec_bmV3", "old"], "__proto__": "x"}\n');

  it("has those of each service as they are, the newest first", () => {
    expect(signing.of("payments")).toEqual(["s3cr3t"]);
    expect(signing.of("labels")).toEqual(["whsec_bmV3", "old"]);
    expect([signing.of("__proto__"), signing.of("toString"), signing.of("other")]).toEqual([["x"], [], []]);
  });

  it("warns once of each service without an entry, and of webhooks at the start", () => {
    const warned: string[] = [];
    const log = { warn: (text: string) => void warned.push(text) };
    for (const service of ["payments", "other", "labels", "other", "third"]) signing.warnOfGap(service, log as never);
    expect(warned).toEqual([
      "SAGA_SIGNING_SECRET has no entry for the service other: calls of its HTTP workers are not signed",
      "SAGA_SIGNING_SECRET has no entry for the service third: calls of its HTTP workers are not signed",
    ]);
    const { warnings } = readSecrets({ signingSecret: '{"payments": "s3cr3t"}' });
    expect(warnings).toEqual([
      "SAGA_SIGNING_SECRET has no entry for @webhook: webhooks that name no secret are not signed",
    ]);
    expect(readSecrets({ signingSecret: '{"@webhook": "s3cr3t"}' }).warnings).toEqual([]);
  });

  it("warns of no more services than a bound, and of none where nothing is signed", () => {
    let warned = 0;
    const log = { warn: () => void warned++ };
    for (let nth = 0; nth < 1_500; nth++) readSigning(undefined).warnOfGap(`s-${nth}`, log as never);
    expect(warned).toBe(0);
    const map = readSigning("{}");
    for (let nth = 0; nth < 1_500; nth++) map.warnOfGap(`s-${nth}`, log as never);
    expect(warned).toBe(1_000);
  });
});

describe("a malformed signing setting", () => {
  const NAME = "SAGA_SIGNING_SECRET";
  const ENTRY = "must be a secret, or a list of the new and the old one";

  it.each([
    ["Base64 that is none", "whsec_s3cr3t!".padEnd(40, "!"), [`${NAME} must have Base64 after whsec_`]],
    ["no Base64", "whsec_", [`${NAME} must have Base64 after whsec_`]],
    ["what begins as JSON", '{"a": "s3cr3t"', [`${NAME} begins as JSON does, and is not JSON`]],
    ["a list", '["s3cr3t", "s3cr3t"]', [`${NAME} must be one secret, or a JSON object of secrets by service`]],
    ["a number as a secret", '{"a": 7}', [`${NAME}: a: ${ENTRY}`]],
    ["three secrets", '{"a": ["s3cr3t", "s3cr3t", "s3cr3t"]}', [`${NAME}: a: ${ENTRY}`]],
    ["no secrets", '{"a": []}', [`${NAME}: a: ${ENTRY}`]],
    ["an object", '{"a": {"value": "s3cr3t"}}', [`${NAME}: a: ${ENTRY}`]],
    ["an empty secret", '{"a": ["s3cr3t", ""]}', [`${NAME}: a: must not be empty`]],
    ["Base64 that is none in an entry", '{"a": "whsec_s3cr3t"}', [`${NAME}: a: must have Base64 after whsec_`]],
    [
      "a name that is none, and another problem",
      '{"s3cr3t/+=": "a", "b": null}',
      [`${NAME}: the name of entry 1 must be that of a service, or @webhook`, `${NAME}: b: ${ENTRY}`],
    ],
    ["an unknown @", '{"@event": "s3cr3t"}', [`${NAME}: the name of entry 1 must be that of a service, or @webhook`]],
  ])("(%s) stops the start, and is not shown", (_, setting, expected) => {
    const found = problemsOf(setting);
    expect(found).toEqual(expected);
    expect(found.join()).not.toContain("s3cr3t");
  });
});

describe("the name of a receiver", () => {
  it("is that of a service that could register, or @webhook", () => {
    const service = new RegExp(misfit.NEW_ID_PATTERN);
    for (const name of ["a", "a.b:c-d_E9", ".", "..", "...", "a/b", "", "@webhook", "@", "ä", "a b", "x".repeat(129)])
      expect([name, isReceiver(name)]).toEqual([name, name === "@webhook" || service.test(name)]);
  });
});

describe("a response that contains a signing secret", () => {
  const masked = (mask: ReturnType<typeof readSecrets>["mask"], text: string) =>
    mask.bytes(Buffer.from(text)).toString();

  it("comes to the run without it: that of the setting, and each that was derived of it", () => {
    const { mask, signing } = readSecrets({ signingSecret: ONE });
    expect(masked(mask, `a ${ONE} b ${OF_WEBHOOKS} c`)).toBe("a [secret] b [secret] c");
    signing.of("payments");
    expect(masked(mask, `a ${OF_PAYMENTS} b`)).toBe("a [secret] b");
    expect(mask.json({ [OF_PAYMENTS]: [OF_PAYMENTS] })).toEqual({ "[secret]": ["[secret]"] });
    const map = readSecrets({ signingSecret: '{"a": ["new-s3cr3t", "old-s3cr3t"]}' });
    expect(masked(map.mask, "new-s3cr3t, old-s3cr3t")).toBe("[secret], [secret]");
  });
});
