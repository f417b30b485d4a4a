// The trial process as its node sees it: forked on demand, limited in memory, killed when it hangs, ended when it is idle. It says what
// became of the process and of each suspect; whose fault that was is trials.ts.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { getHeapStatistics } from "node:v8";
import type { TrialDeath } from "../../machines/index.js";
import { packageRoot } from "../config/package.js";
import type { Suspect, TrialOutcome } from "../run/judge.js";
import type { FromTrial, ToTrial, TrialSettings } from "./messages.js";

/** The built program, also for a service that runs from its sources (tests). */
const ENTRY = join(packageRoot(), "dist", "service", "trial", "entry.js");
const START_WITHIN_MS = 30_000;
/** A process without a pulse for so long hangs: a node would have lost its shards. */
const HANG_MS = 10_000;
/** The hang is found by so many checks without a pulse. A clock would count the time that this node itself was frozen. */
const HANG_CHECKS = 10;
const IDLE_MS = 30_000;
/** The share of the heap limit of a node, within bounds: two heaps have to fit into the memory that a node was given. */
const HEAP_SHARE = 0.5;
const HEAP_MB = { least: 256, most: 1_024 };
/** Characters of its last words, which say whether its memory was exhausted. */
const LAST_WORDS = 4_000;

export interface TrialProcessOptions extends TrialSettings {
  readonly hangMs?: number;
  readonly heapMb?: number;
}

export interface Sitting {
  /** The outcomes by the suspect's place in the group. Those after a death have none. */
  readonly outcomes: ReadonlyMap<number, TrialOutcome>;
  /** The process did not survive the group. `nth`: the trial that had begun, if one had. */
  readonly death?: TrialDeath & { readonly nth?: number };
}

export class TrialProcess {
  private forked: ChildProcess | undefined;
  private idle: NodeJS.Timeout | undefined;

  constructor(private readonly options: TrialProcessOptions) {}

  /** The next suspects need not wait for a start, unless they ask for a fresh process. */
  get isRunning(): boolean {
    return this.forked !== undefined && !hasEnded(this.forked);
  }

  /** Tries the suspects one after the other. Throws if the process does not start: that says nothing about the suspects. */
  async try(suspects: readonly Suspect[], { fresh = false } = {}): Promise<Sitting> {
    clearTimeout(this.idle);
    if (fresh) await this.end();
    const forked = this.forked ?? (await this.start());
    const sitting = await new SittingWatch(forked, suspects, this.options.hangMs ?? HANG_MS).result;
    if (sitting.death) this.forked = undefined;
    else this.idle = setTimeout(() => void this.end(), IDLE_MS).unref();
    return sitting;
  }

  /** Kills the process. Safe to call twice; the next try starts another one. */
  async end(): Promise<void> {
    clearTimeout(this.idle);
    const { forked } = this;
    this.forked = undefined;
    if (!forked || hasEnded(forked)) return;
    const ended = once(forked, "exit");
    forked.kill("SIGKILL");
    await ended;
  }

  private async start(): Promise<ChildProcess> {
    const forked = fork(ENTRY, [String(process.pid)], {
      execArgv: [`--max-old-space-size=${this.options.heapMb ?? heapMb()}`],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.forked = forked;
    forked.on("error", () => {}); // A failed start or send; what follows from it is an `exit`.
    forked.once("close", () => {
      if (this.forked === forked) this.forked = undefined;
    });
    const { hangMs: _, heapMb: __, ...settings } = this.options;
    post(forked, { type: "open", settings });
    try {
      await ready(forked);
    } catch (error) {
      await this.end();
      throw error;
    }
    return forked;
  }
}

/** Watches one group from its first trial to its last, or to the end of the process. */
class SittingWatch {
  readonly result: Promise<Sitting>;
  private readonly outcomes = new Map<number, TrialOutcome>();
  private heap = 0;
  private began = performance.now();
  private nth: number | undefined;
  private silence = 0;
  private hung = false;
  private lastWords = "";
  private readonly over = new AbortController();

  constructor(
    private readonly forked: ChildProcess,
    suspects: readonly Suspect[],
    hangMs: number,
  ) {
    const checks = setInterval(() => this.check(), hangMs / HANG_CHECKS);
    const keepWords = (part: Buffer) => {
      this.lastWords = `${this.lastWords}${part}`.slice(-LAST_WORDS);
    };
    forked.stderr?.on("data", keepWords);
    this.result = new Promise<Sitting>((resolve) => {
      forked.on("message", (message) => {
        this.receive(message as FromTrial);
        if (this.outcomes.size === suspects.length) resolve({ outcomes: this.outcomes });
      });
      this.ended().then(
        ([code, signal]) => resolve({ outcomes: this.outcomes, death: this.death(code, signal) }),
        () => {}, // The group was tried to its end.
      );
    }).finally(() => {
      clearInterval(checks);
      this.over.abort();
      forked.removeAllListeners("message");
      forked.stderr?.off("data", keepWords);
      // Unread words would fill the pipe.
      forked.stderr?.resume();
    });
    post(forked, { type: "try", suspects });
  }

  private receive(message: FromTrial): void {
    this.silence = 0;
    if (message.type === "ended") this.outcomes.set(message.nth, message.outcome);
    if (message.type === "began") [this.nth, this.began] = [message.nth, performance.now()];
    if ("heap" in message) this.heap = message.heap;
  }

  private check(): void {
    if (++this.silence < HANG_CHECKS || this.hung) return;
    this.hung = true;
    this.forked.kill("SIGKILL");
  }

  /** All that it has sent was received by then. Rejects if the sitting is over before. */
  private async ended(): Promise<[number | null, NodeJS.Signals | null]> {
    const { forked } = this;
    const { signal: over } = this.over;
    const closed = once(forked, "close", { signal: over });
    const disconnected = forked.connected && once(forked, "disconnect", { signal: over });
    const [[code, signal]] = await Promise.all([closed, disconnected]);
    return [code, signal];
  }

  private death(code: number | null, signal: NodeJS.Signals | null): Sitting["death"] {
    return {
      ...(this.nth !== undefined && !this.outcomes.has(this.nth) && { nth: this.nth }),
      end: this.hung ? "hung" : "ended",
      ...(signal !== null && { signal }),
      ...(code !== null && { exit_code: code }),
      ...(/heap out of memory/.test(this.lastWords) && { out_of_memory: true }),
      heap_mb: Math.round(this.heap / 2 ** 20),
      ms: Math.round(performance.now() - this.began),
    };
  }
}

async function ready(forked: ChildProcess): Promise<void> {
  const words = new AbortController();
  const { signal } = words;
  const late = setTimeout(() => words.abort(), START_WITHIN_MS);
  const failed = () => {
    throw new Error("the trial process did not start");
  };
  try {
    const isReady = new Promise<void>((resolve) =>
      forked.on("message", (message) => (message as FromTrial).type === "ready" && resolve()),
    );
    await Promise.race([isReady, once(forked, "exit", { signal }).then(failed, failed)]);
  } finally {
    clearTimeout(late);
    words.abort();
    forked.removeAllListeners("message");
  }
}

const hasEnded = ({ exitCode, signalCode }: ChildProcess) => exitCode !== null || signalCode !== null;

/** A process that has ended gets no message; its `exit` reports that. */
function post(forked: ChildProcess, message: ToTrial): void {
  if (forked.connected) forked.send(message, () => {});
}

function heapMb(): number {
  const share = (getHeapStatistics().heap_size_limit / 2 ** 20) * HEAP_SHARE;
  return Math.round(Math.min(HEAP_MB.most, Math.max(HEAP_MB.least, share)));
}
