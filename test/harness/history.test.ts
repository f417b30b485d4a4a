// The history checker passes sound histories, and names the rule that a broken one breaks. Every rule is broken once.
import { describe, expect, it } from "vitest";
import { assertHistory, checkHistory, type EventSeen, RULES, type Rule, type RunSeen } from "./history.js";

const RUN_ID = "0192f0c1-0000-7000-8000-000000000001";
type Row = Omit<Partial<EventSeen>, "seq">;

/** Rows chained by state: `from` defaults to the state of the row before. */
function history(...rows: readonly Row[]): EventSeen[] {
  let state = "pending";
  return rows.map((row, index) => {
    const event: EventSeen = {
      run_id: RUN_ID,
      seq: index + 1,
      event_type: "log",
      attempt: 0,
      from_state: state,
      to_state: state,
      recorded_at: new Date(1_700_000_000_000 + index).toISOString(),
      ...row,
    };
    state = event.to_state ?? state;
    return event;
  });
}

function runOf(events: readonly EventSeen[], changed: Partial<RunSeen> = {}): RunSeen {
  const last = events.at(-1)!;
  const terminal = ["succeeded", "failed", "cancelled"].includes(last.to_state!);
  const failed = terminal && last.to_state !== "succeeded";
  return {
    id: RUN_ID,
    state: last.to_state!,
    last_event_at: last.recorded_at,
    ...(terminal && { terminal_at: last.recorded_at }),
    ...(failed && { last_error: "boom" }),
    ...changed,
  };
}

const started: Row = { event_type: "saga.started", to_state: "running" };
const enter = (step: string, row: Row = {}): Row => ({ event_type: "step.started", step_id: step, ...row });
const dispatch = (step: string, attempt: number, row: Row = {}): Row => ({
  event_type: "step.dispatched",
  step_id: step,
  attempt,
  ...row,
});
const ok = (step: string, attempt = 0, row: Row = {}): Row => ({
  event_type: "step.succeeded",
  step_id: step,
  attempt,
  ...row,
});
const fails = (step: string, attempt = 0, row: Row = {}): Row => ({
  ...ok(step, attempt, row),
  event_type: "step.failed",
});
const again = { metadata: { will_retry: true } };
const undo = { metadata: { phase: "compensation" } };
const incident = { metadata: { will_retry: false, incident: true }, to_state: "paused" };
const undoIncident = { metadata: { ...undo.metadata, will_retry: false, incident: true } };
const act = (kind: string, row: Row = {}): Row => ({ metadata: { kind, by: "api" }, ...row });
const won: Row = { event_type: "run.succeeded", to_state: "succeeded" };
const lost: Row = { event_type: "run.failed", to_state: "failed" };

const simple = [started, enter("a"), dispatch("a", 1), ok("a", 1), won];
const rolledBack = [
  started,
  enter("a"),
  dispatch("a", 1),
  fails("a", 1, { ...again, to_state: "paused" }),
  dispatch("a", 2, { to_state: "running" }),
  ok("a", 2),
  enter("b"),
  { ...fails("b"), metadata: { will_retry: false } },
  { event_type: "compensation.started", to_state: "compensating" },
  enter("a", undo),
  dispatch("a", 3, undo),
  ok("a", 3, undo),
  lost,
];

/** To the undo of `a`, which fails for good. */
const undoing: Row[] = [
  ...[started, enter("a"), dispatch("a", 1), ok("a", 1)],
  { event_type: "compensation.started", to_state: "compensating" },
  ...[enter("a", undo), dispatch("a", 2, undo), fails("a", 2, undoIncident)],
];

describe("a sound history passes", () => {
  it.each([
    ["a success", simple],
    ["a retry, a failure and a rollback", rolledBack],
    [
      "a step at an incident that is retried, and one that is skipped",
      [
        ...[started, enter("a"), dispatch("a", 1), fails("a", 1, incident), act("retry_step", { to_state: "running" })],
        ...[dispatch("a", 2), fails("a", 2, incident), act("skip_step"), ok("a", 0, { to_state: "running" }), won],
      ],
    ],
    [
      "a step at an incident that is let fail, and one whose run is cancelled",
      [
        ...[started, enter("a"), dispatch("a", 1), fails("a", 1, incident), act("fail")],
        ...[fails("a", 0, { to_state: "running" }), enter("b"), fails("b", 0, incident), fails("b"), lost],
      ],
    ],
    [
      "an undo at an incident that is retried",
      [...undoing, act("retry_undo"), dispatch("a", 3, undo), ok("a", 3, undo), lost],
    ],
    [
      "an undo that is skipped, and another one of the same step",
      [...undoing, act("skip_undo"), enter("a", undo), dispatch("a", 3, undo), ok("a", 3, undo), lost],
    ],
    ["a dispatch still in flight", [started, enter("a"), dispatch("a", 1)]],
    [
      "a step entered twice",
      [started, enter("a"), ok("a"), enter("a"), { ...ok("a"), event_type: "step.skipped" }, won],
    ],
  ])("%s", (_name, rows) => {
    const events = history(...rows);
    expect(checkHistory(runOf(events), events)).toEqual([]);
    expect(() => assertHistory(runOf(events), events)).not.toThrow();
  });
});

const broken: readonly [rule: Rule, name: string, events: EventSeen[], run?: Partial<RunSeen>][] = [
  [
    "belongs to the run",
    "a row of another run",
    history(...simple, {})
      .slice(0, 5)
      .map((row) => ({ ...row, run_id: "other" })),
  ],
  ["seq without gaps", "a missing row", history(...simple).filter((row) => row.seq !== 3)],
  ["seq without gaps", "a row twice", history(...simple).flatMap((row) => (row.seq === 2 ? [row, row] : [row]))],
  [
    "times never go back",
    "a row that is earlier than the one before it",
    history(started, enter("a"), { ...ok("a"), recorded_at: new Date(1_699_999_999_999).toISOString() }),
  ],
  ["begins with saga.started", "another first row", history(enter("a", { to_state: "running" }), ok("a"), won)],
  [
    "begins with saga.started",
    "a first row that is not from pending",
    history({ ...started, from_state: "running" }, won),
  ],
  ["begins with saga.started", "a second start", history(started, { event_type: "saga.started" }, won)],
  ["begins with saga.started", "no rows", []],
  ["states are chained", "a jump", history(started, enter("a", { from_state: "paused" }), ok("a"), won)],
  ["states are chained", "an unknown state", history(started, { to_state: "lost" })],
  ["nothing follows a terminal state", "a late row", history(...simple, { event_type: "log" })],
  ["one terminal event", "none on a terminal run", history(started), { state: "succeeded" }],
  ["one terminal event", "one on a run that goes on", history(...simple), { state: "running" }],
  ["one terminal event", "two", history(...simple, won)],
  ["one terminal event", "a state that its event does not name", history(started, { ...won, to_state: "failed" })],
  ["one terminal event", "a terminal state without its event", history(started, { to_state: "succeeded" })],
  ["a step ends after it started", "success without start", history(started, ok("a"), won)],
  ["a step ends after it started", "failure without start", history(started, fails("a"), lost)],
  [
    "a step ends after it started",
    "skip without start",
    history(started, { event_type: "step.skipped", step_id: "a" }, won),
  ],
  ["a step ends after it started", "an end twice", history(started, enter("a"), ok("a"), ok("a"), won)],
  [
    "a step ends after it started",
    "an undo that only the step itself started",
    history(started, enter("a"), ok("a", 0, undo), won),
  ],
  [
    "attempts increase",
    "the same attempt twice",
    history(started, enter("a"), dispatch("a", 1), fails("a", 1, again), dispatch("a", 1)),
  ],
  [
    "a dispatch is answered once",
    "no answer at the end",
    history(started, enter("a"), dispatch("a", 1), fails("a"), lost),
  ],
  ["a dispatch is answered once", "two in flight", history(started, enter("a"), dispatch("a", 1), dispatch("a", 2))],
  [
    "a dispatch is answered once",
    "two answers",
    history(started, enter("a"), dispatch("a", 1), fails("a", 1, again), ok("a", 1), won),
  ],
  [
    "compensation starts once",
    "twice",
    history(
      started,
      { event_type: "compensation.started", to_state: "compensating" },
      { event_type: "compensation.started" },
      lost,
    ),
  ],
  [
    "a step ends after it started",
    "a step that was skipped at its incident ends twice",
    history(started, enter("a"), fails("a", 0, incident), act("skip_step"), ok("a"), ok("a"), won),
  ],
  [
    "attempts increase",
    "the attempts of a retried step begin anew",
    history(started, enter("a"), dispatch("a", 1), fails("a", 1, incident), act("retry_step"), dispatch("a", 1)),
  ],
  [
    "an incident waits for a person",
    "a step that goes on by itself",
    history(started, enter("a"), dispatch("a", 1), fails("a", 1, incident), dispatch("a", 2)),
  ],
  [
    "an incident waits for a person",
    "a step that succeeds by itself",
    history(started, enter("a"), fails("a", 0, incident), ok("a"), won),
  ],
  [
    "an incident waits for a person",
    "an undo that goes on by itself",
    history(...undoing, dispatch("a", 3, undo), ok("a", 3, undo), lost),
  ],
  [
    "an incident waits for a person",
    "a retry that was announced",
    history(started, enter("a"), fails("a", 0, { metadata: { incident: true, will_retry: true }, to_state: "paused" })),
  ],
  [
    "an incident waits for a person",
    "a run that does not stop",
    history(started, enter("a"), fails("a", 0, { metadata: incident.metadata })),
  ],
  [
    "an undo starts once",
    "a retried undo starts again",
    history(...undoing, act("retry_undo"), enter("a", undo), dispatch("a", 3, undo), ok("a", 3, undo), lost),
  ],
  ["the fold is the run", "state", history(started), { state: "paused" }],
  ["the fold is the run", "terminal_at too early", history(started), { terminal_at: "2026-11-21T00:00:00.000Z" }],
  ["the fold is the run", "terminal_at missing", history(...simple), { terminal_at: undefined }],
  ["the fold is the run", "last_event_at", history(...simple), { last_event_at: "2026-11-21T00:00:00.000Z" }],
  ["the fold is the run", "last_error missing", history(started, lost), { last_error: undefined }],
  ["the fold is the run", "last_error on a success", history(...simple), { last_error: "boom" }],
];

describe("a broken history is named", () => {
  it.each(broken)("%s: %s", (rule, _name, events, changed) => {
    const run = events.length > 0 ? runOf(events, changed) : { id: RUN_ID, state: "pending", last_event_at: "" };
    expect(checkHistory(run, events).map((violation) => violation.rule)).toContain(rule);
    expect(() => assertHistory(run, events)).toThrow(rule);
  });

  it("has a broken history for every rule", () => {
    expect(new Set(broken.map(([rule]) => rule))).toEqual(new Set(RULES));
  });
});
