// What a node says in its log before it begins: the warnings about its secrets.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { openFoundations } from "../../src/cluster/foundations.js";
import { ConfigError, loadConfig } from "../../src/config/index.js";
import { createLogger } from "../../src/log.js";
import { createTestDatabase } from "../harness/database.js";

/** The warnings of a start with this secrets file. */
async function warningsWith(secrets: string, mode = 0o600): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "saga-foundations-"));
  const database = await createTestDatabase();
  const lines: string[] = [];
  const into = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  try {
    const secretsFile = join(folder, "secrets.json");
    writeFileSync(secretsFile, secrets);
    chmodSync(secretsFile, mode);
    const { config } = loadConfig({ DATABASE_URL: database.url, SAGA_SECRETS_FILE: secretsFile });
    const log = createLogger({ logLevel: "info" }, into);
    const foundations = await openFoundations({ config, databaseUrl: database.url, log });
    foundations.catalog.stop();
    await foundations.feed.stop();
    await foundations.closeDatabase();
  } finally {
    await database.drop();
    rmSync(folder, { recursive: true });
  }
  return lines.map((line) => JSON.parse(line)).flatMap(({ level, msg }) => (level === "warn" ? [msg] : []));
}

describe("a node that starts with secrets", () => {
  it("warns in its log about each that has no hosts, by its name and without its value", async () => {
    const bound = { value: "hunter1-of-api.example", hosts: ["api.example"] };
    const warnings = await warningsWith(
      JSON.stringify({ bare: "hunter2-of-everyone", object: { value: "hunter3-of-everyone" }, bound }),
    );
    expect(warnings).toEqual([
      expect.stringMatching(/^the secret bare has no hosts: every workflow can send it anywhere/),
      expect.stringMatching(/^the secret object has no hosts/),
    ]);
    expect(warnings.join()).not.toContain("hunter");
  });

  it("does not start with a file that others can read", async () => {
    await expect(warningsWith("{}", 0o644)).rejects.toThrow(ConfigError);
  });
});
