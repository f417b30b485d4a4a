// What a scenario works with in one repetition: the deployment, the size of the load, and where its figures go. A scenario either puts
// a load of independent operations on the service, or has one piece of work measured.

import { drive, type Schedule } from "../src/cli/bench/load.js";
import type { Client } from "./client.js";
import type { Deployment } from "./deployment/deployment.js";
import { Durations } from "./measure/histogram.js";
import { Meter } from "./measure/processes.js";
import { type Relays, relaysBetween, relaysOn } from "./measure/relays.js";
import type { Figure, Processes, Repetition, Writes } from "./result.js";

export interface Size extends Schedule {
  /** Operations before the measured ones. */
  readonly warmup: number;
  /** Runs in the store, for the scenario that fills it. */
  readonly rows: number;
}

/** What an operation may return: how long the part of it took that counts, or under which name it is recorded. */
export interface Timed {
  readonly ms?: number;
  readonly of?: string;
}
export type Operation = (nth: number) => Promise<Timed | undefined>;

/** What a piece of work returns. `seconds`: where they are not those that it took. */
export interface Done {
  readonly count: number;
  readonly seconds?: number;
}

/** Told about each operation that ended. */
export type Progress = (done: number) => void;

export class Stage {
  private readonly durations = new Map<string, Durations>();
  private readonly figures: Figure[] = [];
  private readonly notes: string[] = [];
  private processes: readonly Processes[] = [];
  private done: Required<Done> = { count: 0, seconds: 0 };
  private errors = 0;

  constructor(
    readonly place: Deployment,
    readonly size: Size,
    private readonly progress: Progress,
    private readonly stop: AbortSignal,
  ) {}

  get api(): Client {
    return this.place.api;
  }

  /** The warm-up, then the measured load. `of` names its latency. */
  async load(of: string, operation: Operation): Promise<void> {
    await this.place.beginWrites();
    await this.warmUp(operation);
    const before = await this.relays();
    await this.measured(async () => ({ count: await this.operations(this.size, of, operation) }));
    this.figures.push(...relaysBetween(before, await this.relays(), this.done.count));
  }

  /** Unmeasured operations, whose errors are ignored: the measured ones have them too. */
  async warmUp(operation: Operation): Promise<void> {
    const { warmup: count, concurrency } = this.size;
    await drive({ count, concurrency }, async (nth) => void (await operation(nth).catch(() => undefined)), this.stop);
  }

  /** Unmeasured operations that the measured ones need: the first error ends the repetition. */
  async prepare(count: number, operation: (nth: number) => Promise<void>): Promise<void> {
    const failed = new AbortController();
    const begin = (nth: number) => operation(nth).catch((error) => failed.abort(error));
    await drive({ count, concurrency: this.size.concurrency }, begin, AbortSignal.any([failed.signal, this.stop]));
    failed.signal.throwIfAborted();
    this.stop.throwIfAborted();
  }

  /** Operations of a piece of work, all recorded. Returns the number of those that succeeded. */
  async operations(schedule: Schedule, of: string, operation: Operation): Promise<number> {
    let done = 0;
    const begin = async (nth: number, intended: number) => {
      if (await this.one(of, operation, nth, intended)) this.progress(++done);
    };
    await drive(schedule, begin, this.stop);
    this.stop.throwIfAborted();
    return done;
  }

  /** Measures the processes, and the time that the work took, unless it knows better. */
  async measured(work: () => Promise<Done>): Promise<void> {
    await this.place.beginWrites();
    const meter = new Meter(() => this.place.processIds());
    await meter.begin();
    const since = performance.now();
    try {
      const { count, seconds } = await work();
      this.done = { count, seconds: seconds ?? (performance.now() - since) / 1_000 };
    } finally {
      this.processes = await meter.end();
    }
  }

  record(of: string, ms: number): void {
    const durations = this.durations.get(of) ?? new Durations();
    this.durations.set(of, durations);
    durations.record(ms);
  }

  figure(name: string, value: number, unit: string): void {
    this.figures.push({ name, value: Math.round(value * 1_000) / 1_000, unit });
  }

  note(sentence: string): void {
    this.notes.push(sentence);
  }

  repetition(writes: Writes | null): Repetition {
    const { count, seconds } = this.done;
    return {
      ...{ count, errors: this.errors, seconds: Math.round(seconds * 1_000) / 1_000 },
      throughput_per_second: seconds > 0 ? Math.round((count / seconds) * 100) / 100 : 0,
      latencies: [...this.durations].map(([of, durations]) => durations.summary(of)),
      processes: [...this.processes],
      ...{ writes, figures: this.figures, notes: this.notes },
    };
  }

  private async relays(): Promise<Relays> {
    return relaysOn(await this.api.text("/metrics").catch(() => ""));
  }

  private async one(of: string, operation: Operation, nth: number, intended: number): Promise<boolean> {
    const begun = performance.now();
    try {
      const timed = (await operation(nth)) ?? {};
      const took = timed.ms ?? performance.now() - begun;
      this.record(timed.of ?? of, took + begun - intended);
      return true;
    } catch (error) {
      if (this.errors++ === 0) this.note(`first error: ${error instanceof Error ? error.message : error}`);
      return false;
    }
  }
}
