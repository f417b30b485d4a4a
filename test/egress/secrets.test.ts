// The secrets file: what an entry means, and that a broken one stops the start without a word of what is in it.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ConfigError } from "../../src/config/index.js";
import { readSecrets } from "../../src/egress/secrets.js";

const folder = mkdtempSync(join(tmpdir(), "saga-secrets-"));
const secretsFile = join(folder, "secrets.json");
afterAll(() => rmSync(folder, { recursive: true }));

function read(text: string) {
  writeFileSync(secretsFile, text);
  return readSecrets({ secretsFile });
}

function problems(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

it("text is a bearer token; an object is a header's whole value", () => {
  const secrets = read('{"a": "one", "b": {"value": "Basic eA=="}, "c": {"header": "X-Api-Key", "value": "two"}}');
  expect(secrets.get("a")).toEqual({ header: "authorization", line: "Bearer one", value: "one" });
  expect(secrets.get("b")).toEqual({ header: "authorization", line: "Basic eA==", value: "Basic eA==" });
  expect(secrets.get("c")).toEqual({ header: "x-api-key", line: "two", value: "two" });
  expect([secrets.get("d"), secrets.get("__proto__"), secrets.get("toString")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

it("without a file there are none; the signing secret stands beside them", () => {
  expect(readSecrets({}).get("a")).toBeUndefined();
  expect(readSecrets({}).signing).toBeUndefined();
  expect(readSecrets({ signingSecret: "whsec_c2VjcmV0" }).signing).toBe("whsec_c2VjcmV0");
});

it.each([
  ["not JSON", "{s3cr3t", ["is not JSON"]],
  ["no object", '["s3cr3t"]', ["must be an object of secrets by name"]],
  ["no text", '{"a": 7}', ["a: its value must be one line of text"]],
  ["empty", '{"a": ""}', ["a: its value must be one line of text"]],
  ["two lines", '{"a": "s3cr3t\\nx"}', ["a: its value must be one line of text"]],
  [
    "a header that is none",
    '{"a": {"header": "x y", "value": "s3cr3t"}}',
    ["a: its header must be the name of a header that can hold a secret"],
  ],
  [
    "a header of ours",
    '{"a": {"header": "Host", "value": "s3cr3t"}}',
    ["a: its header must be the name of a header that can hold a secret"],
  ],
  ["more than is known", '{"a": {"value": "s3cr3t", "hosts": []}}', ["a: has members other than header and value"]],
  ["a signing key that is none", '{"a": "whsec_s3cr3t!"}', ["a: whsec_ must be followed by Base64"]],
  [
    "several",
    '{"a": 7, "b": null}',
    ["a: its value must be one line of text", "b: its value must be one line of text"],
  ],
])("%s stops the start", (_, text, expected) => {
  const found = problems(() => read(text));
  expect(found).toEqual(expected.map((problem) => `${secretsFile}: ${problem}`));
  expect(found.join()).not.toContain("s3cr3t");
});

it("a file that cannot be read, and a signing secret that is none, stop it too", () => {
  const missing = join(folder, "missing.json");
  expect(problems(() => readSecrets({ secretsFile: missing }))).toEqual([`${missing}: cannot be read (ENOENT)`]);
  expect(problems(() => readSecrets({ signingSecret: "whsec_" }))).toEqual([
    "SAGA_SIGNING_SECRET must have Base64 after whsec_",
  ]);
});
