// Random workflows with blocks, three deep, and the workflows of their sub-sagas. A tree of bodies is generated first and then written as
// steps, so that every edge keeps the rules of blocks.
import fc from "fast-check";
import { ACTIONS, compensation, incidents, program, retry, type StepDocument, step, stepId } from "./definitions.js";
import type { SimulationOptions } from "./simulation.js";

/** A step whose targets are still marks, and the bodies that it holds. */
export interface Node {
  readonly step: StepDocument;
  readonly bodies: readonly (readonly Node[])[];
  /** The join of a parallel. */
  readonly join?: StepDocument;
}

type Body = readonly Node[];

export interface FamilyDocument {
  readonly root: Body;
  /** What `sub_saga` runs: `sub.a` may run `sub.b`, which has no children of its own but branches and items. */
  readonly subs: Readonly<Record<"sub.a" | "sub.b", Body>>;
  readonly timeoutMs?: number;
  readonly incidents?: Record<string, unknown>;
}

/** A mark: one of the steps that come later in the same body, or the body's end. */
const later = fc.nat(99).map((nth) => `@${nth}`);
const inOne = <T>(among: number, made: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: among - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: made });
const maybe = <T>(...values: T[]) => inOne(2, fc.constantFrom(...values));

/** No back edges here but in loops: each round of one would have children of its own. */
const common = {
  on_error: inOne(4, fc.oneof(fc.constantFrom("fail", "continue"), later)),
  when: inOne(20, fc.constantFrom("false", "has(vars.x)", "vars.nowhere")),
  save_as: inOne(3, fc.constantFrom("x", "y", null)),
  compensation: inOne(5, compensation),
  on_failure: inOne(8, fc.constantFrom("incident", "rollback")),
  next: inOne(6, later),
};

function of(type: string, attributes: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<StepDocument> {
  return fc.record({ id: fc.constant("?"), type: fc.constant(type), ...common, ...attributes }).map(defined);
}

function defined(made: Record<string, unknown>): StepDocument {
  return Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)) as StepDocument;
}

const aRun = fc.constantFrom("${run.id}", "${run.root_id}", "${inputs.parent}");

const leaf: fc.Arbitrary<Node> = fc
  .oneof(
    { weight: 8, arbitrary: step("?", later) },
    {
      weight: 9,
      arbitrary: of("action", {
        action: fc.constantFrom("shop.charge", "shop.charge", "shop.notify"),
        compensation: fc.constant({ action: "shop.refund" }),
        timeout_ms: fc.constantFrom(1000, 20_000),
        retry: inOne(2, retry),
        concurrency: inOne(3, fc.constantFrom({ key: "k", limit: 1 }, { key: "k", limit: 2 })),
      }),
    },
    {
      weight: 2,
      arbitrary: of("wait_for_signal", {
        signal_name: fc.constantFrom("go", "stop"),
        timeout_ms: maybe(3000),
        on_timeout: maybe("fail", "continue"),
      }),
    },
    {
      weight: 2,
      arbitrary: of("wait_for_event", {
        topic: fc.constantFrom("made", "sent"),
        match: maybe("event.topic == 'made'"),
        timeout_ms: maybe(3000),
        on_timeout: maybe("fail", "continue"),
      }),
    },
    {
      weight: 2,
      arbitrary: of("emit_event", { topic: fc.constantFrom("made", "sent"), payload: fc.constant({ n: 2 }) }),
    },
    { weight: 2, arbitrary: of("emit_signal", { run_id: aRun, signal_name: fc.constantFrom("go", "stop") }) },
    { weight: 1, arbitrary: of("cancel", { run_id: inOne(2, aRun), compensate: maybe(false) }) },
    {
      weight: 1,
      arbitrary: of("set_var", { name: fc.constant("x"), value: fc.constantFrom("${item}", "${iteration}") }),
    },
  )
  .map((made) => ({ step: made, bodies: [] }));

function saga(workflows: readonly string[]): fc.Arbitrary<Node> {
  const called = {
    workflow_id: fc.constantFrom(...workflows),
    inputs: fc.constant({ n: "${inputs.n + 1}", parent: "${run.id}", list: [1, 2] }),
  };
  const sub = of("sub_saga", { ...called, timeout_ms: maybe(500, 5000), retry: inOne(2, retry) });
  return fc
    .oneof({ weight: 4, arbitrary: sub }, { weight: 1, arbitrary: of("spawn_saga", called) })
    .map((made) => ({ step: made, bodies: [] }));
}

function node(depth: number, workflows: readonly string[]): fc.Arbitrary<Node> {
  const sagas = workflows.length > 0 ? [{ weight: 2, arbitrary: saga(workflows) }] : [];
  if (depth === 0) return fc.oneof({ weight: 12, arbitrary: leaf }, ...sagas);
  const inner = body(depth - 1, workflows, 3);
  const holding = (made: fc.Arbitrary<StepDocument>, bodies: number): fc.Arbitrary<Node> =>
    fc.record({ step: made, bodies: fc.array(inner, { minLength: bodies, maxLength: bodies }) });
  const forking = of("parallel", { max_concurrency: maybe(0, 1, 2), next: fc.constant(undefined) });
  const joining = of("join", {
    mode: fc.constantFrom("all", "any", "count", "all_settled"),
    on: maybe(["0"], ["0", "1"]),
    cancel_remaining: maybe(true, false, false),
  });
  const parallel = fc
    .record({ step: forking, join: joining, bodies: fc.array(inner, { minLength: 2, maxLength: 3 }) })
    .map(({ join, ...rest }) => ({ ...rest, join: { ...join, ...(join.mode === "count" && { count: 1 }) } }));
  const foreach = of("foreach", {
    items: fc.constantFrom("[1, 2, 3]", "inputs.list", "inputs.list", "[]"),
    item_var: maybe("thing"),
    max_concurrency: maybe(0, 1, 2),
    tolerated_failures: maybe(0, 1, 5),
  });
  const loop = of("while", {
    condition: fc.constantFrom("iteration < 2", "iteration < 2", "iteration < 1", "iteration < 9", "false"),
    max_iterations: fc.constantFrom(3, 2),
    delay_ms: maybe(50),
    keep_last: maybe(0, 1),
  });
  const trying = of("try_catch", {
    errors: maybe(["*"], ["declined", "mine"], ["time*"]),
    error_var: maybe("x"),
    rollback: maybe(true, true, false),
    timeout_ms: maybe(700, 4000),
  });
  return fc.oneof(
    { weight: 11 - 3 * depth, arbitrary: leaf },
    ...sagas,
    { weight: 4, arbitrary: parallel },
    { weight: 3, arbitrary: holding(foreach, 1) },
    { weight: 2, arbitrary: holding(loop, 1) },
    { weight: 4, arbitrary: holding(trying, 2) },
  );
}

function body(depth: number, workflows: readonly string[], most: number): fc.Arbitrary<Body> {
  return fc.array(node(depth, workflows), { minLength: 1, maxLength: most });
}

export const families: fc.Arbitrary<FamilyDocument> = fc.record({
  root: body(3, ["sub.a", "sub.b", "sub.none"], 5),
  subs: fc.record({ "sub.a": body(1, ["sub.b"], 3), "sub.b": body(1, [], 3) }),
  timeoutMs: inOne(5, fc.constantFrom(3000, 60_000)),
  incidents,
});

const quiet = (step: Record<string, unknown>, bodies: readonly Body[] = [], join?: boolean): Node => ({
  step: { id: "?", ...step } as StepDocument,
  bodies,
  ...(join && { join: { id: "?", type: "join" } }),
});
const bystander = fc.constantFrom(
  quiet({ type: "noop" }),
  quiet({ type: "set_var", name: "x", value: 1 }),
  quiet({ type: "action", action: "shop.charge", compensation: { action: "shop.refund" } }),
);

/** Random families all of which come to the core, somewhere in their blocks or in a sub-saga; nothing else in them can fail. */
export function around(core: Node): fc.Arbitrary<FamilyDocument> {
  const wrapped = (inner: fc.Arbitrary<Node>): fc.Arbitrary<Node> =>
    fc.tuple(inner, bystander, bystander, fc.nat(4)).map(([held, before, after, kind]) => {
      const body = [before, held, after];
      if (kind === 0) return quiet({ type: "parallel" }, [body, [after]], true);
      if (kind === 1) return quiet({ type: "foreach", items: "[1, 2]", max_concurrency: 0 }, [body]);
      if (kind === 2) return quiet({ type: "while", condition: "iteration < 1" }, [body]);
      if (kind === 3) return quiet({ type: "try_catch", errors: ["none"], rollback: true }, [body, [after]]);
      return quiet({ type: "try_catch" }, [body, [quiet({ type: "error" })]]);
    });
  const once = wrapped(fc.constant(core));
  const nested = fc.oneof(fc.constant(core), once, wrapped(once));
  return fc.tuple(nested, bystander, bystander, fc.boolean()).map(([node, before, after, below]) => ({
    root: [before, below ? quiet({ type: "sub_saga", workflow_id: "sub.a" }) : node, after],
    subs: { "sub.a": [below ? node : before], "sub.b": [before] },
  }));
}

/** The documents' programs, and what they need to run. */
export function optionsOf({ root, subs, timeoutMs, incidents }: FamilyDocument): SimulationOptions {
  const workflows = Object.entries(subs).map(([id, body]) => [id, program(layOut(body), { id, ...incidents })]);
  const head = { ...incidents, ...(timeoutMs !== undefined && { timeout_ms: timeoutMs }) };
  const options = { workflows: Object.fromEntries(workflows), actions: ACTIONS, inputs: { n: 2, list: [4, 5] } };
  return { program: program(layOut(root), head), ...options, limits: { entries: 40 }, entries: 1_000 };
}

/** The steps of a body in the order in which they stand. */
export function layOut(body: Body): StepDocument[] {
  const steps: StepDocument[] = [];
  place(body, undefined, []);
  return steps;

  /** `end` names the body's end, `outside` what a catch chain may also go on to. Gives the body's first step. */
  function place(nodes: Body, end: string | undefined, outside: readonly string[]): string {
    const heads = nodes.map(({ join }) => {
      const id = stepId(steps.length);
      steps.push({ id, type: "" });
      if (join) steps.push({ id: `${id}-join`, type: "" });
      return id;
    });
    nodes.forEach((node, index) => {
      const after = heads.slice(index + 1);
      lay(node, heads[index] as string, [...after, ...(end === undefined ? [] : [end]), ...outside], after);
    });
    return heads[0] as string;
  }

  function lay({ step, bodies, join }: Node, id: string, targets: readonly string[], after: readonly string[]): void {
    const made = aimed({ ...step, id }, targets, after[0]);
    if (join) put({ ...aimed({ ...join, id: `${id}-join` }, targets, after[0]) });
    const starts = bodies.map((inner, nth) => {
      const isCatch = step.type === "try_catch" && nth === 1;
      return place(inner, join ? `${id}-join` : id, isCatch ? targets : []);
    });
    put({ ...made, ...(join && { next: `${id}-join` }), ...held(step.type, starts) });
  }

  function put(made: StepDocument): void {
    steps[steps.findIndex(({ id }) => id === made.id)] = made;
  }
}

function held(type: string, starts: readonly string[]): Record<string, unknown> {
  const [first, second] = starts;
  if (type === "parallel") return { branches: Object.fromEntries(starts.map((next, nth) => [String(nth), { next }])) };
  if (type === "try_catch") return { try: first, catch: second };
  return first === undefined ? {} : { body: first };
}

/** Marks become steps. Where no step comes later, an edge is none. */
function aimed(made: StepDocument, targets: readonly string[], following: string | undefined): StepDocument {
  const aim = (mark: unknown) => targets[Number(String(mark).slice(1)) % targets.length];
  const isMark = (value: unknown) => typeof value === "string" && value.startsWith("@");
  if (targets.length === 0 && (made.branches || made.cases)) return { id: made.id, type: "noop" };
  const fixed = Object.entries(made).map(([name, value]) => {
    if (name === "branches")
      return [name, mapValues(value as Record<string, { next: string }>, ({ next }) => ({ next: aim(next) }))];
    if (name === "cases")
      return [name, (value as { next: string }[]).map((each) => ({ ...each, next: aim(each.next) }))];
    return [name, isMark(value) ? (aim(value) ?? (name === "on_error" ? "continue" : undefined)) : value];
  });
  const next = isMark(made.next) ? aim(made.next) : following;
  const goesOn = made.type !== "end" && made.type !== "error" && next !== undefined;
  return defined({ ...Object.fromEntries(fixed), next: goesOn ? next : undefined });
}

function mapValues<T, U>(record: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
