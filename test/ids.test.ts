// Ids: their formats are stored and sent, so they must never change.

import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { asRunId, parseRunId, type RunId } from "../machines/index.js";
import {
  asShardId,
  derivedUuid,
  eventId,
  isUuid,
  requestHash,
  requestHashSlices,
  type ShardId,
  shardOf,
  uuidv7,
} from "../src/ids.js";
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

  it("the hash of a request is that of its JSON with the members in order, and never changes", () => {
    expect(requestHash({ b: [1, { d: null, c: "é" }], 10: true, 9: 0.1 })).toBe(
      "GZktvYik-IGh3iHVpnAMAo6l9tDGwhorYKMZAXRZ-hI",
    );
    const sorted = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(sorted);
      if (typeof value !== "object" || value === null) return value;
      const members = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
      // Not an assignment: a member may be named __proto__.
      return Object.fromEntries(members.map(([name, member]) => [name, sorted(member)]));
    };
    const expected = (value: unknown) =>
      createHash("sha256")
        .update(JSON.stringify(sorted(value)))
        .digest("base64url");
    fc.assert(fc.property(fc.jsonValue(), (value) => requestHash(value) === expected(value)));
    for (const count of [9_999, 10_000, 10_001, 30_000]) {
      const items = Array.from({ length: count }, (_, nth) => (nth % 7 === 0 ? { nth } : nth));
      const members = Object.fromEntries(items.map((item, nth) => [`m${nth}`, item]));
      for (const value of [items, members, items.map(Number)]) expect(requestHash(value)).toBe(expected(value));
      expect([...requestHashSlices(members)].length).toBe(Math.floor(count / 10_000));
    }
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
