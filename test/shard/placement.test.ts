// Where shards are placed: the same for everybody, even, and moved as little as possible.
import { describe, expect, it } from "vitest";
import { derivedUuid } from "../../src/ids.js";
import { ownerOf, Placement, SHARDS } from "../../src/shard/placement.js";

const nodes = Array.from({ length: 5 }, (_, index) => derivedUuid(`node ${index}`));
const owners = (alive: readonly string[]) => SHARDS.map((shard) => ownerOf(shard, alive));

const PLACED = [2, 0, 2, 4];

describe("placement", () => {
  it("is the same in whatever order the nodes are named", () => {
    expect(owners([...nodes].reverse())).toEqual(owners(nodes));
  });

  it("must never change: nodes of neighbouring releases have to agree", () => {
    expect([0, 1, 128, 255].map((shard) => nodes.indexOf(ownerOf(shard, nodes) ?? ""))).toEqual(PLACED);
  });

  it("gives every node a fair share", () => {
    for (const node of nodes) {
      const share = owners(nodes).filter((owner) => owner === node).length;
      expect(share).toBeGreaterThan(SHARDS.length / nodes.length / 2);
      expect(share).toBeLessThan((SHARDS.length / nodes.length) * 2);
    }
  });

  it("moves the shards of a node that goes, and no others", () => {
    const [gone, ...left] = nodes;
    const before = owners(nodes);
    owners(left).forEach((owner, shard) => {
      if (before[shard] !== gone) expect(owner).toBe(before[shard]);
    });
  });

  it("says what was gained and lost, and nothing while nothing changes", () => {
    const [mine = "", other = ""] = nodes;
    const placement = new Placement(mine);
    expect(placement.place([mine])).toEqual({ gained: [...SHARDS], lost: [] });
    const change = placement.place([mine, other]);
    expect(change?.gained).toEqual([]);
    expect(change?.lost).toEqual(SHARDS.filter((shard) => ownerOf(shard, [mine, other]) === other));
    expect(placement.place([other, mine])).toBeUndefined();
    expect(placement.owner(change?.lost[0] ?? 0)).toBe(other);
    expect([...placement.mine].every((shard) => placement.owner(shard) === mine)).toBe(true);
  });

  it("a node that knows nobody owns everything", () => {
    expect(new Placement("alone").owner(7)).toBe("alone");
  });
});
