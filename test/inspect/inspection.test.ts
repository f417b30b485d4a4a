// One viewer's inspection, on ports that the test fills: what it reads, when it waits, and when it is over.
import { describe, expect, it } from "vitest";
import { asRunId, type Program, type RunId } from "../../machines/index.js";
import type { Frame } from "../../src/inspect/frames.js";
import { InspectedChart, Inspection, type InspectionPorts, MAX_ACTORS, type Viewer } from "../../src/inspect/index.js";
import type { EventItem } from "../../src/store/lists/history.js";
import type { InspectedRun } from "../../src/store/lists/inspected-runs.js";
import { until } from "../harness/until.js";
import { program } from "../machines/definitions.js";

const SINGLE = program([{ id: "a", type: "noop" }]);
const FORKING = program([
  { id: "each", type: "foreach", items: "[1]", body: "item" },
  { id: "item", type: "noop" },
]);

const idOf = (nth: number) => asRunId(`01900000-0000-7000-8000-${String(nth).padStart(12, "0")}`);
const ROOT = idOf(0);

/** A world of runs with rows; nothing moves by itself. */
class World {
  readonly runs = new Map<RunId, InspectedRun>();
  readonly rows = new Map<RunId, EventItem[]>();
  readonly following = new Map<RunId, (head: { seq: number; terminal: boolean }) => void>();
  readonly asked: string[] = [];
  readonly frames: Frame[] = [];
  over: "ended" | "gone" | "failed" | undefined;
  /** The viewer reads nothing. */
  stuck = false;
  private resume: () => void = () => {};
  private open = true;

  /** `later`: the next version of the workflow. */
  constructor(
    private readonly compiled: Program = SINGLE,
    private readonly later: Program = SINGLE,
  ) {}

  add(nth: number, parent?: number, terminal = false): RunId {
    const id = idOf(nth);
    const child = { parentRunId: idOf(parent ?? 0), parentStepId: "each", parentBranchId: `${nth}` };
    const family = parent === undefined ? { parentRunId: null, parentStepId: null, parentBranchId: null } : child;
    const common = {
      id,
      workflowId: "w",
      version: 1,
      definitionId: "d",
      startedAt: new Date(nth),
      lastSeq: 0,
      terminal,
    };
    this.runs.set(id, { ...common, ...family, state: terminal ? "succeeded" : "running" });
    this.rows.set(id, []);
    return id;
  }

  /** The run writes a row. `hint`: its followers are told. */
  write(id: RunId, type: string, more: Partial<EventItem> = {}, hint = true): void {
    const rows = this.rows.get(id) as EventItem[];
    const seq = rows.length + 1;
    const states = { from_state: "running", to_state: "running" };
    const recorded_at = new Date(seq).toISOString();
    rows.push({
      id: `${seq}`,
      run_id: id,
      event_type: type,
      attempt: 0,
      actor: "coordinator",
      ...states,
      ...more,
      recorded_at,
      seq,
    });
    const terminal = type.startsWith("run.");
    this.runs.set(id, { ...(this.runs.get(id) as InspectedRun), lastSeq: seq, terminal });
    if (hint) this.following.get(id)?.({ seq, terminal });
  }

  end(id: RunId): void {
    this.write(id, "run.succeeded", { to_state: "succeeded" });
  }

  read(): void {
    this.stuck = false;
    this.resume();
  }

  close(): void {
    this.open = false;
  }

  inspect(): Inspection {
    const { compiled, later } = this;
    const ports: InspectionPorts = {
      follow: (id, onHead) => {
        this.following.set(id, onHead);
        return { stop: () => void this.following.delete(id) };
      },
      events: async (id, seq) => {
        this.asked.push(`${[...this.runs.keys()].indexOf(id)}>${seq}`);
        return (this.rows.get(id) ?? []).slice(seq, seq + 3);
      },
      children: async (parents, known, limit) =>
        [...this.runs.values()]
          .filter(({ id, parentRunId }) => parentRunId !== null && parents.includes(parentRunId) && !known.includes(id))
          .slice(0, limit),
      chart: async () => new InspectedChart(compiled),
      chartOf: async (_, version) => (version === 2 ? new InspectedChart(later) : undefined),
      compute: async (piece) => piece(),
    };
    const isOpen = () => this.open;
    const viewer: Viewer = {
      get open() {
        return isOpen();
      },
      send: (frame) => void this.frames.push(frame),
      drained: () => (this.stuck ? new Promise((resolve) => (this.resume = resolve)) : Promise.resolve()),
      ended: () => (this.over = "ended"),
      gone: () => (this.over = "gone"),
      failed: () => (this.over = "failed"),
    };
    return new Inspection(ports, viewer, this.runs.get(ROOT) as InspectedRun);
  }

  get actors(): string[] {
    return this.frames.flatMap((frame) => (frame.type === "@xstate.actor" ? [frame.sessionId] : []));
  }

  get seqs(): unknown[] {
    return this.frames.flatMap((frame) => (frame.type === "@xstate.event" ? (frame.event.seq ?? []) : []));
  }
}

describe("an inspection", () => {
  it("sends every row once and in order, those that are there and those that come, and is over with its run", async () => {
    const world = new World();
    world.add(0);
    for (let nth = 0; nth < 7; nth++) world.write(ROOT, "log");
    const inspection = world.inspect();
    await inspection.start();
    expect(world.seqs).toEqual([1, 2, 3, 4, 5, 6, 7]);
    world.write(ROOT, "log", {}, false);
    world.write(ROOT, "log");
    world.end(ROOT);
    await until(() => world.over);
    expect([world.over, world.seqs.at(-1), world.following.size]).toEqual(["ended", 10, 0]);
  });

  it("reads nothing while its viewer does not", async () => {
    const world = new World();
    world.add(0);
    for (let nth = 0; nth < 6; nth++) world.write(ROOT, "log");
    world.stuck = true;
    void world.inspect().start();
    await until(() => world.seqs.length === 1);
    const { length } = world.asked;
    world.write(ROOT, "log");
    world.write(ROOT, "log");
    expect([world.asked.length, world.seqs.length]).toEqual([length, 1]);
    world.read();
    await until(() => world.seqs.length === 8);
  });

  it("takes in children, also those that come without a row of their parent, and waits for their end", async () => {
    const world = new World(FORKING);
    world.add(0);
    const first = world.add(1, 0);
    await world.inspect().start();
    expect(world.actors).toEqual([`run:${ROOT}`, `run:${first}`]);
    const second = world.add(2, 0);
    // The poll of the feed: nothing new is known of the parent.
    world.following.get(ROOT)?.({ seq: 0, terminal: false });
    await until(() => world.actors.includes(`run:${second}`));
    world.end(first);
    world.end(ROOT);
    await until(() => world.following.size === 1);
    expect(world.over).toBeUndefined();
    world.end(second);
    await until(() => world.over === "ended");
  });

  it("shows a hundred runs, and says that there are more", async () => {
    const world = new World(FORKING);
    world.add(0, undefined, true);
    for (let nth = 1; nth < 150; nth++) world.add(nth, 0, true);
    await world.inspect().start();
    expect([world.actors.length, world.over]).toEqual([MAX_ACTORS, "ended"]);
    expect(world.frames.some((frame) => JSON.stringify(frame).includes("more runs than are shown"))).toBe(true);
  });

  it("of a run that has moved to another version shows it with the chart of that, and with the children that it has there", async () => {
    const world = new World(SINGLE, FORKING);
    world.add(0);
    const inspection = world.inspect();
    await inspection.start();
    world.write(ROOT, "log", { step_id: "each", metadata: { kind: "migrate", from_version: 1, version: 2 } });
    const child = world.add(1, 0, true);
    world.end(ROOT);
    await until(() => world.over === "ended");
    expect(world.actors).toEqual([`run:${ROOT}`, `run:${ROOT}`, `run:${child}`]);
    const [, moved] = world.frames.filter(({ type }) => type === "@xstate.actor");
    expect(moved).toMatchObject({ definition: JSON.stringify(FORKING.chart), snapshot: { value: { active: "each" } } });
    expect(world.seqs).toEqual([1, 2]);
  });

  it("of a run that has moved to a version that is gone goes on with the chart that it has", async () => {
    const world = new World();
    world.add(0);
    world.write(ROOT, "log", { step_id: "a", metadata: { kind: "migrate", from_version: 1, version: 3 } });
    world.end(ROOT);
    await world.inspect().start();
    expect([world.actors.length, world.over, world.seqs]).toEqual([1, "ended", [1, 2]]);
  });

  it("of a run whose rows are gone shows how it ended", async () => {
    const world = new World();
    const id = world.add(0, undefined, true);
    world.runs.set(id, { ...(world.runs.get(id) as InspectedRun), lastSeq: 9 });
    await world.inspect().start();
    expect(world.frames.at(-1)).toMatchObject({ snapshot: { value: "succeeded", status: "done" } });
    expect(world.over).toBe("ended");
  });

  it("ends when a read fails, and stops with its viewer", async () => {
    const failing = new World();
    failing.add(0);
    const read = failing.inspect();
    failing.rows.get = () => {
      throw new Error("the store is away");
    };
    await read.start();
    failing.following.get(ROOT)?.({ seq: 3, terminal: false });
    await until(() => failing.over === "failed");
    const gone = new World();
    gone.add(0);
    const inspection = gone.inspect();
    await inspection.start();
    gone.close();
    inspection.stop();
    expect([gone.following.size, gone.over]).toEqual([0, undefined]);
  });
});
