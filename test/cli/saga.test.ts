// The command `saga`: what it prints where, and with which exit code. As a process it is run from the build, like the service; where nothing depends on
// that, in the process of the test.
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { inProcess } from "./rig.js";

const ROOT = resolve(import.meta.dirname, "../..");
const { bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { bin: { saga: string } };
const MAIN = join(ROOT, bin.saga);

const ONE = "0123456789abcdef0123456789abcdef";
const MAP = JSON.stringify({ payments: "s3cr3t of payments", labels: ["s3cr3t, the new one", "s3cr3t, the old one"] });
const folder = mkdtempSync(join(tmpdir(), "saga-cli-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** With these settings and no others. */
function saga(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, [MAIN, ...args], { env }, (error, stdout, stderr) =>
      done({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

const secretOf = (service: string, setting?: string) =>
  inProcess(["signing-secret", service], setting === undefined ? {} : { SAGA_SIGNING_SECRET: setting });
const printed = (text: string): Ended => ({ code: 0, stdout: `${text}\n`, stderr: "" });
const failed = (sentence: string): Ended => ({ code: 2, stdout: "", stderr: `saga: ${sentence}\n` });

describe("saga signing-secret", () => {
  it.each([
    ["the derived one of a service", "payments", ONE, "whsec_08wGjDv/rngkIvgt0JPeMiSIcxf+r01+/U2hXgX3BGM="],
    ["the derived one of webhooks", "@webhook", ONE, "whsec_PqA0EbMF/kBma4UYDt1lmScHNE0YRXO/eGll1/ROlos="],
    ["the entry of a service", "payments", MAP, "s3cr3t of payments"],
    ["the new one of two", "labels", MAP, "s3cr3t, the new one"],
  ])("prints %s alone", async (_, service, setting, secret) => {
    expect(await secretOf(service, setting)).toEqual(printed(secret));
  });

  it("reads the setting from a file, as the service does", async () => {
    const path = join(folder, "secret");
    writeFileSync(path, `${ONE}\n`);
    expect(await saga(["signing-secret", "payments"], { SAGA_SIGNING_SECRET_FILE: path })).toEqual(
      printed("whsec_08wGjDv/rngkIvgt0JPeMiSIcxf+r01+/U2hXgX3BGM="),
    );
    const none = { SAGA_SIGNING_SECRET_FILE: join(folder, "none") };
    expect(await saga(["signing-secret", "payments"], none)).toEqual(
      failed("SAGA_SIGNING_SECRET_FILE names a file that cannot be read (ENOENT)"),
    );
  });

  it.each([
    ["the setting is missing", "payments", undefined, "SAGA_SIGNING_SECRET is not set"],
    ["there is no entry", "other", MAP, "SAGA_SIGNING_SECRET has no entry for other"],
    [
      "the setting is malformed",
      "a",
      '{"a": 1, "b": ""}',
      /^SAGA_SIGNING_SECRET: a: must be .*; .*: b: must not be empty$/,
    ],
    ["the name is none", "a/b", ONE, '"a/b" is not the name of a service, nor @webhook'],
  ])("says in one sentence that %s, and shows no secret", async (_, service, setting, sentence) => {
    const ended = await secretOf(service, setting);
    expect([ended.code, ended.stdout]).toEqual([2, ""]);
    const text = /^saga: (.*)\n$/.exec(ended.stderr)?.[1] ?? ended.stderr;
    if (typeof sentence === "string") expect(text).toBe(sentence);
    else expect(text).toMatch(sentence);
    expect(text).not.toContain("s3cr3t");
  });

  it("needs one service", async () => {
    for (const args of [[], ["a", "b"]])
      expect(await inProcess(["signing-secret", ...args], {})).toEqual(
        failed("signing-secret needs the name of one service"),
      );
  });
});

describe("saga", () => {
  it("has a help with every command, and one for each", async () => {
    const help = await saga(["--help"]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toMatch(/^ {2}signing-secret <service> {2,}\S/m);
    expect(await saga(["signing-secret", "-h"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Usage: saga signing-secret <service>\n"),
    });
  });

  it("says that a command is missing or unknown", async () => {
    expect(await saga([])).toEqual(failed("a command is missing: see saga --help"));
    expect(await saga(["signing"])).toEqual(failed('there is no command "signing": see saga --help'));
  });

  it("loads neither the machine nor a driver", () => {
    const loaded = new Set<string>();
    const load = (file: string): string => {
      if (loaded.has(file)) return "";
      loaded.add(file);
      const text = readFileSync(file, "utf8");
      const others = [...text.matchAll(/(?:from|import)\s*"(\.[^"]+)"/g)].map(([, path = ""]) => path);
      return text + others.map((path) => load(join(dirname(file), path))).join("");
    };
    expect(readdirSync(dirname(MAIN))).toContain("main.js");
    const text = load(MAIN);
    expect(text).toContain("saga/signing/v1/");
    expect([text.length < 200_000, /CONNECTION_CLOSED|createMachine|fastify/.test(text)]).toEqual([true, false]);
  });
});
