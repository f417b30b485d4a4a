// Values at which a host throws: instants beyond the calendar, integers beyond 64 bits, texts beyond all bounds. In whichever step they
// are computed, the run goes on or takes the way of a failed step; the decision itself never throws.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are our templates, not JavaScript's.
import { describe, expect, it } from "vitest";
import type { Json } from "../../machines/index.js";
import { type Draft, start } from "./steps/rig.js";

const nested = (depth: number): Json => (depth === 0 ? 1 : { d: nested(depth - 1) });
const list = Array.from({ length: 3_000 }, (_, index) => index);
const inputs = {
  ...{ list, deep: nested(180), big: "a".repeat(1 << 19), smile: "\u{1F600}", huge: 1e300, half: 0.5, nothing: null },
  ...{ tiny: 5e-324, max: Number.MAX_SAFE_INTEGER, keys: Object.fromEntries(list.map((n) => [`k${n}`, n])) },
};

const FAR = "google.protobuf.Timestamp{seconds: 999999999999999}";

const HOSTILE: readonly string[] = [
  // Instants and durations beyond the calendar, or that are none.
  FAR,
  "google.protobuf.Timestamp{seconds: -99999999999999}",
  "google.protobuf.Timestamp{seconds: 9223372036854775807}",
  "google.protobuf.Timestamp{nanos: -2147483648}",
  `[${FAR}]`,
  `{'at': ${FAR}}`,
  `string(${FAR})`,
  `${FAR}.getFullYear()`,
  `${FAR}.getHours('Europe/Berlin')`,
  `'%s'.format([${FAR}])`,
  `${FAR} - timestamp(0)`,
  `${FAR} + duration('1s')`,
  `{${FAR}: 1}`,
  `[1].map(x, ${FAR})`,
  `true ? ${FAR} : null`,
  "google.protobuf.Duration{seconds: 9223372036854775807}",
  "google.protobuf.Duration{nanos: 2147483647}",
  "timestamp('9999-12-31T23:59:59Z') + duration('315576000000s')",
  "timestamp('0001-01-01T00:00:00Z') - duration('1h')",
  "timestamp('2024-02-30T00:00:00Z')",
  "timestamp('+275760-09-13T00:00:00Z')",
  "timestamp(253402300800)",
  "duration('99999999999999999999s')",
  "now.getHours('Nowhere/City')",
  "now.getHours('+99:99')",
  // Numbers.
  "9223372036854775807 * 9223372036854775807",
  "-9223372036854775808 / -1",
  "99999999999999999999999999 + 1",
  "18446744073709551615u + 1u",
  "int(inputs.huge)",
  "uint(-1)",
  "int(0.0 / 0.0)",
  "1.0 / 0.0",
  "[0.0 / 0.0]",
  "5 % 0",
  "inputs.list[inputs.huge]",
  "inputs.list[-1]",
  "google.protobuf.Int32Value{value: 99999999999}",
  "google.protobuf.FloatValue{value: 1e300}",
  "google.protobuf.Value{number_value: 0.0 / 0.0}",
  // Texts.
  "'%.1000f'.format([1.5])",
  "'%.99999999999f'.format([1.5])",
  "'%d'.format([inputs.half])",
  "'%x'.format([-1])",
  "'%z'.format([1])",
  "'%s %s'.format([1])",
  "'%s'.format([type(1)])",
  "string(b'\\xff')",
  "inputs.smile.charAt(0)",
  "inputs.smile.substring(5, 1)",
  "'abc'.split('', -9223372036854775808)",
  "'abc'.indexOf('b', 9223372036854775807)",
  "'a\\u0000b'",
  "inputs.list.map(x, inputs.big).join('')",
  // Patterns.
  "'x'.matches('(?=a)')",
  "'x'.matches('((a{1000}){1000}){1000}')",
  "'x'.matches(inputs.big)",
  // Lists, maps and messages.
  "{'__proto__': 1}",
  "{[1]: 1}",
  "{1: 1, 1u: 2}",
  "[[[[[[[[[[[[[[[[[[[[[inputs.deep]]]]]]]]]]]]]]]]]]]]]",
  "inputs.list.map(x, inputs.list)",
  "google.protobuf.Any{type_url: 'type.googleapis.com/google.protobuf.Timestamp', value: b'\\xff\\xff'}",
  "google.protobuf.Any{}",
  "google.protobuf.Struct{fields: {'__proto__': 1.0}}",
  "google.protobuf.Value{struct_value: inputs.deep}",
  "google.protobuf.ListValue{values: inputs.list}",
  "nope.Type{}",
  "type(1)",
  "inputs.nothing.member",
  "inputs.huge.map(x, x)",
  "!1",
  "-true",
];

/** Where an expression may be. */
const PLACES: Readonly<Record<string, (source: string) => readonly Draft[]>> = {
  "a transform": (expression) => [{ type: "transform", expression }],
  "a template": (source) => [{ type: "set_var", variables: { x: `\${${source}}`, y: [`so \${${source}}`] } }],
  "a condition": (when) => [{ type: "noop", when }],
  "an instant to wait for": (source) => [{ type: "wait_until", until: `\${${source}}` }],
  "a duration": (source) => [{ type: "wait_duration", duration: `\${${source}}` }],
  "the items of a filter": (items) => [{ type: "filter", items, condition: "item == item" }],
  "the condition of a filter": (condition) => [{ type: "filter", items: "[1, 2]", condition }],
  "a retry policy": (source) => [
    { type: "action", action: "shop.notify", retry: { max_attempts: `\${${source}}`, initial_backoff_ms: 1 } },
  ],
  "the inputs of an undo": (source) => [
    { type: "action", action: "shop.notify", compensation: { action: "shop.refund", inputs: { x: `\${${source}}` } } },
    { type: "error", code: "over", message: "over" },
  ],
};

/** A failed step, or a step that went on: both are the run's own way. */
function goesOn(steps: readonly Draft[]): string {
  const { state, context } = start(steps, { inputs });
  return context.ending?.error?.code ?? state;
}

describe("a value at which the host throws", () => {
  it.each(HOSTILE)("%s: the run goes on, or its step has failed with an expression_error", (source) => {
    for (const [place, steps] of Object.entries(PLACES))
      expect(goesOn(steps(source)), place).toMatch(
        /^(expression_error|limit_exceeded|over|succeeded|paused|running|compensating)$/,
      );
  });

  it("fails its step as any other error: the catch of a try takes it", () => {
    const steps: Draft[] = [
      { type: "try_catch", try: "s2", catch: "s3" },
      { type: "transform", expression: FAR },
      { type: "set_var", variables: { caught: "${error.code}" } },
    ];
    const { state, context } = start(steps);
    expect(state).toBe("succeeded");
    expect(context.variables.caught).toBe("expression_error");
  });

  it("names the class of the host's error, and never a value", () => {
    const { context } = start([{ type: "transform", expression: FAR }]);
    expect(context.ending?.error?.message).toBe(`evaluation failed (RangeError): ${FAR} in steps[0].expression`);
  });
});
