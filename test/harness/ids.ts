// Branded ids for tests, which the code makes where values enter. Shards and revisions are plain numbers in tests.
import { randomUUID } from "node:crypto";
import { asDispatchId, type DispatchId, type RunId } from "../../machines/index.js";
import { asShardId, newRunId as newRunIdOf, type ShardId, uuidv7 } from "../../src/ids.js";

export { asDispatchId, asRunId } from "../../machines/index.js";

const shardOr = (shard: number | undefined) => (shard === undefined ? undefined : asShardId(shard));

export const newRunId = (shard?: number): RunId => newRunIdOf(shardOr(shard));

export const newDispatchId = (shard?: number): DispatchId =>
  asDispatchId(shard === undefined ? randomUUID() : uuidv7(asShardId(shard)));

export const shardSet = (...shards: readonly number[]): ReadonlySet<ShardId> => new Set(shards.map(asShardId));
