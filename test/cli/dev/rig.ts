// `saga dev` as a process of a test: in a pipe, or in a pseudo-terminal (`script`, of util-linux), in a folder of its own with a worker in plain JavaScript and a definition in JSON.
// It knows nothing of what is expected of it.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { atFailure } from "../../harness/failed-test.js";
import { atFileEnd } from "../../harness/file-end.js";
import { freePorts } from "../../harness/ports.js";
import { until } from "../../harness/until.js";

export const ROOT = resolve(import.meta.dirname, "../../..");
const MAIN = join(ROOT, "dist", "service", "cli", "main.js");

export interface DevEnv {
  readonly [name: string]: string;
}

/** A folder with these files. It is removed after the file's tests. */
export function project(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "saga-dev-"));
  write(folder, { "package.json": '{ "private": true, "type": "module" }', ...files });
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(join(ROOT, "node_modules", "@saga-orchestrator"), join(folder, "node_modules", "@saga-orchestrator"));
  symlinkSync(join(ROOT, "node_modules", "typebox"), join(folder, "node_modules", "typebox"));
  atFileEnd(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}

export class Dev {
  private text = "";
  private readonly child: ChildProcess;
  readonly ended: Promise<number | null>;

  private constructor(
    readonly folder: string,
    readonly api: string,
    program: string,
    args: readonly string[],
    env: DevEnv,
  ) {
    this.child = spawn(program, [...args], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? "", ...env },
      stdio: "pipe",
    });
    const take = (chunk: Buffer) => {
      this.text += chunk.toString();
    };
    this.child.stdout?.on("data", take);
    this.child.stderr?.on("data", take);
    // A terminal may have ended a moment ago: what is typed then goes nowhere.
    this.child.stdin?.on("error", () => {});
    this.ended = new Promise((done) => this.child.once("close", done));
    atFailure(() => [this.output]);
    atFileEnd(async () => {
      this.child.kill("SIGKILL");
      await this.ended;
    });
  }

  static async inPipe(folder: string, env: DevEnv, args: readonly string[] = []): Promise<Dev> {
    const { settings, api } = await placed(env);
    return new Dev(folder, api, process.execPath, [MAIN, "dev", ...args], settings);
  }

  static async inTerminal(folder: string, env: DevEnv, args: readonly string[] = []): Promise<Dev> {
    const { settings, api } = await placed(env);
    // The first writes down its process, which is not that of `script`; the terminal is wide enough for whole lines.
    const command = `stty cols 400; exec "${process.execPath}" "${MAIN}" dev ${args.join(" ")}`;
    return new Dev(folder, api, "script", ["-qefc", command, "/dev/null"], {
      TERM: "xterm",
      SHELL: "/bin/sh",
      ...settings,
    });
  }

  /** Without colours. */
  get output(): string {
    return stripVTControlCharacters(this.text).replaceAll("\r", "");
  }

  get raw(): string {
    return this.text;
  }

  /** Waits for a text behind a place of the output. Returns the place behind it. */
  async says(text: string | RegExp, from = 0): Promise<number> {
    return until(
      () => {
        if (this.child.exitCode !== null && !this.match(text, from))
          throw new Error(`saga dev has ended: ${this.output}`);
        return this.match(text, from);
      },
      { within: 60_000, what: `${text} in the output` },
    );
  }

  private match(text: string | RegExp, from: number): number | undefined {
    const rest = this.output.slice(from);
    if (typeof text === "string") return rest.includes(text) ? from + rest.indexOf(text) + text.length : undefined;
    const found = text.exec(rest);
    return found ? from + found.index + found[0].length : undefined;
  }

  get place(): number {
    return this.output.length;
  }

  /** Ctrl-C in the terminal, a signal in a pipe. */
  interrupt(signal: NodeJS.Signals = "SIGINT"): void {
    if (this.child.spawnfile === "script") this.child.stdin?.write("\x03");
    else this.child.kill(signal);
  }

  kill(): void {
    this.child.kill("SIGKILL");
  }

  async ask<T>(path: string, body?: unknown): Promise<T> {
    const init =
      body === undefined
        ? {}
        : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const answer = await fetch(`${this.api}/api/v1${path}`, init);
    if (!answer.ok) throw new Error(`${path} was answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as T;
  }
}

async function placed(env: DevEnv) {
  const [http, grpc] = await freePorts(2);
  const ports = { HTTP_PORT: String(http), GRPC_PORT: String(grpc) };
  const settings = { ...ports, ...env };
  return { settings, api: `http://127.0.0.1:${settings.HTTP_PORT}` };
}

/** The processes whose working directory is the folder, or below it: those of `saga dev` have it, and so has its Postgres. */
export function processesIn(folder: string): readonly number[] {
  return readdirSync("/proc").flatMap((name) => {
    try {
      const at = /^\d+$/.test(name) ? readlinkSync(`/proc/${name}/cwd`) : "";
      return at === folder || at.startsWith(`${folder}/`) ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}
