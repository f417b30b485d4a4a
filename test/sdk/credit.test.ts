// The division of a worker's credit among its streams, against a model of the service: messages are on their way for any time, streams
// come and go. However they interleave, the worker never has more steps than it takes at once, and in the end each stream has its share.
// @module-tag both
import { describe, expect, it } from "vitest";
import { CreditDivision, type CreditStream } from "../../src/sdk/worker/credit.js";
import { long } from "../harness/long.js";

const SEEDS = long(40, 200);
const ACTS = 400;

/** A small generator, so that a failed seed can be repeated. */
function randomOf(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

type ToService = { readonly credit: number } | "answer";
type ToWorker = { readonly credited: number } | "step";

/** One stream with both of its ends. */
class Stream implements CreditStream {
  live = true;
  executing = 0;
  readonly toService: ToService[] = [];
  readonly toWorker: ToWorker[] = [];
  /** At the service: unanswered or set aside. */
  slots = 0;
  limit = 0;
  private owesCredited = false;

  constructor(
    readonly nodeId: string,
    private readonly most: number,
  ) {}

  sendCredit(credit: number): void {
    this.toService.push({ credit });
  }

  /** A message reaches the service. */
  atService(): void {
    const message = this.toService.shift();
    if (message === undefined) return;
    if (message === "answer") this.slots--;
    else [this.limit, this.owesCredited] = [Math.min(message.credit, this.most), true];
    this.settle();
  }

  /** Credit that was set aside is returned unused, or becomes a step. */
  dispatch(): void {
    if (this.slots >= this.limit) return;
    this.slots++;
    this.toWorker.push("step");
  }

  lose(): void {
    [this.live, this.limit, this.owesCredited] = [false, 0, false];
    this.toService.length = 0;
    this.toWorker.length = 0;
  }

  /** The same steps, claimed over a new stream. */
  reopen(): void {
    [this.live, this.slots, this.limit, this.owesCredited] = [true, this.executing, 0, false];
  }

  private settle(): void {
    if (!this.owesCredited || this.slots > this.limit) return;
    this.owesCredited = false;
    this.toWorker.push({ credited: this.limit });
  }
}

class Model {
  readonly streams: Stream[] = [];
  readonly division: CreditDivision<Stream>;
  private met = 0;

  constructor(readonly total: number) {
    this.division = new CreditDivision({
      total,
      streams: () => this.streams.filter(({ live }) => live),
      executing: () => new Map(this.streams.map((stream) => [stream, stream.executing])),
    });
  }

  get executing(): number {
    return this.streams.reduce((sum, { executing }) => sum + executing, 0);
  }

  connect(most = 1_000): void {
    this.streams.push(new Stream(`node-${this.met++}`, most));
    this.division.divide();
  }

  loseOrReopen(stream: Stream): void {
    if (!stream.live) {
      stream.reopen();
      return this.division.divide();
    }
    stream.lose();
    this.division.lost(stream);
  }

  atWorker(stream: Stream): void {
    const message = stream.toWorker.shift();
    if (message === "step") stream.executing++;
    else if (message) this.division.credited(stream, message.credited);
  }

  answer(stream: Stream): void {
    if (stream.executing === 0) return;
    stream.executing--;
    if (stream.live) stream.toService.push("answer");
    this.division.answered();
  }

  /** Everything arrives, everything is answered. */
  rest(): void {
    const isBusy = () => this.streams.some((s) => s.executing + s.toService.length + s.toWorker.length > 0);
    for (let rounds = 0; isBusy() && rounds < 1_000; rounds++)
      for (const stream of this.streams) {
        stream.atService();
        this.atWorker(stream);
        this.answer(stream);
      }
  }

  limits(): number[] {
    return this.streams.map(({ limit }) => limit);
  }
}

function act(model: Model, random: (below: number) => number): void {
  const { streams } = model;
  const stream = streams[random(streams.length)];
  const dice = random(100);
  if (!stream || (dice < 1 && streams.length < 4)) return model.connect();
  if (dice < 4) return model.loseOrReopen(stream);
  if (dice < 5) return model.division.tick();
  if (dice < 40) return stream.dispatch();
  if (dice < 60) return stream.atService();
  if (dice < 80) return model.atWorker(stream);
  model.answer(stream);
}

describe("the credit of a worker", () => {
  it("is never exceeded, and every stream ends up with its share, whatever interleaves", () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const random = randomOf(seed);
      const model = new Model(1 + random(9));
      for (let nth = 0; nth < ACTS; nth++) {
        act(model, random);
        expect(model.executing, `seed ${seed}`).toBeLessThanOrEqual(model.total);
      }
      for (const stream of model.streams) if (!stream.live) model.loseOrReopen(stream);
      model.rest();
      const limits = model.limits();
      expect(
        limits.reduce((sum, limit) => sum + limit, 0),
        `seed ${seed}`,
      ).toBe(model.total);
      expect(Math.max(...limits) - Math.min(...limits), `seed ${seed}`).toBeLessThanOrEqual(1);
    }
  });

  it("is whole for one stream, and is divided when there are two: busy credit follows its steps", () => {
    const model = new Model(4);
    model.connect();
    model.rest();
    expect(model.limits()).toEqual([4]);
    const [one] = model.streams as [Stream];
    for (let nth = 0; nth < 4; nth++) one.dispatch();
    for (let nth = 0; nth < 4; nth++) model.atWorker(one);
    model.connect();
    const [, other] = model.streams as [Stream, Stream];
    const deliver = () => {
      for (const stream of [...model.streams, ...model.streams, ...model.streams]) {
        stream.atService();
        model.atWorker(stream);
      }
    };
    deliver();
    expect(model.limits()).toEqual([4, 0]);
    for (const [left, right] of [
      [3, 1],
      [2, 2],
      [2, 2],
    ]) {
      model.answer(one);
      deliver();
      deliver();
      expect(model.limits()).toEqual([left, right]);
    }
    expect(other.nodeId).toBe("node-1");
  });

  it("goes to the streams that are left", () => {
    const model = new Model(4);
    model.connect();
    model.connect();
    model.rest();
    expect(model.limits()).toEqual([2, 2]);
    const [one] = model.streams as [Stream];
    model.loseOrReopen(one);
    model.rest();
    expect(model.streams[1]?.limit).toBe(4);
  });

  it("is at each stream in turn, where there are more of them", () => {
    const model = new Model(1);
    for (let nth = 0; nth < 3; nth++) model.connect();
    const seen = Array.from({ length: 4 }, () => {
      model.rest();
      const limits = model.limits();
      model.division.tick();
      return limits.join(" ");
    });
    expect(seen).toEqual(["1 0 0", "0 1 0", "0 0 1", "1 0 0"]);
  });

  it("is what the service takes, where that is less", () => {
    const model = new Model(10);
    model.connect(3);
    model.connect();
    model.rest();
    expect(model.limits()).toEqual([3, 5]);
  });
});
