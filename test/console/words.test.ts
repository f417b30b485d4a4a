// The words of the console without a browser: states, names of steps, what happens next, what does not fit a form, numbers with their nouns.
import { describe, expect, it } from "vitest";
import { stepBook } from "../../machines/index.js";
import { evaluated } from "../../src/console/graph/names.js";
import { misfits } from "../../src/console/parts/form-validator.js";
import { counted } from "../../src/console/parts/plural.js";
import { stateName } from "../../src/console/parts/state-words.js";
import { nextWords } from "../../src/console/run/next-words.js";
import { rowWords, STANDING_WORDS, UNDO_WORDS } from "../../src/console/story/words.js";

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

  it("is red at an incident, in a rollback too, and not in the colour of a wait while children work", () => {
    expect(stateName("paused", "incident")).toMatchObject({ word: "at an incident", tone: "failed" });
    expect(said("compensating", "incident")).toBe("rolling back at an incident");
    expect(stateName("compensating", "incident").tone).toBe("failed");
    expect(stateName("paused", "children").tone).toBe("running");
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
      new Map([["s", { id: "s", ...step }]]),
      stepBook(),
    );

  it("of an approval with a deadline is that it fails, unless the definition says otherwise", () => {
    expect(next("user_task", { type: "manual_approval" })).toEqual({
      before: "If it is not decided until",
      after: ", the approval fails",
    });
    expect(next("user_task", { type: "manual_approval", on_timeout: "escalate" })?.after).toBe(
      ", the run goes on at escalate",
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
    expect(nextWords({ waiting_for: [] }, new Map(), stepBook())).toBeUndefined();
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

describe("one word for one thing", () => {
  const row = (event_type: string, metadata = {}) => ({
    ...{ seq: 1, event_type, metadata, step_id: "pay", attempt: 1, actor: "coordinator" },
    ...{ from_state: "running", to_state: "running", recorded_at: "2026-11-27T00:00:00.000Z" },
  });

  it("is used for a step that is through, and another one for a step that was undone", () => {
    expect(rowWords(row("step.succeeded"))).toBe(`pay: ${STANDING_WORDS.done}`);
    expect(rowWords(row("step.succeeded", { phase: "compensation" }))).toBe(`pay: ${UNDO_WORDS.undone}`);
    expect(rowWords(row("step.succeeded"), new Map([["pay", "Charge the card"]]))).toBe("Charge the card: succeeded");
  });

  it("has its number", () => {
    expect([counted(0, "attempt"), counted(1, "attempt"), counted(2, "child", "children")]).toEqual([
      ...["0 attempts", "1 attempt", "2 children"],
    ]);
  });
});
