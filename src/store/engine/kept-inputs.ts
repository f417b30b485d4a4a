// The large inputs of starts that a node has read: they never change, and every branch and item of a run has those of its start. A loop over
// 300 items of 5 KB has 1.5 MB of inputs, which each load of an item would read and parse again.
import type { Sql } from "postgres";
import { type JsonObject, type RunId, WeightedCache } from "../../../machines/index.js";
import { shardOf } from "../../ids.js";

/** Characters of JSON. Smaller inputs are read with their run. */
const LARGE = 16 * 1024;
const MAX_KEPT = 16 * 1024 * 1024;

export class KeptInputs {
  private readonly kept = new WeightedCache<string, JsonObject>(MAX_KEPT);

  /** The starts that the run may have its inputs from: a family is in one shard. */
  startsFor(runId: RunId): string[] {
    const shard = shardOf(runId);
    return [...this.kept.keys()].filter((start) => shardOf(start as RunId) === shard);
  }

  get(start: string): JsonObject | undefined {
    return this.kept.get(start);
  }

  keep(start: string, inputs: JsonObject, chars: number): void {
    if (chars >= LARGE) this.kept.set(start, inputs, chars);
  }
}

const ofPools = new WeakMap<Sql, KeptInputs>();

export function keptInputs(pool: Sql): KeptInputs {
  const kept = ofPools.get(pool) ?? new KeptInputs();
  ofPools.set(pool, kept);
  return kept;
}

/** What was read before, also by a load in progress, is not used again. */
export function forgetKeptInputs(pool: Sql): void {
  ofPools.delete(pool);
}
