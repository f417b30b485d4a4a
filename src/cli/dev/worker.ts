// The project's worker as a child: started, started again when its files change or after a crash, stopped. What it serves is its own matter.
import { join } from "node:path";
import type { Env } from "../../config/index.js";
import { backoff } from "../../sdk/backoff.js";
import { Child, type End, endText } from "../modules/child.js";
import { Loads, SOURCE } from "../modules/modules.js";
import { configOf, loaderEnvironment, projectArguments } from "../modules/programs.js";
import type { Printer } from "./printer.js";

/** A step may be under way: a worker of ours finishes it, or gives it back. */
const STOP_WITHIN_MS = 10_000;
const RESTART_MS = { base: 1_000, cap: 30_000 };
/** A worker that ran for this long did not die of its start. */
const STEADY_AFTER_MS = 20_000;

export interface WorkerOptions {
  readonly folder: string;
  readonly env: Env;
  readonly printer: Printer;
}

export class WorkerKeeper {
  private child: Child | undefined;
  private loads: Loads;
  private crashes = 0;
  private timer: NodeJS.Timeout | undefined;
  private stopped = false;
  /** One start or stop after the other. */
  private last: Promise<unknown> = Promise.resolve();
  private path: string | undefined;

  constructor(private readonly options: WorkerOptions) {
    this.loads = new Loads(options.folder);
  }

  get isRunning(): boolean {
    return this.child !== undefined && !this.child.hasEnded;
  }

  /** Whether the worker has loaded one of the files. One that does not run may have lacked any. */
  concerns(changed: ReadonlySet<string>): boolean {
    return this.loads.has(changed) || (!this.isRunning && [...changed].some((path) => SOURCE.test(path)));
  }

  /** Starts this file, in place of what runs. Undefined: the project has no worker. */
  restart(path: string | undefined): Promise<void> {
    return this.inTurn(async () => {
      this.crashes = 0;
      await this.end();
      this.path = path;
      this.launch();
    });
  }

  /** Complete on return. `hurry` aborted: it is killed. */
  async stop(hurry: AbortSignal): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    // A restart that is under way ends the old one first, which may take its time.
    const child = this.child;
    await child?.stop(STOP_WITHIN_MS, hurry);
    await this.inTurn(() => this.end());
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.last.then(work);
    this.last = done.catch(() => undefined);
    return done;
  }

  private async end(): Promise<void> {
    clearTimeout(this.timer);
    const child = this.child;
    this.child = undefined;
    await child?.stop(STOP_WITHIN_MS);
  }

  private launch(): void {
    const { path } = this;
    if (this.stopped || path === undefined) return;
    const { folder, env, printer } = this.options;
    const loads = new Loads(folder);
    this.loads = loads;
    const since = performance.now();
    const child = new Child({
      args: projectArguments(join(folder, path)),
      env: loaderEnvironment(env, configOf(join(folder, path))),
      cwd: folder,
      onLine: (line) => printer.line("worker", line),
      onMessage: (message) => void loads.take(message),
    });
    this.child = child;
    printer.say("info", `started ${path}`, { file: path, pid: child.pid }, "worker");
    void child.ended.then((end) => this.onEnd(child, end, performance.now() - since));
  }

  private onEnd(child: Child, end: End, ranForMs: number): void {
    // It was stopped, or has a successor.
    if (this.child !== child || this.stopped) return;
    const { printer } = this.options;
    if (end.code === 0)
      return printer.say(
        "warn",
        "the worker has ended without an error: it is started again when one of its files changes",
        {},
        "worker",
      );
    if (ranForMs > STEADY_AFTER_MS) this.crashes = 0;
    const pause = backoff(this.crashes++, RESTART_MS);
    const seconds = (pause / 1_000).toFixed(1);
    printer.say(
      "error",
      `the worker has crashed (${endText(end)}): it is started again in ${seconds} s, or when a file changes`,
      { ...end },
      "worker",
    );
    this.timer = setTimeout(() => void this.inTurn(async () => this.launch()), pause);
  }
}
