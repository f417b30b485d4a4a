// Ids: their formats are stored and sent, so they must never change.

import { describe, expect, it } from "vitest";
import { asRunId, parseRunId, type RunId } from "../machines/index.js";
import { asShardId, derivedUuid, eventId, isUuid, type ShardId, shardOf, uuidv7 } from "../src/ids.js";
import type { Revision } from "../src/store/engine/revision.js";
import { newDispatchId, newRunId } from "./harness/ids.js";

describe("ids", () => {
  it("derived ids never change", () => {
    expect(derivedUuid("seed")).toBe("19b25856-e1c1-80ca-834c-ffc8b59b23ad");
    expect(derivedUuid("seed", asShardId(0x0f))).toBe("19b25856-e1c1-80ca-834c-ffc8b59b230f");
    expect(shardOf(eventId(asRunId("0190a000-0000-7000-8000-0000000000aa"), 1))).toBe(0xaa);
    expect(eventId(asRunId("0190a000-0000-7000-8000-0000000000aa"), 1)).not.toBe(
      eventId(asRunId("0190a000-0000-7000-8000-0000000000aa"), 2),
    );
  });

  it("new ids are version 7, in time order, and carry their shard", () => {
    const before = Date.now();
    const id = uuidv7(asShardId(200));
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(shardOf(id)).toBe(200);
    expect(Number.parseInt(id.replace("-", "").slice(0, 12), 16)).toBeGreaterThanOrEqual(before);
    expect(new Set(Array.from({ length: 1000 }, () => uuidv7())).size).toBe(1000);
    expect(isUuid(id) && !isUuid(`${id}0`)).toBe(true);
  });

  it("of runs, dispatches and shards, and revisions, cannot be mixed up: the compiler refuses it", () => {
    const [runId, dispatchId] = [newRunId(), newDispatchId()];
    const onlyRuns = (id: RunId) => id;
    const onlyShards = (shard: ShardId) => shard;
    const onlyRevisions = (revision: Revision) => revision;
    // @ts-expect-error a dispatch is no run
    onlyRuns(dispatchId);
    // @ts-expect-error text is no run before it was checked
    onlyRuns("0190a000-0000-7000-8000-0000000000aa");
    // @ts-expect-error a number is no shard
    onlyShards(7);
    // @ts-expect-error a shard is no revision
    onlyRevisions(shardOf(runId));
    expect([parseRunId(runId.toUpperCase()), parseRunId("nonsense"), parseRunId(7)]).toEqual([
      runId,
      undefined,
      undefined,
    ]);
  });
});
