// The words of the console without a browser: states, names of steps, what happens next, what does not fit a form, numbers with their nouns.
import { describe, expect, it } from "vitest";
import { stepBook } from "../../machines/index.js";
import { evaluated, stepName } from "../../src/console/graph/names.js";
import { problemOf } from "../../src/console/keys/grant.js";
import { childName } from "../../src/console/parts/belongs.js";
import { misfits } from "../../src/console/parts/form-validator.js";
import { counted } from "../../src/console/parts/plural.js";
import { stateName } from "../../src/console/parts/state-words.js";
import { nextWords } from "../../src/console/run/next-words.js";
import { quarantineWords } from "../../src/console/run/quarantine-words.js";
import { END_WORDS, rowParts, rowWords, UNDO_WORDS } from "../../src/console/story/words.js";
import { ageWords, dueWords, type TimedTask } from "../../src/console/tasks/age-words.js";

/** A number and its unit stay in one line. */
const plain = (text: string) => text.replaceAll("\u00a0", " ");

const said = (state: string, reason?: string) => {
  const { word, more } = stateName(state, reason);
  return more === undefined ? word : `${word} ${more}`;
};

describe("a state", () => {
  it("is called waiting where the run waits, and paused only where a person paused it", () => {
    expect(said("paused", "signal")).toBe("waiting for a signal");
    expect(said("paused", "user_task")).toBe("waiting for a person");
    expect(said("paused", "children")).toBe("waiting for child runs");
    expect(said("paused", "retry")).toBe("waiting to try again");
    expect(said("paused", "operator")).toBe("paused by an operator");
    expect(said("running")).toBe("running");
  });

  it("is red at an incident, in a rollback too, and has the colour of a wait while its children work", () => {
    expect(stateName("paused", "incident")).toMatchObject({ word: "at an incident", tone: "failed" });
    expect(said("compensating", "incident")).toBe("rolling back at an incident");
    expect(stateName("compensating", "incident").tone).toBe("failed");
    expect(stateName("paused", "children").tone).toBe("waiting");
  });

  it("of a later release is shown as the service calls it", () => {
    expect(said("frozen", "ice")).toBe("frozen ice");
  });
});

describe("the name of a step", () => {
  const scope = {
    inputs: { city: "Reykjavík", people: 3, "a b": ["x"], hotel: { name: "" } },
    variables: { ok: true },
  };

  it.each([
    ["Reise nach ${inputs.city} für ${inputs.people}", "Reise nach Reykjavík für 3"],
    ['${inputs["a b"][0]} ${vars.ok}', "x true"],
    ["plain", "plain"],
  ])("%s is its title with the values of the run", (template, text) => expect(evaluated(template, scope)).toBe(text));

  it.each(["${inputs.none}", "${inputs.city.size()}", "${inputs.hotel}", "${now()}", "${inputs.constructor}"])(
    "is the id where %s is not known",
    (template) => expect(evaluated(template, scope)).toBeUndefined(),
  );
});

describe("what happens next", () => {
  const at = "2026-11-27T22:15:00.000Z";
  const next = (kind: string, step: object = {}, until = at) =>
    nextWords(
      { next_at: at, waiting_for: [{ kind, step_id: "s", until }] },
      { documents: new Map([["s", { id: "s", ...step }]]), names: new Map([["escalate", "Ask the boss"]]) },
      stepBook(),
    );

  it("of an approval with a deadline is that it fails, unless the definition says otherwise", () => {
    expect(next("user_task", { type: "manual_approval" })).toEqual({
      before: "If it is not decided until",
      after: ", the approval fails",
    });
    expect(next("user_task", { type: "manual_approval", on_timeout: "escalate" })?.after).toBe(
      ", the run goes on at Ask the boss",
    );
    expect(next("signal", { inputs: { on_timeout: "continue" } })?.after).toBe(", the run goes on without it");
    expect(next("signal")).toEqual({ before: "If no signal comes until", after: ", the step fails" });
  });

  it("of a timer or a retry is that the run goes on by itself", () => {
    expect(next("timer")).toEqual({ before: "It goes on by itself at", after: "" });
    expect(next("retry")?.before).toBe("It is tried again at");
  });

  it("is only a time where it is another one's, and nothing where there is none", () => {
    expect(next("user_task", {}, "2026-11-28T00:00:00.000Z")?.before).toBe("Its next timer or deadline is at");
    expect(nextWords({ waiting_for: [] }, undefined, stepBook())).toBeUndefined();
  });
});

describe("what does not fit a form", () => {
  it.each([
    [{ type: "string" }, null, "is required"],
    [{ type: "string" }, 3, "must be a text"],
    [{ type: ["integer", "boolean"] }, "x", "must be a whole number or yes or no"],
    [{ enum: ["slow", "fast"] }, "x", "must be one of slow, fast"],
    [{ const: "yes" }, "no", "must be yes"],
    [{ type: "string", minLength: 1 }, "", "must not be empty"],
    [{ type: "string", minLength: 3 }, "ab", "must have at least 3 characters"],
    [{ type: "string", format: "email" }, "x", "must be an e-mail address"],
    [{ type: "number", minimum: 2 }, 1, "must be at least 2"],
    [{ type: "number", exclusiveMaximum: 2 }, 2, "must be less than 2"],
    [{ type: "array", minItems: 2 }, [1], "must have at least 2 entries"],
    [{ type: "array", uniqueItems: true }, [1, 1], "must not have the same entry twice"],
    [{ additionalProperties: false }, { extra: 1 }, "must not have extra"],
  ])("%j: %j %s, without the names of JSON Schema", (schema, value, message) => {
    expect(misfits({ properties: { it: schema } }, { it: value }).map((one) => one.message)).toEqual([message]);
  });
});

describe("the reason of a quarantine", () => {
  const last = { trials: 3, end: "ended", heap_mb: 18, ms: 11 } as const;

  it.each([
    [{ ...last, signal: "SIGKILL" }, "ended with SIGKILL after 11 ms, with a heap of 18 MB"],
    [{ ...last, exit_code: 134 }, "ended with exit code 134 after 11 ms, with a heap of 18 MB"],
    [{ ...last, out_of_memory: true }, "ran out of memory after 11 ms, with a heap of 18 MB"],
    [{ ...last, end: "hung" as const }, "did not react any more and was killed after 11 ms, with a heap of 18 MB"],
  ])("%j is a sentence", (quarantine, end) => {
    expect(plain(quarantineWords(quarantine, "Sleep an hour"))).toBe(
      `The service tried the step “Sleep an hour” 3 times, each time alone in a process, and each process died. The last one ${end}.`,
    );
  });

  it("names no step where the run has none", () => {
    expect(quarantineWords({ ...last, trials: 1 }, undefined)).toContain("tried the next step of the run 1 time,");
  });
});

describe("the times of a task", () => {
  const now = Date.parse("2026-11-27T12:00:00.000Z");
  const task = (more: Partial<TimedTask>): TimedTask => ({
    ...{ status: "open", opened_at: "2026-11-27T11:59:58.900Z" },
    ...more,
  });
  const due_at = "2026-11-27T12:30:00.000Z";

  it("say for how long it has been open, and when it is due", () => {
    expect(plain(ageWords(task({}), now).words)).toBe("open for 1.1 s");
    expect(plain(dueWords(task({ due_at }), now)?.words ?? "")).toBe("due in 30 min");
    expect(dueWords(task({ due_at: "2026-11-27T11:00:00.000Z" }), now)).toMatchObject({ isLate: true });
  });

  it("say of one that is over when that was", () => {
    const expired = task({ status: "expired", due_at });
    expect(ageWords(expired, now)).toMatchObject({ words: "expired, opened", at: expired.opened_at, showsTime: true });
    expect(dueWords(expired, now)).toMatchObject({ words: "was due", at: due_at });
    const submitted = task({ status: "submitted", submitted_at: due_at, submitted_by: "bob", due_at });
    expect(ageWords(submitted, now)).toMatchObject({ words: "submitted by bob", at: due_at });
    expect(dueWords(submitted, now)).toBeUndefined();
  });
});

describe("the name of a child run", () => {
  const names = (step: string) => ({ fork: "Deliver" })[step] ?? step;

  it("has the title of its parent's step where that is known", () => {
    const branch = { parent_step_id: "fork", parent_branch_id: "pay", workflow_id: "order" };
    expect([childName(branch), childName(branch, names)]).toEqual(["fork[pay]", "Deliver[pay]"]);
    expect(childName({ parent_step_id: "fork", workflow_id: "parcel" }, names)).toBe("Deliver: parcel");
  });

  it("has the title with the values of the run, or the id", () => {
    const steps = [{ id: "a", title: "To ${inputs.city}" }, { id: "b" }];
    expect(stepName(steps, "a", { inputs: { city: "Oslo" } })).toBe("To Oslo");
    expect([stepName(steps, "a", {}), stepName(steps, "b", {}), stepName([], "c", {})]).toEqual(["a", "b", "c"]);
  });
});

describe("one word for one thing", () => {
  const row = (event_type: string, metadata = {}) => ({
    ...{ seq: 1, event_type, metadata, step_id: "pay", attempt: 1, actor: "coordinator" },
    ...{ from_state: "running", to_state: "running", recorded_at: "2026-11-27T00:00:00.000Z" },
  });

  it("is used for a step that is through, and another one for a step that was undone", () => {
    expect(rowWords(row("step.succeeded"))).toBe(`pay: ${END_WORDS.done}`);
    expect(rowWords(row("step.succeeded", { phase: "compensation" }))).toBe(`pay: ${UNDO_WORDS.undone}`);
    expect(rowWords(row("step.succeeded"), new Map([["pay", "Charge the card"]]))).toBe("Charge the card: succeeded");
  });

  it("says what an operator or the service did to a run, and keeps the name of the step apart", () => {
    const names = new Map([["pay", "Charge the card"]]);
    expect(rowParts(row("log", { kind: "quarantine" }), names)).toEqual({
      ...{ step: "Charge the card", said: "put in quarantine" },
    });
    expect(rowWords(row("log", { kind: "pause" }))).toBe("pay: paused by an operator");
    expect(rowWords(row("log", { kind: "of_a_later_release" }))).toBe("pay: of a later release");
  });

  it("has its number", () => {
    expect([counted(0, "attempt"), counted(1, "attempt"), counted(2, "child", "children")]).toEqual([
      ...["0 attempts", "1 attempt", "2 children"],
    ]);
  });
});

describe("a field of a new API key", () => {
  it("says what is wrong without a word of the validator", () => {
    const details = [
      { path: "$.workflows[0]", message: "must match the pattern ^a(b|c)$" },
      { path: "$.name", message: "must be a string" },
    ];
    expect(problemOf(details, "workflows")).toBe("does not have the form that is asked for");
    expect(problemOf(details, "name")).toBe("must be a text");
    expect(problemOf(details, "roles")).toBeUndefined();
  });
});
