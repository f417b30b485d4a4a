// Every state answers every command: all pairs, each with its answer, the state after it and its effects. After each of them the run can
// still reach an end that breaks no law.
import { describe, expect, it } from "vitest";
import { type Answer, isTerminal, wakeAt } from "../../machines/index.js";
import { EXPECTED, GROUPS } from "./answers.js";
import { violations } from "./chain.js";
import { COMMANDS, type CommandName, SITUATIONS, type Situated, type SituationName } from "./situations.js";

const situations = Object.keys(SITUATIONS) as SituationName[];
const commands = Object.keys(COMMANDS) as CommandName[];

function expand(list: string): string[] {
  return list.split(", ").flatMap((name) => (GROUPS[name] ? expand(GROUPS[name]) : name));
}

function outcomesOf(situation: SituationName): [command: CommandName, outcome: string][] {
  const { is: _, ...outcomes } = EXPECTED[situation];
  return Object.entries(outcomes).flatMap(([outcome, list]) =>
    expand(list).map((command): [CommandName, string] => [command as CommandName, outcome]),
  );
}

function said(answer: Answer): string {
  switch (answer.type) {
    case "report":
      return answer.stale ? "stale" : "taken";
    case "signal":
      return answer.matched ? "matched" : "unmatched";
    case "submit":
      return answer.matched ? "submitted" : "submitted unmatched";
    case "acted":
      return `${answer.changed ? "acted" : answer.reason === undefined ? "already" : "too late"}`;
    case "cancel":
      return `cancel ${answer.state}${answer.alreadyTerminal ? " already" : ""}`;
    default:
      return answer.type;
  }
}

/** Sends the command and describes its outcome in the words of the table. */
function outcome(run: Situated, command: CommandName): string {
  const wake = wakeAt(run.context);
  if (command === "due") run.now = typeof wake === "number" ? wake : run.now + 86_400_000;
  else run.now += 1;
  const before = run.everything;
  const answer = run.once(COMMANDS[command](run));
  const changed = JSON.stringify(before) !== JSON.stringify(run.everything);
  const owed = [...run.wrote.map(({ to }) => to), ...run.released.map(({ kind }) => kind)].join(",");
  return `${said(answer)} -> ${changed ? run.shape : "same"}${owed && ` | ${owed}`}`;
}

describe("the table", () => {
  it("the table has every pair, once", () => {
    for (const situation of situations) {
      const listed = outcomesOf(situation).map(([command]) => command);
      expect(listed.sort(), situation).toEqual([...commands].sort());
    }
    expect(Object.keys(EXPECTED).sort()).toEqual([...situations].sort());
  });

  it("the situations cover every state and every wait of a run, with and without quarantine and pause", () => {
    const shapes = situations.map((situation) => SITUATIONS[situation]().shape);
    expect(shapes).toEqual(situations.map((situation) => EXPECTED[situation].is));
    const waits = ["queued", "dispatched", "backoff"];
    const open = [
      "pending",
      "running",
      "paused timer",
      "paused signal",
      "paused user_task",
      "paused event",
      "paused concurrency",
      "paused rate_limit",
      "running queued",
      "running dispatched",
      "paused backoff",
      "compensating",
      ...waits.map((wait) => `compensating ${wait}`),
    ];
    const quarantined = [
      "",
      " timer",
      " signal",
      " user_task",
      " event",
      " concurrency",
      " rate_limit",
      " queued",
      " dispatched",
    ]
      .concat(" backoff")
      .map((wait) => `paused${wait} quarantined`);
    const held = [
      ...[
        "paused",
        ...["timer", "signal", "user_task", "event", "concurrency", "rate_limit", "incident", ...waits].map(
          (wait) => `paused ${wait}`,
        ),
      ],
    ].map((shape) => `${shape} held`);
    const incidents = ["paused incident", "paused incident quarantined", "compensating incident"];
    const both = "paused dispatched quarantined held";
    const all = [...open, ...quarantined, ...held, ...incidents, both, "succeeded", "failed", "cancelled"];
    expect([...new Set(shapes)].sort()).toEqual(all.sort());
  });
});

describe.each(situations)("%s", (situation) => {
  it("answers every command as the table says, and can then reach a sound end", () => {
    const expected = outcomesOf(situation);
    expect(expected.map(([command]) => [command, answerOf(situation, command)])).toEqual(expected);
  });

  it("reaches a sound end without a command", () => endsSoundly(SITUATIONS[situation]()));
});

/** The outcome of the command, whose run is held against the laws. */
function answerOf(situation: SituationName, command: CommandName): string {
  const run = SITUATIONS[situation]();
  const rows = run.rows.length;
  const terminal = isTerminal(run.context.state) && { ...run.context };
  const answer = outcome(run, command);
  if (terminal) {
    expect(run.context, `${command}: a terminal run never changes`).toEqual(terminal);
    expect(run.rows.length, `${command}: its audit log is closed`).toBe(rows);
  }
  // What changed nothing goes on as if there had been no command.
  if (!answer.includes("-> same")) endsSoundly(run, command);
  return answer;
}

function endsSoundly(run: Situated, after = "no command"): void {
  run.finish();
  if (!run.ended) run.cancel();
  run.finish();
  expect(violations(run), `after ${after}`).toEqual([]);
}

describe("quarantine and carried dispatches", () => {
  it("a carried dispatch is sent again unchanged, and a carried queue place asks for the same call", () => {
    const dispatched = SITUATIONS.dispatched();
    const [first] = dispatched.dispatches.values();
    dispatched.now += 7_000;
    dispatched.once(COMMANDS["carry right"](dispatched));
    expect(dispatched.released).toEqual([{ kind: "dispatch.send", dispatch: first }]);
    const queued = SITUATIONS.queued();
    const [asked] = queued.queued.values();
    queued.once(COMMANDS["carry right"](queued));
    expect(queued.released).toEqual([asked]);
  });

  it("an answer in quarantine is not lost: it is taken once the run is released", () => {
    const run = SITUATIONS["dispatched, quarantined"]();
    const { dispatchId } = run;
    expect(run.result({ n: 1 }, { dispatchId })).toEqual({ type: "refused", reason: "the run is in quarantine" });
    run.command({ type: "release", actor: "user:ops" });
    expect(run.result({ n: 1 }, { dispatchId })).toEqual({ type: "report", stale: false });
    expect(run.context.variables.charge).toEqual({ n: 1 });
  });

  it("a signal that came in quarantine is taken at the release", () => {
    const run = SITUATIONS["signal, quarantined"]();
    expect(run.signal("go", { by: "first" })).toMatchObject({ matched: false });
    run.signal("go", { by: "second" });
    run.command({ type: "release", actor: "user:ops" });
    expect(run.state).toBe("succeeded");
    expect(run.context.variables.hold).toEqual({ by: "first" });
    expect(run.signals.map(({ consumed }) => consumed)).toEqual([true, false]);
  });

  it("a timer that became due in quarantine fires after the release, not before", () => {
    const run = SITUATIONS["timer, quarantined"]();
    expect(wakeAt(run.context)).toBeUndefined();
    run.elapse(86_400_000);
    expect(run.shape).toBe("paused timer quarantined");
    run.command({ type: "release", actor: "user:ops" });
    run.advance();
    expect(run.context.step).toBe("hold");
  });

  it("quarantine, release, cancel and signals are in the audit log, each with who asked", () => {
    const run = SITUATIONS["timer, quarantined"]();
    run.command({ type: "release", actor: "user:ops" });
    run.signal("other");
    run.cancel();
    const operated = run.rows.filter(({ metadata }) =>
      ["quarantine", "release", "signal", "cancel"].includes(String(metadata?.kind)),
    );
    expect(operated.map(({ type, actor, metadata }) => [type, actor, metadata?.kind])).toEqual([
      ["log", "coordinator", "quarantine"],
      ["log", "user:ops", "release"],
      ["log", "api", "signal"],
      ["log", "api", "cancel"],
    ]);
    expect(operated[2]?.metadata).toMatchObject({ name: "other", matched: false });
    expect(operated[3]?.metadata).toMatchObject({ reason: "asked to", compensate: true });
  });
});
