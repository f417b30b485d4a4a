// The README is true: its commands run, block after block, against the service that its own `npm start` starts, and the worker
// that it shows is the file that it names.
// @module-tag both
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { freePorts } from "../harness/ports.js";
import { until } from "../harness/until.js";

const ROOT = resolve(import.meta.dirname, "../..");
const README = readFileSync(join(ROOT, "README.md"), "utf8");
const DEFAULT_URL = "http://127.0.0.1:8080";

/** How a block is run: by CI, as a process of its own (`service`, `worker`), or in one shell with the others (`shell`). */
const blocks = [...README.matchAll(/(?:<!-- run: (\w+) -->\n\n)?```sh\n([\s\S]*?)```/g)].map(
  ([, runner, text = ""]) => ({
    runner,
    text,
  }),
);
const textsOf = (runner: string) => blocks.filter((block) => block.runner === runner).map(({ text }) => text);

const dataDir = mkdtempSync(join(tmpdir(), "saga-readme-"));
const started: ChildProcess[] = [];

interface Running {
  output(): string;
  /** Undefined: still running; -1: ended by a signal. */
  code(): number | undefined;
}

/** A process group of its own, as a terminal would give it. */
function run(script: string, env: Record<string, string>): Running {
  const child = spawn("bash", ["-euo", "pipefail", "-c", script], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  started.push(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (data) => (output += data));
  let ended: number | undefined;
  child.once("close", (code) => {
    ended = code ?? -1;
  });
  return { output: () => output, code: () => ended };
}

function signal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, name);
  } catch {
    // The group is gone.
  }
}

const isGone = (child: ChildProcess) => child.exitCode !== null || child.signalCode !== null;

afterAll(async () => {
  // The worker first, then the service, which stops its embedded Postgres.
  for (const child of started.toReversed()) {
    signal(child, "SIGTERM");
    await until(() => isGone(child), { what: "the orderly end" }).catch(() => signal(child, "SIGKILL"));
  }
  await until(() => !existsSync(join(dataDir, "postgres", "postmaster.pid")), { what: "the end of its Postgres" });
  rmSync(dataDir, { recursive: true, force: true });
});

describe("README", () => {
  it("marks every command with its runner", () => {
    expect(blocks.filter(({ runner }) => !["ci", "service", "worker", "shell"].includes(runner ?? ""))).toEqual([]);
    expect(textsOf("shell").length).toBeGreaterThan(0);
  });

  it("begins with two commands", () => {
    expect(textsOf("ci")).toEqual(["npm ci && npm run demo\n", "npm ci && npm test\n"]);
  });

  it("shows the worker of the quick start", () => {
    const worker = readFileSync(join(ROOT, "examples/quick-start/worker.ts"), "utf8");
    expect(README).toContain(`\`\`\`ts\n${worker}\`\`\``);
  });

  it("waits for a run by asking the service, and in no loop of the shell", () => {
    expect(blocks.filter(({ text }) => /\b(?:until|while|sleep|watch)\b/.test(text))).toEqual([]);
    expect(textsOf("shell").join("\n")).toContain("?wait_ms=");
  });

  it("has commands that work, on a service that it starts itself", { tags: "long", timeout: 400_000 }, async () => {
    const [http, grpc] = await freePorts(2);
    const url = `http://127.0.0.1:${http}`;
    const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
    const service = run(textsOf("service").join(""), { ...ports, SAGA_DATA_DIR: dataDir });
    await comesAbout("npm start", service, () => fetch(`${url}/readyz`).then((response) => response.ok));
    await comesAbout("the address of the console", service, () =>
      service.output().includes(`"console":"${url}/console"`),
    );
    const worker = run(textsOf("worker").join(""), { SAGA_API: url, SAGA_GRPC: `127.0.0.1:${grpc}` });
    await comesAbout("the worker", worker, () => worker.output().includes("worker connected"));

    const shell = run(textsOf("shell").join("").replaceAll(DEFAULT_URL, url), {});
    await comesAbout("the end of the commands", shell, () => shell.code() === 0);
    await expectTheStory(url);
  });
});

/** Fails with the output of the process, and at once if it has ended. `npm start` builds: on a busy machine for minutes. */
async function comesAbout(what: string, process: Running, fact: () => boolean | Promise<boolean>): Promise<void> {
  const holds = async () => (await Promise.resolve(fact()).catch(() => false)) || (process.code() ?? 0) !== 0;
  await until(holds, { within: 200_000, what }).catch((error: Error) => {
    throw new Error(`${error.message}\n${process.output()}`);
  });
  if ((process.code() ?? 0) !== 0) throw new Error(`${what} ended with ${process.code()}:\n${process.output()}`);
}

/** One order was confirmed and charged. The card of the other was declined, and its reservation undone. */
async function expectTheStory(url: string): Promise<void> {
  const read = async (path: string) => (await (await fetch(`${url}/api/v1${path}`)).json()) as { items: Item[] };
  const { items: runs } = await read("/sagas?workflow_id=order&sort=started_at");
  expect(runs.map(({ state }) => state)).toEqual(["succeeded", "failed"]);
  expect(runs[0]?.output).toMatchObject({ reservation: "R-1", confirmed_by: "ann" });
  expect(runs[1]?.error).toMatchObject({ code: "card_declined", step_id: "charge" });
  const { items: undone } = await read(`/sagas/${runs[1]?.id}/undo`);
  expect(undone).toMatchObject([{ step_id: "reserve", action: "shop.release@1", state: "done" }]);
}

interface Item {
  readonly id: string;
  readonly state: string;
  readonly output?: object;
  readonly error?: object;
}
