// The command `saga` as a process, in a pipe and on a terminal, or in the process of the test, and a service with an HTTP worker for it. The terminal is that of `script`, of util-linux.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Readable, Writable } from "node:stream";
import { afterAll, beforeAll, describe } from "vitest";
import { execute } from "../../src/cli/commands.js";
import type { Streams } from "../../src/cli/frame/terminal.js";
import { workerToken } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";

const ROOT = resolve(import.meta.dirname, "../..");
const { bin } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { bin: { saga: string } };
export const MAIN = join(ROOT, bin.saga);

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Env = Readonly<Record<string, string>>;

/** A process of the command that goes on. */
export class Command {
  stdout = "";
  stderr = "";
  readonly ended: Promise<Ended>;

  constructor(readonly child: ChildProcess) {
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    this.ended = new Promise((done) => {
      child.once("close", (code, signal) =>
        done({ code: code ?? (signal === null ? 0 : -1), stdout: this.stdout, stderr: this.stderr }),
      );
    });
  }

  write(text: string): void {
    this.child.stdin?.write(text);
  }

  /** Resolves when its output has this. */
  async shows(text: string | RegExp): Promise<void> {
    const seen = () => (typeof text === "string" ? this.stdout.includes(text) : text.test(this.stdout));
    await until(seen, { what: `${text} in ${JSON.stringify(this.stdout.slice(-2_000))} ${this.stderr}` });
  }
}

/** With these settings and no others. `input`: what is piped in. */
export function begin(args: readonly string[], env: Env, { cwd = ROOT }: { readonly cwd?: string } = {}): Command {
  return new Command(spawn(process.execPath, [MAIN, ...args], { cwd, env, stdio: "pipe" }));
}

export async function saga(args: readonly string[], env: Env, input = "", cwd = ROOT): Promise<Ended> {
  const command = begin(args, env, { cwd });
  command.child.stdin?.end(input);
  return command.ended;
}

/** What `inProcess` has run, by its words. */
export const RUN_HERE = new Set<string>();

/** In this process, with these settings and no others, as in a pipe: a tenth of the time that a process takes. One at a time. */
export async function inProcess(args: readonly string[], env: Env, input = ""): Promise<Ended> {
  RUN_HERE.add(args.join(" "));
  const written = { stdout: "", stderr: "" };
  const into = (name: keyof typeof written) =>
    new Writable({
      decodeStrings: false,
      write: (text: string, _, done) => {
        written[name] += text;
        done();
      },
    });
  // Of a stream of the process, commands use what any stream has, and `isTTY`, which is absent in a pipe.
  const streams = { stdin: Readable.from([Buffer.from(input)]), stdout: into("stdout"), stderr: into("stderr") };
  const before = process.env;
  process.env = { ...env };
  try {
    const code = await execute(args, streams as unknown as Streams);
    return { code, ...written };
  } finally {
    process.env = before;
  }
}

export interface TerminalSize {
  readonly columns?: number;
  readonly rows?: number;
  readonly cwd?: string;
}

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** On a pseudo-terminal: both streams arrive in `stdout`, as the terminal gets them. */
export function onTerminal(
  args: readonly string[],
  env: Env,
  { columns = 80, rows = 30, cwd = ROOT }: TerminalSize = {},
): Command {
  const line = [process.execPath, MAIN, ...args].map(quoted).join(" ");
  const child = spawn("script", ["-qefc", `stty cols ${columns} rows ${rows}; exec ${line}`, "/dev/null"], {
    cwd,
    env: { PATH: process.env.PATH ?? "", SHELL: "/bin/sh", TERM: "xterm-256color", ...env },
    stdio: "pipe",
  });
  return new Command(child);
}

function hasScript(): boolean {
  try {
    return execFileSync("script", ["--version"], { encoding: "utf8" }).includes("util-linux");
  } catch {
    return false;
  }
}

export const describeWithTerminal = (name: string, suite: () => void) =>
  describe.skipIf(!hasScript())(`${name} (needs script of util-linux)`, suite);

// biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal is told begins with one.
const CONTROL = /\u001b\[[?\d;]*[A-Za-z]/g;
/** Without what a terminal is told. */
export const plain = (text: string): string => text.replace(CONTROL, "").replaceAll("\r", "");

/** The last picture that was drawn over the one before. */
export const lastPicture = (text: string): string => plain(text.split("\u001b[J").at(-1) ?? "");

/** What the worker of the tests is asked. */
interface Asked {
  readonly inputs?: { readonly ms?: number; readonly fail?: string };
  readonly action: string;
}

/** Answers every action over HTTP: after `ms` with `{action}`, or with the error `fail`. */
async function startWorker(): Promise<{ readonly address: string; stop(): Promise<void> }> {
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const { inputs = {}, action } = JSON.parse(text) as Asked;
      const answer = inputs.fail
        ? { error: { code: inputs.fail, message: "as it was asked", retryable: false } }
        : { result: { action } };
      setTimeout(
        () => response.setHeader("content-type", "application/json").end(JSON.stringify(answer)),
        inputs.ms ?? 0,
      );
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}/steps`,
    stop: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

/** Reserves, has two branches, of which one waits for the signal `go`, and charges, with an error if `fail` is an input. */
export const TRIP = {
  id: "trip",
  name: "A trip",
  start: "reserve",
  steps: [
    {
      ...{ id: "reserve", type: "action", action: "shop.reserve", inputs: {}, next: "both" },
      compensation: { action: "shop.release", inputs: {} },
    },
    { id: "both", type: "parallel", branches: { left: { next: "book" }, right: { next: "ask" } }, next: "all" },
    {
      ...{ id: "book", type: "action", action: "shop.reserve", inputs: {} },
      compensation: { action: "shop.release", inputs: {} },
    },
    { id: "ask", type: "wait_for_signal", signal_name: "go", timeout_ms: 600_000 },
    { id: "all", type: "join", next: "charge" },
    {
      id: "charge",
      type: "action",
      action: "shop.charge",
      inputs: { fail: "${has(inputs.fail) ? inputs.fail : ''}" },
      next: "done",
    },
    { id: "done", type: "end", output: { paid: true } },
  ],
};

/** Ends at once, with what it got. */
export const ECHO = {
  id: "echo",
  name: "An echo",
  input_schema: { type: "object", properties: { say: { type: "string" } } },
  start: "done",
  steps: [{ id: "done", type: "end", output: { said: "${inputs}" } }],
};

export interface Rig {
  readonly env: Env;
  readonly url: string;
  /** Host and port. */
  readonly grpc: string;
  readonly database: TestDatabase;
  api<T = Readonly<Record<string, unknown>>>(method: string, path: string, body?: unknown): Promise<T>;
  saga(...args: readonly string[]): Promise<Ended>;
  /** Its one JSON value. */
  json<T = Readonly<Record<string, unknown>>>(...args: readonly string[]): Promise<T>;
}

/** Call it in a `describe`: a service with the two workflows and a worker, for all of its tests. */
export function useRig(): () => Rig {
  let rig: Rig | undefined;
  let service: ServiceProcess | undefined;
  let worker: Awaited<ReturnType<typeof startWorker>> | undefined;
  const home = mkdtempSync(join(tmpdir(), "saga-cli-"));
  beforeAll(async () => {
    const database = await createTestDatabase({ max: 1 });
    worker = await startWorker();
    service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" });
    await service.start();
    rig = rigOf(service, database, home);
    const action = (action_name: string, compensable = false) => ({
      ...{ action_name, compensable, transport: "http", address: worker?.address },
      ...{
        input_schema: { type: "object" },
        output_schema: { type: "object", properties: { action: { type: "string" } } },
      },
    });
    await rig.api("POST", "/registry/register", {
      service: "shop",
      actions: [action("reserve", true), action("release"), action("charge")],
    });
    for (const workflow of [TRIP, ECHO]) await rig.api("POST", "/workflows", { ...workflow, published: true });
  });
  afterAll(async () => {
    await service?.stop();
    await worker?.stop();
    await rig?.database.drop();
    rmSync(home, { recursive: true, force: true });
  });
  return () => {
    if (!rig) throw new Error("the rig is there inside of tests only");
    return rig;
  };
}

function rigOf(service: ServiceProcess, database: TestDatabase, home: string): Rig {
  const { token } = workerToken();
  const env = { SAGA_URL: service.url, HOME: home, ...(token !== undefined && { SAGA_TOKEN: token }) };
  const run = (...args: readonly string[]) => saga(args, env);
  return {
    ...{ env, url: service.url, grpc: service.grpcAddress, database, saga: run },
    async json<T>(...args: readonly string[]) {
      const { code, stdout, stderr } = await run(...args, "-o", "json");
      if (stdout === "") throw new Error(`saga ${args.join(" ")}: ${code} ${stderr}`);
      return JSON.parse(stdout) as T;
    },
    async api<T>(method: string, path: string, body?: unknown) {
      const response = await fetch(`${service.url}/api/v1${path}`, {
        method,
        headers: {
          "content-type": "application/json",
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as T;
    },
  };
}
