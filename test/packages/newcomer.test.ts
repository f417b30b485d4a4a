// @module-tag long
// The first hour: what docs/getting-started.md says, with the packed packages in an empty folder. Each command of that page is run here, in its order, and its time is printed.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { processesIn } from "../cli/dev/rig.js";
import { until } from "../harness/until.js";
import { packAll, ROOT, run, temporaryFolder } from "./project.js";

const home = temporaryFolder();
/** An empty folder for each try, beside the clone of the page. */
const emptyFolder = () => mkdtempSync(join(home, "begin-"));
const times: string[] = [];

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const since = performance.now();
  const result = await work();
  times.push(`${((performance.now() - since) / 1_000).toFixed(1)} s  ${what}`);
  return result;
}

/** Where the page has the tarballs. */
const PACKED = "../saga-orchestrator/dist/packages";

/** The commands of the page, in its order. */
const COMMANDS = [
  ...readFileSync(join(ROOT, "docs", "getting-started.md"), "utf8").matchAll(/^```sh\n([\s\S]*?)^```$/gm),
]
  .flatMap(([, block = ""]) => block.split("\n"))
  .filter((line) => line !== "");

beforeAll(async () => {
  const [tarball = ""] = (await packAll(home)).values();
  mkdirSync(join(home, "saga-orchestrator", "dist"), { recursive: true });
  symlinkSync(dirname(tarball), join(home, "saga-orchestrator", "dist", "packages"));
}, 400_000);
afterAll(() => {
  console.log(`the first hour, on this machine:\n  ${times.join("\n  ")}`);
  rmSync(home, { recursive: true, force: true });
});

describe("a newcomer", () => {
  it("goes from an empty folder to a saga that runs, is undone, is tested and is changed", {
    timeout: 400_000,
  }, async () => {
    expect(COMMANDS).toEqual([
      `npm exec --package=${PACKED}/saga-orchestrator-create-0.6.0.tgz -- create-saga-orchestrator shop --packages ${PACKED}`,
      "cd shop",
      "npm install",
      "npm run dev",
      "npm run start-one",
      "npm run start-one -- 950",
      "npm test",
      "npm run check",
      "npx --no-install saga dev",
    ]);
    const [create = "", , install = ""] = COMMANDS;
    const begin = emptyFolder();
    const shop = join(begin, "shop");
    expect(await timed("create-saga-orchestrator shop", () => typed(begin, create))).toContain(
      "Wrote the project shop:",
    );
    await timed("npm install", () => typed(shop, install));
    const dev = new Terminal(shop, "npx --no-install saga dev");
    onTestFinished(async () => void (await dev.interrupt()));
    await timed("saga dev, to the banner", () => dev.says("Ctrl-C stops everything"));
    // Another program, perhaps another test, may have the usual port. The banner ends with this export then.
    const [, port = "8080"] = dev.said(/the service is at (\d+)/) ?? [];
    const script = (text: string) => run(shop, "sh", "-c", `export SAGA_URL=http://127.0.0.1:${port}; npm run ${text}`);
    const paid = await timed("npm run start-one", () => script("start-one"));
    expect(paid).toMatch(/result \{\s+reservation: 'R-1',\s+receipt: 'paid 9\.50, .*'\s+\}/);
    const declined = await script("start-one -- 950").catch((error: Error) => error.message);
    expect(declined).toContain("failed at charge with card_declined");
    await dev.says("released R-2");
    expect(await timed("npm test", () => script("test"))).toMatch(/# pass 2/);
    await timed("npm run check", () => script("check"));

    const path = join(shop, "workflows", "order.ts");
    writeFileSync(
      path,
      readFileSync(path, "utf8").replace("receipt: steps.charge.receipt", "paid: steps.charge.receipt"),
    );
    await timed("a changed saga, to its new version", () => dev.says("order: version 2 is published"));
    expect(await script("start-one")).toContain("paid: 'paid 9.50,");
    writeFileSync(path, readFileSync(path, "utf8").replace("steps.charge.receipt", "steps.chrage.receipt"));
    await expect(script("check")).rejects.toThrow(/chrage/);

    const code = await timed("Ctrl-C", () => dev.interrupt());
    // npx gets the Ctrl-C, too, and may answer with it.
    expect([0, 130]).toContain(code);
    await until(() => processesIn(shop).length === 0, { within: 10_000, what: "the end of every process" });
    expect(existsSync(join(shop, ".saga", "dev.json"))).toBe(false);
  });
});

/** A command of the page. npm asks before it runs a package, and asks the registry only for what it does not have. */
const typed = (folder: string, command: string) =>
  run(folder, "sh", "-c", `export npm_config_yes=true npm_config_prefer_offline=true; ${command}`);

/** A pseudo-terminal: `script`, of util-linux. */
class Terminal {
  private text = "";
  private readonly child;
  private readonly ended: Promise<number | null>;

  constructor(folder: string, command: string) {
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, TERM: "xterm", SHELL: "/bin/sh" };
    this.child = spawn("script", ["-qefc", `stty cols 400; ${command}`, "/dev/null"], {
      cwd: folder,
      env,
      stdio: "pipe",
    });
    this.child.stdout.on("data", (chunk: Buffer) => {
      this.text += stripVTControlCharacters(chunk.toString());
    });
    this.ended = new Promise((done) => this.child.once("close", done));
  }

  async says(text: string): Promise<void> {
    await until(() => this.text.includes(text), { within: 90_000, what: text }).catch((error: Error) => {
      throw new Error(`${error.message}\n${this.text}`);
    });
  }

  said(what: RegExp): RegExpExecArray | null {
    return what.exec(this.text);
  }

  /** As Ctrl-C. Resolves with the exit code. */
  interrupt(): Promise<number | null> {
    if (this.child.exitCode === null) this.child.stdin.write("\x03");
    return this.ended;
  }
}
