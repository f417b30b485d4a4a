// The residents of a node: the runs that are in memory, by id. Those at rest are kept as long as there is room, by count and by
// weight, and the longest at rest is let go first (passivation): a parked run costs its rows and nothing here, no timer either.
import { measure, type RunContext } from "../../machines/index.js";
import type { Resident } from "./resident.js";

export interface ResidentsOptions {
  /** Runs in memory. Those that are busy count, and are never let go: what bounds them is admission, and the poll's own bound. */
  readonly max?: number;
  /** What those at rest may weigh together, estimated. */
  readonly maxBytes?: number;
}

/** An actor, its mailbox, its timer and its record: measured at 4 KB with few variables. */
const ACTOR_BYTES = 4_096;
/** A value in memory for each character of its JSON text: small objects weigh more, long strings less. */
const BYTES_A_CHARACTER = 2;

export class Residents {
  private readonly all = new Map<string, Resident>();
  /** Those with nothing to do and what they weigh, in the order of their last rest. */
  private readonly resting = new Map<Resident, number>();
  private bytes = 0;
  private readonly max: number;
  private readonly maxBytes: number;

  constructor({ max = 10_000, maxBytes = 256 * 1024 * 1024 }: ResidentsOptions = {}) {
    this.max = max;
    this.maxBytes = maxBytes;
  }

  get size(): number {
    return this.all.size;
  }

  /** Runs with a command, a load or a commit under way. */
  get busy(): number {
    return this.all.size - this.resting.size;
  }

  /** What those at rest weigh. */
  get restingBytes(): number {
    return this.bytes;
  }

  has(runId: string): boolean {
    return this.all.has(runId);
  }

  isBusy(runId: string): boolean {
    return this.all.get(runId)?.busy ?? false;
  }

  /** The run's resident, about to get something to do. */
  rouse(runId: string, make: () => Resident): Resident {
    const resident = this.all.get(runId) ?? make();
    this.all.set(runId, resident);
    this.unrest(resident);
    return resident;
  }

  /** It has nothing to do: kept while there is room. */
  rest(resident: Resident, context: RunContext): void {
    this.unrest(resident);
    const bytes = weightOf(context);
    this.resting.set(resident, bytes);
    this.bytes += bytes;
    this.shrinkTo(this.max, this.maxBytes);
  }

  leave(resident: Resident): void {
    if (this.all.get(resident.runId) === resident) this.all.delete(resident.runId);
    this.unrest(resident);
  }

  /** Drops the actors of those at rest that `which` names. Whoever is busy finishes, and then leaves. */
  passivate(which: (runId: string) => boolean): void {
    for (const resident of [...this.resting.keys()]) if (which(resident.runId)) this.letGo(resident);
  }

  /** The heap is short: the longer rested half goes. */
  relieve(): void {
    this.shrinkTo(this.busy + Math.floor(this.resting.size / 2), this.maxBytes);
  }

  /** For a node that stops, when nobody is busy any more. */
  clear(): void {
    for (const resident of this.all.values()) resident.discard();
    this.all.clear();
    this.resting.clear();
    this.bytes = 0;
  }

  private shrinkTo(count: number, bytes: number): void {
    for (const oldest of this.resting.keys()) {
      if (this.all.size <= count && this.bytes <= bytes) return;
      this.letGo(oldest);
    }
  }

  private letGo(resident: Resident): void {
    resident.discard();
    this.leave(resident);
  }

  private unrest(resident: Resident): void {
    this.bytes -= this.resting.get(resident) ?? 0;
    this.resting.delete(resident);
  }
}

/** Inputs and calls never change: each is measured once. */
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

/** An estimate: what the run holds of JSON, and the actor around it. */
export function weightOf({ run, call, variablesSize }: RunContext): number {
  return ACTOR_BYTES + BYTES_A_CHARACTER * (variablesSize + sizeOf(run.inputs) + sizeOf(call));
}
