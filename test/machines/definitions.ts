// Short ways to write definitions in tests, and a generator of random ones without blocks. families.ts generates those with blocks.
import fc from "fast-check";
import { compileWorkflow, type Program } from "../../machines/index.js";

export type StepDocument = Record<string, unknown> & { id: string; type: string };

/** A document is run again at each point of a crash or a cancel. Its program never changes, so it is compiled once. */
const compiledPrograms = new Map<string, Program>();
const MOST_PROGRAMS = 200;

export function program(steps: readonly StepDocument[], head: Record<string, unknown> = {}): Program {
  const document = { id: "test", name: "test", start: steps[0]?.id, steps, ...head };
  const key = JSON.stringify(document);
  const compiled = compiledPrograms.get(key) ?? compile(document);
  if (compiledPrograms.size >= MOST_PROGRAMS) compiledPrograms.clear();
  compiledPrograms.set(key, compiled);
  return compiled;
}

function compile(document: unknown): Program {
  const { program, problems } = compileWorkflow(document);
  if (!program) throw new Error(JSON.stringify(problems, null, 1));
  return program;
}

export const ACTIONS = {
  "shop.charge": { compensable: true },
  "shop.refund": {},
  "shop.notify": {},
  "shop.strict": { outputSchema: { required: ["ok"] } },
  "shop.break": {},
};

export const retry = fc.record({
  max_attempts: fc.constantFrom(1, 2, 3),
  initial_backoff_ms: fc.constantFrom(0, 10, 1000),
  jitter: fc.boolean(),
});

export const compensation = fc.constantFrom(
  { action: "shop.refund" },
  { action: "shop.refund", inputs: { of: "${output}", also: "${has(vars.x) ? vars.x : 0}" } },
  { action: "shop.break", inputs: { broken: "${vars.nowhere}" } },
  { action: "shop.missing" },
);

/** Every third has a dot, which the chart must not read as a path. */
export const stepId = (index: number) => (index % 3 === 0 ? `s.${index}` : `s${index}`);

/** A step of any type of the language's small half, blocks not; targets are filled in by the graph. */
export function step(id: string, target: fc.Arbitrary<string>): fc.Arbitrary<StepDocument> {
  const common = {
    on_error: fc.option(fc.oneof(fc.constantFrom("fail", "continue"), target), { nil: undefined }),
    when: fc.option(fc.constantFrom("true", "false", "has(vars.x)", "vars.nowhere"), { nil: undefined, freq: 1 }),
    save_as: fc.option(fc.constantFrom("x", "y", null), { nil: undefined }),
    compensation: fc.option(compensation, { nil: undefined, freq: 3 }),
    on_failure: fc.option(fc.constantFrom("incident", "rollback"), { nil: undefined, freq: 1 }),
    next: fc.option(target, { nil: undefined, freq: 6 }),
  };
  const of = (type: string, attributes: Record<string, fc.Arbitrary<unknown>>, without: string[] = []) =>
    fc.record({ id: fc.constant(id), type: fc.constant(type), ...common, ...attributes }).map((made) => {
      const entries = Object.entries(made).filter(([key, value]) => value !== undefined && !without.includes(key));
      return Object.fromEntries(entries) as StepDocument;
    });
  const rarely = <T>(made: fc.Arbitrary<T>) => fc.option(made, { nil: undefined, freq: 1 });
  return fc.oneof(
    of("noop", {}),
    of("set_var", {
      variables: fc.constantFrom({ x: 1 }, { x: "${inputs.n + 1}", y: "${vars}" }, { y: "${vars.nowhere}" }),
    }),
    of("transform", {
      expression: fc.constantFrom("inputs.n * 2", "{'a': [1, 2.5]}", "null", "1 / 0", "run.id", "now"),
    }),
    of("merge", {
      sources: fc.constantFrom(["{'a': 1}", "{'b': [inputs.n]}"], ["inputs", "vars"], ["vars.nowhere"]),
      strategy: fc.constantFrom("shallow", "deep"),
    }),
    of("filter", {
      items: fc.constantFrom("[1, 2, 3]", "vars.x"),
      condition: fc.constantFrom("item > inputs.n", "index"),
    }),
    of("map", {
      items: fc.constantFrom("[1, 2, 3]", "inputs"),
      template: fc.constantFrom("${item}", { n: "${index}" }),
    }),
    of("metric_emit", { name: fc.constantFrom("n", "n.${inputs.n}"), value: fc.constantFrom(1, "${inputs.n}") }),
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
    of("wait_for_event", {
      topic: fc.constantFrom("made", "sent"),
      headers: rarely(fc.constantFrom({ n: "3" }, { n: "${inputs.n}" })),
      match: rarely(fc.constantFrom("event.payload.n > 1", "event.topic == 'made'", "event.payload.n == inputs.n")),
      lookback: rarely(fc.constantFrom("run", "none")),
      timeout_ms: rarely(fc.constantFrom(0, 3000)),
      on_timeout: rarely(fc.oneof(fc.constantFrom("fail", "continue"), target)),
    }),
    of("emit_event", {
      topic: fc.constantFrom("made", "sent", "${vars.x}"),
      payload: fc.option(fc.constantFrom({ n: "${inputs.n}" }, "${vars}"), { nil: undefined }),
      headers: fc.option(fc.constantFrom({ n: "${inputs.n}" }, { of: "${inputs}" }), { nil: undefined }),
    }),
    of("manual_approval", {
      assignee: fc.constantFrom("ann", "${inputs.n > 2 ? 'ann' : 'bob'}", "${vars.nowhere}"),
      title: fc.option(fc.constantFrom("Order ${inputs.n}"), { nil: undefined }),
      branches: fc.option(
        fc.tuple(target, target).map(([yes, no]) => ({ approved: { next: yes }, rejected: { next: no } })),
        { nil: undefined },
      ),
      due_in_ms: fc.option(fc.constantFrom(0, 3000), { nil: undefined }),
      on_timeout: fc.option(fc.oneof(fc.constantFrom("fail", "continue"), target), { nil: undefined }),
    }),
    of("collect_input", {
      assignee: fc.constant("ann"),
      form_schema: fc.constantFrom({ required: ["n"] }, {}),
      due_at: fc.option(fc.constantFrom("2001-01-01T00:00:00Z", "${now + duration('10s')}"), { nil: undefined }),
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
        concurrency: fc.option(
          fc.constantFrom({ key: "${run.id}", limit: 1 }, { key: "k", limit: 2 }, { key: "${vars.x}", limit: 1 }),
          { nil: undefined },
        ),
      }),
    ),
    of("http_request", {
      url: fc.constantFrom("https://shop.example/${inputs.n}", "${vars.nowhere}"),
      query: fc.option(fc.constantFrom({ n: "${inputs.n}", of: ["a", null] }), { nil: undefined }),
      timeout_ms: fc.constantFrom(1000, 20_000),
      retry: fc.option(retry, { nil: undefined }),
    }),
    of("webhook_emit", {
      url: fc.constant("https://shop.example/hook"),
      event_type: fc.constantFrom("order.made", "${vars.x}"),
      payload: fc.option(fc.constantFrom({ n: "${inputs.n}" }), { nil: undefined }),
    }),
    of("end", { output: fc.constantFrom("${vars}", { n: "${inputs.n}" }) }, ["next"]),
  );
}

/** What a workflow says about errors that nothing takes. */
export const incidents = fc.constantFrom(
  {},
  {},
  { on_failure: "incident" },
  { on_undo_failure: "incident" },
  { on_failure: "incident", on_undo_failure: "incident" },
);

/** Random documents; most edges lead forward, some back, so that loops happen. */
export const documents: fc.Arbitrary<{ steps: StepDocument[]; head: Record<string, unknown> }> = fc
  .integer({ min: 1, max: 9 })
  .chain((size) => {
    const names = Array.from({ length: size }, (_, index) => stepId(index));
    const steps = names.map((_, index) => {
      const forward = names.slice(index + 1);
      const back = fc.constantFrom(...names);
      return step(
        stepId(index),
        forward.length > 0
          ? fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...forward) }, { weight: 1, arbitrary: back })
          : back,
      );
    });
    return fc
      .tuple(fc.tuple(...steps), fc.option(fc.constantFrom(3000, 60_000), { nil: undefined }), incidents)
      .map(([steps, timeout, incidents]) => ({
        steps,
        head: { ...incidents, ...(timeout !== undefined && { timeout_ms: timeout }) },
      }));
  });
