// The order of calls that wait for credit, against a model that was written of the law and not of the queue: shares of tenants, levels, weights of keys, first come first
// served. Random adds, removals and turns.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Precedence, precedenceOf } from "../../machines/index.js";
import { FairQueue } from "../../src/dispatch/fair-queue.js";
import { makeCall } from "./rig.js";

interface Item {
  readonly id: string;
  readonly precedence?: Precedence;
  readonly tenantId?: string;
}

const nameOf = ({ tenantId }: Pick<Item, "tenantId">) => ({
  ...makeCall({ action: "a" }),
  ...(tenantId && { tenantId }),
});

const add = (queue: FairQueue<Item>, item: Item) =>
  queue.add(nameOf(item), item.id, item, { precedence: item.precedence });

/** The next so many items. */
function take(queue: FairQueue<Item>, credit: number): Item[] {
  const taken: Item[] = [];
  queue.serve("payments", (item) => taken.length < credit && taken.push(item) > 0);
  return taken;
}

/** As when credit comes free piece by piece. */
const takeOneByOne = (queue: FairQueue<Item>, credit: number) =>
  Array.from({ length: credit }, () => take(queue, 1)).flat();

const countBy = (items: readonly Item[], of: (item: Item) => string | number | undefined) => {
  const counts: Record<string, number> = {};
  for (const item of items) counts[String(of(item))] = (counts[String(of(item))] ?? 0) + 1;
  return counts;
};

const levelOf = ({ precedence }: Item) => precedence?.priority ?? 3;
const keyOf = ({ precedence }: Item) => precedence?.key ?? "";
const weightOf = ({ precedence }: Item) => precedence?.weight ?? 1;

let ids = 0;
const items = (many: number, precedence?: Precedence, tenantId?: string): Item[] =>
  Array.from({ length: many }, () => ({
    id: String(++ids),
    ...(precedence && { precedence }),
    ...(tenantId && { tenantId }),
  }));

describe("the levels of priority", () => {
  it("take turns in the ratio 16 : 8 : 4 : 2 : 1 while all have something waiting", () => {
    const queue = new FairQueue<Item>();
    for (const priority of [5, 4, 3, 2, 1]) for (const item of items(100, { priority })) add(queue, item);
    const cycle = takeOneByOne(queue, 31);
    expect(countBy(cycle, levelOf)).toEqual({ 1: 16, 2: 8, 3: 4, 4: 2, 5: 1 });
    expect(countBy(takeOneByOne(queue, 62), levelOf)).toEqual({ 1: 32, 2: 16, 3: 8, 4: 4, 5: 2 });
  });

  it("keep their ratio where one has nothing waiting", () => {
    const queue = new FairQueue<Item>();
    for (const priority of [2, 5]) for (const item of items(100, { priority })) add(queue, item);
    expect(countBy(takeOneByOne(queue, 27), levelOf)).toEqual({ 2: 24, 5: 3 });
  });

  it("are of the calls of one tenant: what it marks as urgent takes nothing from another one", () => {
    const queue = new FairQueue<Item>();
    for (const item of items(50, { priority: 1 }, "a")) add(queue, item);
    for (const item of items(50, { priority: 5 }, "b")) add(queue, item);
    expect(countBy(takeOneByOne(queue, 40), ({ tenantId }) => tenantId)).toEqual({ a: 20, b: 20 });
  });
});

describe("the fairness keys of a level", () => {
  it("take turns in the ratio of their weights, however many calls wait for each", () => {
    const queue = new FairQueue<Item>();
    for (const item of items(1_000, { key: "many" })) add(queue, item);
    for (const item of items(100, { key: "heavy", weight: 3 })) add(queue, item);
    for (const item of items(100)) add(queue, item);
    expect(countBy(takeOneByOne(queue, 100), keyOf)).toEqual({ many: 20, heavy: 60, "": 20 });
  });

  it("gain nothing by leaving and coming back", () => {
    const queue = new FairQueue<Item>();
    for (const item of items(200, { key: "patient" })) add(queue, item);
    let quick = 0;
    for (let nth = 0; nth < 100; nth++) {
      // Never more than one waits: its key leaves with it.
      if (queue.size === 200 - nth + quick)
        for (const item of items(1, { key: "quick", weight: 0.25 })) add(queue, item);
      quick += take(queue, 1).filter((item) => keyOf(item) === "quick").length;
    }
    expect(quick).toBe(20);
  });

  it("a key that comes late has no claim for the time before", () => {
    const queue = new FairQueue<Item>();
    for (const item of items(200, { key: "early" })) add(queue, item);
    takeOneByOne(queue, 100);
    for (const item of items(100, { key: "late" })) add(queue, item);
    expect(countBy(takeOneByOne(queue, 40), keyOf)).toEqual({ early: 20, late: 20 });
  });
});

describe("the shares of tenants", () => {
  const serveBoth = (queue: FairQueue<Item>, credit: (queue: FairQueue<Item>, many: number) => Item[]) => {
    for (const item of items(300, undefined, "a")) add(queue, item);
    for (const item of items(300, undefined, "b")) add(queue, item);
    return countBy(credit(queue, 100), ({ tenantId }) => tenantId);
  };

  it("are equal unless they are set", () => {
    expect(serveBoth(new FairQueue(), takeOneByOne)).toEqual({ a: 50, b: 50 });
    expect(serveBoth(new FairQueue(), take)).toEqual({ a: 50, b: 50 });
  });

  it("are turns in a row", () => {
    const share = (tenantId: string | undefined) => (tenantId === "a" ? 4 : 1);
    expect(serveBoth(new FairQueue(share), takeOneByOne)).toEqual({ a: 80, b: 20 });
    expect(serveBoth(new FairQueue(share), take)).toEqual({ a: 80, b: 20 });
  });

  it("do not grow with the actions that a tenant calls", () => {
    const queue = new FairQueue<Item>();
    for (const action of ["x", "y", "z"])
      for (const item of items(50, undefined, "a")) queue.add({ ...nameOf(item), action }, item.id, item);
    for (const item of items(50, undefined, "b")) add(queue, item);
    expect(countBy(takeOneByOne(queue, 40), ({ tenantId }) => tenantId)).toEqual({ a: 20, b: 20 });
  });
});

describe("calls of other nodes", () => {
  it("take their turns by their levels, and in a level by the weights of the keys that wait there", () => {
    const queue = new FairQueue<Item>();
    for (const item of items(100, { priority: 5 })) add(queue, item);
    for (const item of items(100, { priority: 2 })) add(queue, item);
    for (const item of items(100, { priority: 2, weight: 3 }))
      queue.add(nameOf(item), item.id, item, { nodeId: "b", precedence: item.precedence });
    const taken = takeOneByOne(queue, 36);
    expect(countBy(taken, levelOf)).toEqual({ 2: 32, 5: 4 });
    expect(countBy(taken, (item) => `${levelOf(item)} ${weightOf(item)}`)).toEqual({ "2 1": 8, "2 3": 24, "5 1": 4 });
    expect([...queue.ownCounts()].map(([, waiting]) => waiting)).toEqual([200 - 12]);
  });
});

/** The law, said again: a list in the order of arrival, and what is due of each flow, found by looking at everything. */
class Model {
  private waiting: Item[] = [];
  private turn = 0;
  private readonly flows = new Map<string, { weight: number; start: number; since: number }>();
  private readonly times = new Map<number, number>();
  private given = 0;
  /** Without precedence there are neither turns nor time. */
  private isList = true;

  add(item: Item): void {
    const level = levelOf(item);
    if (this.isList && item.precedence) {
      this.isList = false;
      if (this.waiting.length > 0) this.flows.set("3 ", { weight: 1, start: 0, since: ++this.given });
    }
    this.waiting.push(item);
    if (this.isList) return;
    const flow = this.flows.get(this.nameOf(item));
    if (flow) flow.weight = weightOf(item);
    else
      this.flows.set(this.nameOf(item), {
        weight: weightOf(item),
        start: this.times.get(level) ?? 0,
        since: ++this.given,
      });
  }

  remove({ id }: Item): void {
    const item = this.waiting.find((one) => one.id === id);
    this.waiting = this.waiting.filter((one) => one.id !== id);
    if (item) this.forget(item);
  }

  next(): Item | undefined {
    if (this.waiting.length === 0) return undefined;
    if (this.isList) return this.waiting.shift();
    let level: number;
    do {
      this.turn = this.turn === 31 ? 1 : this.turn + 1;
      level = [16, 8, 4, 2, 1].findLastIndex((part) => this.turn % (16 / part) === 0) + 1;
    } while (!this.waiting.some((item) => levelOf(item) === level));
    const heads = new Map(
      this.waiting
        .filter((item) => levelOf(item) === level)
        .toReversed()
        .map((item) => [this.nameOf(item), item]),
    );
    const due = (name: string) => {
      const { start = 0, weight = 1, since = 0 } = this.flows.get(name) ?? {};
      return { at: start + 1 / weight, since };
    };
    const [name, item] = [...heads].reduce((one, other) => {
      const [a, b] = [due(one[0]), due(other[0])];
      return b.at < a.at || (b.at === a.at && b.since < a.since) ? other : one;
    });
    const { at } = due(name);
    this.times.set(level, Math.max(at, this.times.get(level) ?? 0));
    const flow = this.flows.get(name);
    if (flow) Object.assign(flow, { start: at, since: ++this.given });
    this.remove(item);
    return item;
  }

  private nameOf = (item: Item) => `${levelOf(item)} ${keyOf(item)}`;

  private forget(item: Item): void {
    if (!this.waiting.some((one) => this.nameOf(one) === this.nameOf(item))) this.flows.delete(this.nameOf(item));
    if (!this.waiting.some((one) => levelOf(one) === levelOf(item))) this.times.delete(levelOf(item));
    if (this.waiting.length > 0) return;
    this.turn = 0;
    this.isList = true;
  }
}

const given = fc.record(
  {
    priority: fc.constantFrom(1, 2, 4, 5),
    key: fc.constantFrom("a", "b", "c"),
    weight: fc.constantFrom(0.25, 0.5, 2, 4),
  },
  { requiredKeys: [] },
);
/** As a start gives it: none is absent. */
const precedences = given.map((precedence) => precedenceOf(precedence));
const acts = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ act: fc.constant("add" as const), precedence: precedences }) },
    { weight: 1, arbitrary: fc.record({ act: fc.constant("remove" as const), nth: fc.nat(40) }) },
    { weight: 3, arbitrary: fc.record({ act: fc.constant("serve" as const), credit: fc.integer({ min: 1, max: 4 }) }) },
  ),
  { maxLength: 200 },
);

describe("any history of the queue", () => {
  it("serves what an independent model serves, loses nothing and serves nothing twice", () => {
    fc.assert(
      fc.property(acts, (history) => {
        const [queue, model] = [new FairQueue<Item>(), new Model()];
        const waiting = new Map<string, Item>();
        for (const { act, ...given } of history) {
          if (act === "add") {
            const precedence = "precedence" in given ? (given.precedence as Precedence) : undefined;
            const item = { id: String(++ids), ...(precedence && { precedence }) };
            add(queue, item);
            model.add(item);
            waiting.set(item.id, item);
          } else if (act === "remove") {
            const item = [...waiting.values()][Number("nth" in given && given.nth)];
            if (!item) continue;
            queue.remove(nameOf(item), item.id);
            model.remove(item);
            waiting.delete(item.id);
          } else {
            const served = take(queue, Number("credit" in given && given.credit));
            expect(served.map(({ id }) => id)).toEqual(served.map(() => model.next()?.id));
            for (const { id } of served) expect(waiting.delete(id)).toBe(true);
          }
          expect(queue.size).toBe(waiting.size);
        }
        expect(
          take(queue, 1_000)
            .map(({ id }) => id)
            .sort(),
        ).toEqual([...waiting.keys()].sort());
        expect(queue.size).toBe(0);
      }),
      { numRuns: 300 },
    );
  });

  it("overtakes the first of a level by a bounded number, and the first of a key by the weights of the others", () => {
    fc.assert(
      fc.property(
        fc.array(given, { minLength: 1, maxLength: 40 }),
        fc.array(given, { maxLength: 30 }),
        (before, arriving) => {
          const queue = new FairQueue<Item>();
          for (const precedence of before) add(queue, { id: String(++ids), precedence });
          const watched: Item = { id: "watched", precedence: { priority: 5, key: "watched", weight: 1 } };
          add(queue, watched);
          // Of its level at most so many before it: each other key of the level by its weight, and one.
          const mates = new Set(
            [...before, ...arriving].filter(({ priority }) => priority === 5).map(({ key = "" }) => key),
          );
          const most = 31 * (1 + [...mates].length * (4 + 1));
          let passed = 0;
          for (;;) {
            for (const precedence of arriving) add(queue, { id: String(++ids), precedence });
            const [served] = take(queue, 1);
            if (served === watched) break;
            passed++;
            expect(passed).toBeLessThan(most);
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  it("without precedence is the order of a list for each action, in turns", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), fc.boolean()), { maxLength: 80 }), (history) => {
        const queue = new FairQueue<Item & { readonly action: string }>();
        const rows: { action: string; ids: string[] }[] = [];
        for (const [action, serves] of history) {
          const item = { id: String(++ids), action };
          queue.add(makeCall({ action }), item.id, item);
          const row = rows.find((one) => one.action === action);
          if (row) row.ids.push(item.id);
          else rows.push({ action, ids: [item.id] });
          if (!serves) continue;
          const taken: string[] = [];
          queue.serve("payments", ({ id }) => taken.length === 0 && taken.push(id) > 0);
          const [first] = rows.splice(0, 1);
          expect(taken).toEqual([first?.ids.shift()]);
          if (first && first.ids.length > 0) rows.push(first);
        }
      }),
    );
  });
});
