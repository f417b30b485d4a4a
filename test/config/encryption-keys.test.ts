// The file of master keys is read strictly, and what is wrong with it is said without a byte of a key.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type ConfigError, loadConfig } from "../../src/config/index.js";

const folder = mkdtempSync(join(tmpdir(), "saga-keys-"));
const key = Buffer.alloc(32, 7).toString("base64");
let nth = 0;

function problemOf(content: unknown, mode = 0o600): string {
  const file = join(folder, `${nth++}.json`);
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  chmodSync(file, mode);
  try {
    loadConfig({ SAGA_ENCRYPTION_KEYS_FILE: file });
    return "";
  } catch (error) {
    return (error as ConfigError).problems.join("; ");
  }
}

describe("SAGA_ENCRYPTION_KEYS_FILE", () => {
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("takes a file with its keys, and says of any other what is wrong", () => {
    expect(problemOf({ current: "a", keys: [{ id: "a", key }] })).toBe("");
    const wrong: readonly (readonly [unknown, string])[] = [
      ["{", "has no JSON object"],
      [[], "has no JSON object"],
      [{ current: "a" }, "without a list of keys"],
      [{ current: "a", keys: [] }, "without a list of keys"],
      [{ current: "b", keys: [{ id: "a", key }] }, "the id of one of its keys"],
      [{ current: "a", keys: [{ id: "a", key: key.slice(1) }] }, "not 32 bytes in Base64, at keys[0]"],
      [{ current: "a", keys: [{ id: "a", key: 7 }] }, "not 32 bytes in Base64, at keys[0]"],
      [{ current: "a", keys: [{ id: "ä", key }] }, "a key without an id"],
      [{ current: "a", keys: [{ id: "a", key, more: 1 }] }, "not known: more, at keys[0]"],
      [{ current: "a", keys: [{ id: "a", key }], more: 1 }, "not known: more"],
      [
        {
          current: "a",
          keys: [
            { id: "a", key },
            { id: "b", key },
          ],
        },
        "one key under two ids",
      ],
      [
        {
          current: "a",
          keys: [
            { id: "a", key },
            { id: "a", key: Buffer.alloc(32, 8).toString("base64") },
          ],
        },
        "two keys with the id a",
      ],
    ];
    for (const [content, sentence] of wrong) {
      const problem = problemOf(content);
      expect(problem).toContain(sentence);
      expect(problem).not.toContain(key.slice(0, 20));
    }
  });

  it("refuses a file that others can read, and one that is not there", () => {
    expect(problemOf({ current: "a", keys: [{ id: "a", key }] }, 0o644)).toContain("other users of this machine");
    expect(() => loadConfig({ SAGA_ENCRYPTION_KEYS_FILE: join(folder, "absent") })).toThrow("cannot be read (ENOENT)");
  });
});
