// Placement: the same on every node, even, and with as few moves as possible.
import { describe, expect, it } from "vitest";
import { asShardId, derivedUuid } from "../../src/ids.js";
import { ownerOf, Placement, SHARDS } from "../../src/shard/placement.js";

const nodes = Array.from({ length: 5 }, (_, index) => derivedUuid(`node ${index}`));
const owners = (alive: readonly string[]) => SHARDS.map((shard) => ownerOf(shard, alive));

const PLACED = [2, 0, 2, 4];

describe("placement", () => {
  it("does not depend on the order of the nodes", () => {
    expect(owners([...nodes].reverse())).toEqual(owners(nodes));
  });

  it("never changes: nodes of neighbouring releases have to agree", () => {
    expect([0, 1, 128, 255].map((shard) => nodes.indexOf(ownerOf(asShardId(shard), nodes) ?? ""))).toEqual(PLACED);
  });

  it("gives every node a fair share", () => {
    for (const node of nodes) {
      const share = owners(nodes).filter((owner) => owner === node).length;
      expect(share).toBeGreaterThan(SHARDS.length / nodes.length / 2);
      expect(share).toBeLessThan((SHARDS.length / nodes.length) * 2);
    }
  });

  it("moves the shards of a node that leaves, and no others", () => {
    const [gone, ...left] = nodes;
    const before = owners(nodes);
    owners(left).forEach((owner, shard) => {
      if (before[shard] !== gone) expect(owner).toBe(before[shard]);
    });
  });

  it("reports gained and lost shards, and nothing if nothing changes", () => {
    const [mine = "", other = ""] = nodes;
    const placement = new Placement(mine);
    expect(placement.place([mine])).toEqual({ gained: [...SHARDS], lost: [], nodeLost: false });
    const change = placement.place([mine, other]);
    expect(change?.gained).toEqual([]);
    expect(change?.lost).toEqual(SHARDS.filter((shard) => ownerOf(shard, [mine, other]) === other));
    expect(change?.nodeLost).toBe(false);
    expect(placement.place([other, mine])).toBeUndefined();
    expect(placement.owner(change?.lost[0] ?? asShardId(0))).toBe(other);
    expect([...placement.mine].every((shard) => placement.owner(shard) === mine)).toBe(true);
  });

  it("reports that a node is gone, also if another one has come", () => {
    const [mine = "", other = "", third = ""] = nodes;
    const placement = new Placement(mine);
    placement.place([mine, other]);
    expect(placement.place([mine, other, third])?.nodeLost).toBe(false);
    expect(placement.place([mine, other])?.nodeLost).toBe(true);
    expect(placement.place([mine, third])?.nodeLost).toBe(true);
  });

  it("chooses among the shards of this node evenly, and none where it has none", () => {
    const [mine = "", other = ""] = nodes;
    const placement = new Placement(mine);
    expect(placement.anyOfMine()).toBeUndefined();
    placement.place([mine, other]);
    const chosen = new Map([...placement.mine].map((shard) => [shard, 0]));
    const each = 200;
    for (let nth = 0; nth < each * chosen.size; nth++) {
      const shard = placement.anyOfMine() ?? asShardId(-1);
      chosen.set(shard, (chosen.get(shard) ?? 0) + 1);
    }
    expect(chosen.size).toBe(placement.mine.size);
    // Seven standard deviations: a fair choice fails once in a thousand million runs of this test.
    for (const count of chosen.values()) expect(Math.abs(count - each)).toBeLessThan(7 * Math.sqrt(each));
    placement.place([other]);
    expect(placement.anyOfMine()).toBeUndefined();
  });

  it("gives every shard to a node that knows no other", () => {
    expect(new Placement("alone").owner(asShardId(7))).toBe("alone");
  });
});
