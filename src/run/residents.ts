// The residents of a node: the runs in memory, by id. Idle ones stay while there is room by count and by weight; the one that
// has been idle longest is passivated first. A parked run then costs its rows, and no memory and no timer here.
import { measure, type RunContext, type RunId } from "../../machines/index.js";
import type { Resident } from "./resident.js";

export interface ResidentsOptions {
  /** Runs in memory. Busy runs count and are never dropped: load shedding and the bound of the poll limit those. */
  readonly max?: number;
  /** Estimated bytes of all idle runs together. */
  readonly maxBytes?: number;
  /** Absent: this node owns every run. */
  readonly isMine?: (runId: RunId) => boolean;
}

/** An actor, its mailbox, its timer and its record: measured at 4 KB with few variables. */
const ACTOR_BYTES = 4_096;
/** Memory per character of JSON text: small objects take more, long strings less. */
const BYTES_PER_CHARACTER = 2;

export class Residents {
  private readonly all = new Map<RunId, Resident>();
  /** Idle runs and their estimated bytes, the longest idle first. */
  private readonly idle = new Map<RunId, number>();
  private bytes = 0;
  private readonly max: number;
  private readonly maxBytes: number;
  private readonly isMine: (runId: RunId) => boolean;

  constructor({ max = 10_000, maxBytes = 256 * 1024 * 1024, isMine = () => true }: ResidentsOptions = {}) {
    this.max = max;
    this.maxBytes = maxBytes;
    this.isMine = isMine;
  }

  get size(): number {
    return this.all.size;
  }

  /** Runs with a command, a load or a commit in progress. */
  get busy(): number {
    return this.all.size - this.idle.size;
  }

  /** Estimated bytes of the idle runs. */
  get idleBytes(): number {
    return this.bytes;
  }

  has(runId: RunId): boolean {
    return this.all.has(runId);
  }

  isBusy(runId: RunId): boolean {
    return this.all.get(runId)?.busy ?? false;
  }

  /** The poll has leased the run's wake row. Whether the run is busy: then it gives the row its due time itself. */
  movesLeasedWake(runId: RunId): boolean {
    const resident = this.all.get(runId);
    if (!resident?.busy) return false;
    resident.wakeLeased();
    return true;
  }

  /** The run's resident, which is busy from now on. */
  activate(runId: RunId, create: () => Resident): Resident {
    const resident = this.all.get(runId) ?? create();
    this.all.set(runId, resident);
    this.notIdle(runId);
    return resident;
  }

  /** The run has nothing to do; it stays while there is room. The owner of a run has an actor of its own, so one here would only go stale. */
  keepIdle(runId: RunId, context: RunContext): void {
    if (!this.isMine(runId)) return this.drop(runId);
    this.notIdle(runId);
    const bytes = estimatedBytes(context);
    this.idle.set(runId, bytes);
    this.bytes += bytes;
    this.shrinkTo(this.max, this.maxBytes);
  }

  remove(runId: RunId): void {
    this.all.delete(runId);
    this.notIdle(runId);
  }

  /** Passivation: the actor is dropped, the store has everything. */
  drop(runId: RunId): void {
    this.all.get(runId)?.discard();
    this.remove(runId);
  }

  /** A busy run stays: its commit finds out what has changed. */
  dropIdle(runId: RunId): void {
    if (this.idle.has(runId)) this.drop(runId);
  }

  /** Drops the idle runs that `which` selects. */
  passivate(which: (runId: RunId) => boolean): void {
    for (const runId of [...this.idle.keys()]) if (which(runId)) this.drop(runId);
  }

  /** The heap is short: drops the half that has been idle longest. */
  passivateHalf(): void {
    this.shrinkTo(this.busy + Math.floor(this.idle.size / 2), this.maxBytes);
  }

  /** For a node that stops, once no run is busy. */
  clear(): void {
    for (const resident of this.all.values()) resident.discard();
    this.all.clear();
    this.idle.clear();
    this.bytes = 0;
  }

  private shrinkTo(count: number, bytes: number): void {
    for (const longestIdle of this.idle.keys()) {
      if (this.all.size <= count && this.bytes <= bytes) return;
      this.drop(longestIdle);
    }
  }

  private notIdle(runId: RunId): void {
    this.bytes -= this.idle.get(runId) ?? 0;
    this.idle.delete(runId);
  }
}

/** Inputs and calls never change, so each is measured once. */
const measured = new WeakMap<object, number>();

function sizeOf(value: object | undefined): number {
  if (value === undefined) return 0;
  const known = measured.get(value);
  if (known !== undefined) return known;
  const found = measure(value);
  const size = typeof found === "number" ? found : 0;
  measured.set(value, size);
  return size;
}

function estimatedBytes({ run, call, variablesSize }: RunContext): number {
  return ACTOR_BYTES + BYTES_PER_CHARACTER * (variablesSize + sizeOf(run.inputs) + sizeOf(call));
}
