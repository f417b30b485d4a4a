// Short ways to write definitions in tests, and the generator of random ones.
import fc from "fast-check";
import { compileWorkflow, type Program } from "../../machines/index.js";

export type StepDocument = Record<string, unknown> & { id: string; type: string };

export function program(steps: readonly StepDocument[], head: Record<string, unknown> = {}): Program {
  const compiled = compileWorkflow({ id: "test", name: "test", start: steps[0]?.id, steps, ...head });
  if (!compiled.program) throw new Error(JSON.stringify(compiled.problems, null, 1));
  return compiled.program;
}

export const ACTIONS = {
  "shop.charge": { compensable: true },
  "shop.refund": {},
  "shop.notify": {},
  "shop.strict": { outputSchema: { required: ["ok"] } },
  "shop.break": {},
};

const retry = fc.record({
  max_attempts: fc.constantFrom(1, 2, 3),
  initial_backoff_ms: fc.constantFrom(0, 10, 1000),
  jitter: fc.boolean(),
});

const compensation = fc.constantFrom(
  { action: "shop.refund" },
  { action: "shop.refund", inputs: { of: "${output}", also: "${has(vars.x) ? vars.x : 0}" } },
  { action: "shop.break", inputs: { broken: "${vars.nowhere}" } },
  { action: "shop.missing" },
);

/** A step of any type of the language's small half; targets are filled in by the graph. */
function step(index: number, target: fc.Arbitrary<string>): fc.Arbitrary<StepDocument> {
  const id = index % 3 === 0 ? `s.${index}` : `s${index}`;
  const common = {
    on_error: fc.option(fc.oneof(fc.constantFrom("fail", "continue"), target), { nil: undefined }),
    when: fc.option(fc.constantFrom("true", "false", "has(vars.x)", "vars.nowhere"), { nil: undefined }),
    save_as: fc.option(fc.constantFrom("x", "y", null), { nil: undefined }),
    compensation: fc.option(compensation, { nil: undefined, freq: 3 }),
    next: fc.option(target, { nil: undefined, freq: 6 }),
  };
  const of = (type: string, attributes: Record<string, fc.Arbitrary<unknown>>, without: string[] = []) =>
    fc.record({ id: fc.constant(id), type: fc.constant(type), ...common, ...attributes }).map((made) => {
      const entries = Object.entries(made).filter(([key, value]) => value !== undefined && !without.includes(key));
      return Object.fromEntries(entries) as StepDocument;
    });
  return fc.oneof(
    of("noop", {}),
    of("set_var", {
      variables: fc.constantFrom({ x: 1 }, { x: "${inputs.n + 1}", y: "${vars}" }, { y: "${vars.nowhere}" }),
    }),
    of("transform", {
      expression: fc.constantFrom("inputs.n * 2", "{'a': [1, 2.5]}", "null", "1 / 0", "run.id", "now"),
    }),
    of("decision", {
      expression: fc.constantFrom("inputs.n", "'a'", "vars.nowhere"),
      branches: fc.tuple(target, target).map(([left, right]) => ({ a: { next: left }, "1": { next: right } })),
    }),
    of("switch", {
      cases: fc.tuple(target, target).map(([left, right]) => [
        { when: "inputs.n > 2", next: left },
        { when: "has(vars.x)", next: right },
      ]),
    }),
    of("error", { code: fc.constantFrom("mine", undefined) }, ["next"]),
    of("log", { message: fc.constantFrom("n is ${inputs.n}", "${vars.nowhere}") }),
    of("assert", { condition: fc.constantFrom("inputs.n > 1", "false") }),
    of("wait_duration", { duration_ms: fc.constantFrom(0, 50, 5000) }),
    of("wait_until", { until: fc.constantFrom("2001-01-01T00:00:00Z", "${now + duration('10s')}") }),
    of("wait_for_signal", {
      signal_name: fc.constantFrom("go", "stop"),
      timeout_ms: fc.option(fc.constantFrom(0, 3000), { nil: undefined }),
      on_timeout: fc.option(fc.constantFrom("fail", "continue"), { nil: undefined }),
    }),
    ...[0, 1, 2].map(() =>
      of("action", {
        action: fc.constantFrom("shop.charge", "shop.notify", "shop.strict", "shop.missing", "shop.charge@1"),
        inputs: fc.constantFrom({ n: "${inputs.n}" }, { broken: "${vars.nowhere}" }, {}),
        timeout_ms: fc.constantFrom(1000, 20_000),
        heartbeat_timeout_ms: fc.option(fc.constantFrom(500), { nil: undefined }),
        queue_timeout_ms: fc.option(fc.constantFrom(4000), { nil: undefined }),
        retry: fc.option(retry, { nil: undefined }),
      }),
    ),
    of("end", { output: fc.constantFrom("${vars}", { n: "${inputs.n}" }) }, ["next"]),
  );
}

/** Random documents; most edges lead forward, some back, so that loops happen. */
export const documents: fc.Arbitrary<{ steps: StepDocument[]; head: Record<string, unknown> }> = fc
  .integer({ min: 1, max: 9 })
  .chain((size) => {
    const names = Array.from({ length: size }, (_, index) => (index % 3 === 0 ? `s.${index}` : `s${index}`));
    const steps = names.map((_, index) => {
      const forward = names.slice(index + 1);
      const back = fc.constantFrom(...names);
      return step(
        index,
        forward.length > 0
          ? fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...forward) }, { weight: 1, arbitrary: back })
          : back,
      );
    });
    return fc
      .tuple(fc.tuple(...steps), fc.option(fc.constantFrom(3000, 60_000), { nil: undefined }))
      .map(([steps, timeout]) => ({ steps, head: timeout === undefined ? {} : { timeout_ms: timeout } }));
  });
