// Runs as frames of the Stately inspector: what a viewer can rebuild from them alone, with XState and nothing of ours.
import { describe, expect, it } from "vitest";
import { createActor, createMachine } from "xstate";
import { type AuditEvent, asRunId, type Program, type RunState } from "../../machines/index.js";
import { InspectedChart } from "../../src/inspect/charts.js";
import { type Frame, RunFrames, versionFrom } from "../../src/inspect/frames.js";
import type { EventItem } from "../../src/store/lists/history.js";
import type { InspectedRun } from "../../src/store/lists/inspected-runs.js";
import { EXAMPLE_INPUTS, EXAMPLES, exampleName, exampleProgram, play } from "../machines/chart/examples.js";
import { program } from "../machines/definitions.js";
import type { Simulation } from "../machines/simulation.js";

const ID = asRunId("01900000-0000-7000-8000-000000000042");

const runOf = (more: Partial<InspectedRun> = {}): InspectedRun => ({
  ...{
    id: ID,
    workflowId: "w",
    version: 1,
    definitionId: "d",
    parentRunId: null,
    parentStepId: null,
    parentBranchId: null,
  },
  ...{ state: "running", startedAt: new Date(1_000), lastSeq: 0, terminal: false },
  ...more,
});

function itemOf({ type, stepId, attempt, from, to, actor, metadata, at }: AuditEvent, seq: number): EventItem {
  const about = { ...(stepId !== undefined && { step_id: stepId }), ...(metadata && { metadata }) };
  const states = { from_state: from, to_state: to };
  const recorded_at = new Date(at).toISOString();
  return { id: `${seq}`, run_id: ID, seq, event_type: type, attempt, actor, ...states, ...about, recorded_at };
}

function framesOf(compiled: Program, rows: readonly AuditEvent[], run = runOf()): Frame[] {
  const frames = new RunFrames(run, new InspectedChart(compiled), ID);
  return [frames.actor(), ...rows.flatMap((row, index) => frames.of(itemOf(row, index + 1)))];
}

/** An actor of the frame's machine, in the state that the frame gives it. */
function actorOf({ definition, snapshot: { value } }: Extract<Frame, { type: "@xstate.actor" }>) {
  const machine = createMachine(JSON.parse(definition));
  return createActor(machine, { snapshot: machine.resolveState({ value }) }).start();
}

/** Plays the events of the frames on the machine of the frames, and compares it with their snapshots. */
function replayed(frames: readonly Frame[]): { value: unknown; status: string }[] {
  const [first] = frames;
  if (first?.type !== "@xstate.actor") throw new Error("no actor");
  let actor = actorOf(first);
  const seen = [];
  for (const frame of frames) {
    if (frame.type === "@xstate.actor") actor = actorOf(frame);
    if (frame.type === "@xstate.event") actor.send(frame.event);
    if (frame.type !== "@xstate.snapshot") continue;
    const { value, status } = actor.getSnapshot();
    expect({ value, status }, JSON.stringify(frame.event)).toEqual({
      value: frame.snapshot.value,
      status: frame.snapshot.status,
    });
    seen.push({ value, status });
  }
  return seen;
}

const labelsOf = (frames: readonly Frame[]) =>
  frames.flatMap((frame) => (frame.type === "@xstate.event" ? [frame.event.type] : []));

/** The edges that the runs took. */
function edgesOf(run: Simulation): string[] {
  const unseen = ["note", "wait", "heartbeat", "pause", "resume"];
  return run.world.history.filter((one) => one.run === run && !unseen.includes(one.edge)).map(({ edge }) => edge);
}

describe("an example, as frames", () => {
  it.each(EXAMPLES.map((file) => [exampleName(file), file]))(
    "%s takes the states of its run, to its end",
    (_, file) => {
      const compiled = exampleProgram(file);
      for (const after of [1_000, 3, 8]) {
        for (const run of play(compiled, EXAMPLE_INPUTS, after).world.runs.values()) {
          const frames = framesOf(run.program, run.rows);
          expect(replayed(frames).at(-1)).toEqual({ value: run.state, status: "done" });
          const labels = labelsOf(frames).filter(
            (label) => !/^(step|log|metric|rule|license|compensation)\b/.test(label),
          );
          if (after === 1_000) expect(labels).toEqual(edgesOf(run));
        }
      }
    },
  );
});

describe("frames", () => {
  const compiled = program([
    { id: "a", type: "noop", next: "b" },
    { id: "b", type: "noop" },
  ]);
  const { rows } = play(compiled, {});

  it("are the same for the same rows", () => {
    expect(framesOf(compiled, rows)).toEqual(framesOf(compiled, rows));
  });

  it("have the members that receivers of @statelyai/inspect 0.7 read", () => {
    const [actor, event, snapshot] = framesOf(compiled, rows);
    const base = { sessionId: `run:${ID}`, rootId: `run:${ID}`, id: null, _version: "0.7.2" };
    expect(actor).toMatchObject({ ...base, type: "@xstate.actor", name: "w", createdAt: "1000" });
    expect(event).toMatchObject({ ...base, type: "@xstate.event", event: { type: "begin.default" } });
    expect(snapshot).toMatchObject({
      ...base,
      type: "@xstate.snapshot",
      event: { type: "begin.default" },
      snapshot: { status: "active", value: { active: "a" }, tags: ["noop"] },
    });
  });

  it("show a child under its parent, and the inspected run under none", () => {
    const parentRunId = asRunId("01900000-0000-7000-8000-000000000041");
    const branch = { parentRunId, parentStepId: "fork", parentBranchId: "left" };
    const child = runOf({ ...branch, id: asRunId("01900000-0000-7000-8000-000000000043") });
    expect(framesOf(compiled, [], child)[0]).toMatchObject({ name: "w fork[left]", parentId: `run:${parentRunId}` });
    expect(framesOf(compiled, [], runOf(branch))[0]).not.toHaveProperty("parentId");
  });

  it("of a run that moves to another version have its new chart from there, and the states of both", () => {
    const wait = (id: string) => ({ id, type: "wait_for_signal", signal_name: "go" });
    const before = program([wait("hold")]);
    const after = program([
      { ...wait("confirm"), next: "last" },
      { id: "last", type: "noop" },
    ]);
    const first = play(before, {}, 1).rows.filter(({ type }) => /^(saga.started|step.started|step.paused)$/.test(type));
    const rest = play(after, {}).rows;
    const waited = rest.findIndex(({ type }) => type === "step.paused");
    const paused = first.at(-1) as AuditEvent;
    const metadata = { kind: "migrate", from_version: 1, version: 2, renamed: { hold: "confirm" } };
    const move = itemOf({ ...paused, type: "log", stepId: "confirm", metadata }, first.length + 1);
    const frames = new RunFrames(runOf(), new InspectedChart(before), ID);
    const sent = [frames.actor(), ...first.flatMap((row, nth) => frames.of(itemOf(row, nth + 1)))];
    sent.push(...frames.movedTo(new InspectedChart(after), move));
    sent.push(...rest.slice(waited + 1).flatMap((row, nth) => frames.of(itemOf(row, first.length + 2 + nth))));
    const seen = replayed(sent).map(({ value }) => JSON.stringify(value));
    expect([...new Set(seen)]).toEqual([
      ...["hold", "confirm", "last"].map((step) => JSON.stringify({ active: step })),
      '"succeeded"',
    ]);
    expect(sent.filter(({ type }) => type === "@xstate.actor")).toMatchObject([
      { snapshot: { value: "pending" } },
      { sessionId: `run:${ID}`, snapshot: { value: { active: "confirm" }, tags: ["wait_for_signal"] } },
    ]);
    expect(versionFrom(move)).toBe(2);
    expect(versionFrom(itemOf(paused, 1))).toBeUndefined();
  });

  it("carry large metadata as an excerpt", () => {
    const row = rows[0] as AuditEvent;
    const [, , , event] = framesOf(compiled, [{ ...row, metadata: { output: "x".repeat(60_000) } }]);
    expect(JSON.stringify(event).length).toBeLessThan(9_000);
    expect(event).toMatchObject({ event: { metadata: { truncated: true } } });
  });

  it("show where a run is whose first rows are no longer kept", () => {
    const late = framesOf(compiled, rows.slice(3));
    expect(late.at(-1)).toMatchObject({ snapshot: { value: "succeeded", status: "done" } });
    const frames = new RunFrames(runOf(), new InspectedChart(compiled), ID);
    expect(frames.settle("running" as RunState)).toEqual([]);
    expect(frames.settle("failed").at(-1)).toMatchObject({ snapshot: { value: "failed", status: "done" } });
  });

  it("of rows that the chart does not know say so, and go on", () => {
    const row = rows[0] as AuditEvent;
    const strange = [{ ...row, type: "step.started", stepId: "gone" } as const, ...rows];
    expect(framesOf(compiled, strange).at(-1)).toMatchObject({ snapshot: { value: "succeeded" } });
  });
});
