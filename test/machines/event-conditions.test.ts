// What is derived from a `match` for the store's index. It may be too little, and never too much: no event that passes the `match` is
// without what it must equal.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compileExpression, ExpressionError, instant, type Scope, withFuel } from "../../machines/expression/index.js";
import { meets } from "../../machines/memory/facts.js";
import { eventConditions, eventValue } from "../../machines/steps/event.js";
import type { Json, JsonObject } from "../../machines/values/json.js";
import { cases } from "../harness/long.js";

const now = Date.UTC(2026, 10, 21, 9, 30);
const scope: Scope = {
  inputs: { of: "me", n: 2, half: 0.5, no: null, yes: true, long: "x".repeat(300), list: [1, 2], deep: { of: "me" } },
  vars: { "step-1": { id: "1" }, zero: 0, big: "x".repeat(1_000_000) },
  run: { id: "r1", started_at: instant(now) },
  now: instant(now),
};
const conditionsOf = (source: string) => eventConditions(compileExpression(source), scope, 7)?.equal;
const is = (value: Json, ...path: string[]) => ({ [JSON.stringify(["payload", ...path])]: value });

describe("what an event must equal", () => {
  it.each<[string, JsonObject]>([
    ["event.payload.of == inputs.of", is("me", "of")],
    ["inputs.of == event.payload.of", is("me", "of")],
    ['event.payload["a b"].c == vars["step-1"].id', is("1", "a b", "c")],
    [
      "event.payload.a == 1 && event.payload.b > 2 && (event.payload.c == 3u && true)",
      { ...is(1, "a"), ...is(3, "c") },
    ],
    ["event.payload.n == inputs.n + 1", is(3, "n")],
    ["event.payload.n == -0.0", is(0, "n")],
    ["event.payload.of == 'order-' + string(inputs.n)", is("order-2", "of")],
    ["event.payload.x == null && event.payload.y == inputs.yes", { ...is(null, "x"), ...is(true, "y") }],
    ["event.payload == inputs.half", is(0.5)],
    ["event.headers.of == inputs.of", { '["headers","of"]': "me" }],
    ["event.payload.x == inputs.missing && event.payload.of == inputs.of", is("me", "of")],
  ])("follows from %s", (match, equal) => {
    expect(eventConditions(compileExpression(match), scope, 7)).toEqual({ entry: 7, equal });
  });

  it.each([
    "event.payload.n > 1",
    "event.payload.n != 1",
    "event.payload.n == 1 || event.payload.of == 'me'",
    "event.payload.n == 1 ? true : true",
    "!(event.payload.n == 1)",
    "has(event.payload.n) == true",
    "event.payload.a == event.payload.b",
    "event.payload.list[0] == 1",
    "event.payload.list == inputs.list",
    "event.payload.n in inputs.list",
    "event.topic == 'sent'",
    "event.payload.at == now",
    "event.payload.n == 9007199254740993",
    "event.payload.n == 1.0 / 0.0",
    "event.payload.of == inputs.long",
    "event.payload.of == '\\u0000'",
    'event.payload["\\u0000"] == 1',
    "event.payload.n == inputs.list.filter(n, n > 1)[0]",
    "[1].exists(event, event == 1)",
    "event.payload.?n == optional.of(1)",
    "event.payload.?n.orValue(1) == 1",
    "event.?payload.n == optional.of(1)",
    "event.payload[?'n'] == inputs.?n",
    "event.payload.n == decimal('1')",
    "cel.bind(event, {'payload': {'n': 1}}, event.payload.n == 1)",
    "cel.bind(n, 1, event.payload.n == n)",
    "event.payload.n == cel.bind(n, 1, n)",
    "true",
  ])("is nothing that can be looked up in %s", (match) => {
    expect(conditionsOf(match)).toBeUndefined();
  });

  it("is found within a small budget of its own, which the step does not pay", () => {
    const costly = `event.payload.x == size(${Array.from({ length: 40 }, () => "vars.big").join(" + ")})`;
    expect(conditionsOf(`event.payload.of == inputs.of && ${costly} && event.payload.n == 1`)).toEqual(is("me", "of"));
    expect(withFuel(() => compileExpression("size(vars.big)").evaluate(scope))).toBe(1_000_000);
  });

  it("has at most eight members", () => {
    const all = Array.from({ length: 20 }, (_, nth) => `event.payload.a${nth} == ${nth}`);
    expect(Object.keys(conditionsOf(all.join(" && ")) ?? {})).toHaveLength(8);
  });
});

const names = fc.constantFrom("a", "b", "c d");
const path = fc.oneof(
  fc.constantFrom("event.headers.a", "event.payload", "event.payload.a", 'event.payload["c d"]', "event.topic"),
  fc.tuple(names, names).map((path) => `event.payload${path.map((name) => `["${name}"]`).join("")}`),
  fc.constantFrom("event.payload.a[0]", 'event.payload["a"]["0"]', "event.payload.missing", "event.payload.?a"),
);
const side = fc.constantFrom(
  ...["'1'", "1", "1u", "1.0", "0", "-1", "true", "false", "null", "'me'", "inputs.of", "inputs.n", "inputs.n - 1"],
  ...["inputs.half", "inputs.yes", "inputs.no", "inputs.missing", "vars.zero", "'m' + 'e'", "string(1)", "int('1')"],
  ...["inputs.deep.of", "inputs.list", "inputs.list[0]", "run.started_at", "now", "event.payload.b", "duration('1s')"],
  ...["[1, 2].map(event, event)[0]", "(inputs.yes ? 1 : 2)", "(1 == 1)", "has(inputs.n)", "inputs.?n"],
  ...["decimal('2.0')", "math.round(1.5)", "cel.bind(n, 1, n)"],
);
const comparison = fc
  .tuple(path, fc.constantFrom("==", "==", "==", "!=", "<", "in"), side, fc.boolean())
  .map(([path, operator, side, turned]) =>
    turned && operator !== "in" ? `${side} ${operator} ${path}` : `${path} ${operator} ${side}`,
  );
const { match } = fc.letrec<{ match: string }>((tie) => ({
  match: fc.oneof(
    { maxDepth: 3 },
    { weight: 3, arbitrary: comparison },
    { weight: 3, arbitrary: fc.tuple(tie("match"), tie("match")).map(([one, other]) => `${one} && ${other}`) },
    { weight: 1, arbitrary: fc.tuple(tie("match"), tie("match")).map(([one, other]) => `(${one} || ${other})`) },
    { weight: 1, arbitrary: fc.tuple(tie("match"), tie("match")).map(([one, other]) => `(${one} && ${other})`) },
    { weight: 1, arbitrary: tie("match").map((inner) => `!(${inner})`) },
    { weight: 1, arbitrary: tie("match").map((inner) => `(has(event.payload.a) ? ${inner} : true)`) },
    { weight: 1, arbitrary: fc.constantFrom("true", "event.payload.a", "1", "has(event.payload.a)") },
  ),
}));
const scalar = fc.constantFrom<Json>("1", "me", "x", "", 0, 1, 2, 0.5, -1, true, false, null);
const inner = fc.oneof(
  { weight: 4, arbitrary: scalar },
  { weight: 1, arbitrary: fc.dictionary(fc.constantFrom("a", "b", "c d", "0"), scalar, { maxKeys: 3 }) },
  { weight: 1, arbitrary: fc.array(scalar, { maxLength: 2 }) },
);
const payload: fc.Arbitrary<Json> = fc.oneof(
  { weight: 1, arbitrary: scalar },
  { weight: 8, arbitrary: fc.dictionary(fc.constantFrom("a", "b", "c d"), inner, { maxKeys: 3 }) },
);
const headers = fc.dictionary(fc.constantFrom("a"), fc.constantFrom("1", "me", "x"));

/** The event with what it must equal, so that more events pass. */
function fitted<E extends { payload: Json; headers: JsonObject }>(event: E, equal: JsonObject): E {
  const put = (target: Json, [name, ...rest]: readonly string[], value: Json): Json => {
    if (name === undefined) return value;
    const members =
      typeof target === "object" && target !== null && !Array.isArray(target) ? (target as JsonObject) : {};
    return { ...members, [name]: put(members[name] ?? null, rest, value) };
  };
  return Object.entries(equal).reduce(
    (event, [path, value]) => put(event, JSON.parse(path) as string[], value) as unknown as E,
    event,
  );
}

function passes(source: string, event: JsonObject): boolean {
  try {
    return compileExpression(source).test({ ...scope, event });
  } catch (error) {
    if (error instanceof ExpressionError) return false;
    throw error;
  }
}

describe("an event that passes the match", () => {
  it("equals what it must, whatever the match and the event", () => {
    const seen = { conditions: 0, passed: 0, both: 0 };
    fc.assert(
      fc.property(
        match,
        fc.array(fc.record({ payload, headers }), { minLength: 4, maxLength: 4 }),
        (source, events) => {
          const conditions = eventConditions(compileExpression(source), scope, 1);
          if (conditions) seen.conditions++;
          for (const event of [...events, ...events.map((one) => fitted(one, { ...conditions?.equal }))]) {
            if (!passes(source, eventValue({ id: "e", ordinal: "1", topic: "sent", ...event }))) continue;
            seen.passed++;
            if (conditions) seen.both++;
            expect(meets(event, conditions), `${source} passes ${JSON.stringify(event)}`).toBe(true);
          }
        },
      ),
      { numRuns: cases(150, 1_200) },
    );
    for (const count of Object.values(seen)) expect(count).toBeGreaterThan(10);
  });
});
