// The chain of a saga at run time: it collects the steps and lays them out as a document. The types of its methods are in flow.ts.
import type { SignalContract } from "../contract/index.js";
import { ATTRIBUTES, COMMON, type StepTypeName } from "./attributes.js";
import type { StepDocument } from "./definition.js";
import { isExpression } from "./expression.js";
import type { Json, JsonObject } from "./value.js";
import { computedFor, nameOfAction, type Options, refuseOptions, stepParts } from "./written.js";

/** A step with all that belongs to it, laid out once it is known what follows. */
interface Part {
  readonly id: string;
  layOut(next: string | undefined): readonly StepDocument[];
}

/** How a chain is closed: by its last step, or by an edge to another one. */
type End = { readonly kind: "open" | "closed" } | { readonly kind: "goes_to"; readonly target: string };

interface Place {
  /** Where its steps are: the ids of `end`s are made of it. */
  readonly path: string;
  readonly locals: readonly string[];
  /** Where the chain began: a block must return its own. */
  readonly origin: object;
  /** Makes the saga of a finished chain. Absent in blocks. */
  finish?(chain: Chain): object;
}

// biome-ignore lint/suspicious/noExplicitAny: flow.ts has the types of what users give and get.
type Loose = any;
type Steps = (chain: Chain) => Chain;

/** The targets that a step has in its blocks and handlers. */
interface Targets {
  readonly attributes: (next: string | undefined) => JsonObject;
  /** The blocks, in the order in which they are written. */
  readonly blocks: readonly { readonly chain: Chain; readonly rejoins: boolean }[];
  /** Whether the step has a `next` of its own. */
  readonly goesOn?: boolean;
}

const NO_TARGETS: Targets = { attributes: () => ({}), blocks: [] };

export class Chain {
  constructor(
    private readonly place: Place,
    private readonly parts: readonly Part[] = [],
    private readonly ended: End = { kind: "open" },
    /** Names under which a run may start, by the id of the step. */
    readonly entries: readonly (readonly [name: string, id: string])[] = [],
    private readonly entryNames: readonly string[] = [],
  ) {
    Object.freeze(this);
  }

  get isOpen(): boolean {
    return this.ended.kind === "open";
  }

  /** The first step of the chain, or what follows where it has none. Throws TypeError if there is nothing. */
  first(next: string | undefined): string {
    const first = this.parts[0]?.id ?? (this.ended.kind === "goes_to" ? this.ended.target : next);
    if (first !== undefined) return first;
    throw new TypeError(`the block ${this.place.path} has no step, and nothing follows it: add one, such as noop`);
  }

  layOut(next: string | undefined): readonly StepDocument[] {
    const last = this.ended.kind === "goes_to" ? this.ended.target : this.isOpen ? next : undefined;
    return this.parts.flatMap((part, index) => part.layOut(this.parts[index + 1]?.id ?? last));
  }

  action(id: string, called: unknown, options: Options = {}): Loose {
    const action = typeof called === "function" ? called : nameOfAction(called, `${id}.action`);
    return this.step("action", id, { ...options, action }, options);
  }

  httpRequest(id: string, { response: _, ...options }: Loose): Loose {
    return this.step("http_request", id, options);
  }

  webhookEmit(id: string, options: Loose): Loose {
    return this.step("webhook_emit", id, options);
  }

  decision(id: string, chosenBy: Loose, branches: Readonly<Record<string, Steps>>, handled: Options = {}): Loose {
    const { onNoMatch: _, ...options } = handled;
    const byRule = typeof chosenBy === "object" && !isExpression(chosenBy);
    const chosen = byRule
      ? { ruleId: chosenBy.rule, ruleInputs: chosenBy.inputs, outputKey: chosenBy.outputKey }
      : { expression: chosenBy };
    return this.step("decision", id, { ...options, ...chosen }, options, this.branchesOf(id, branches, handled));
  }

  switchOn(id: string, expression: unknown, branches: Readonly<Record<string, Steps>>, handled: Options = {}): Loose {
    const { onNoMatch: _, ...options } = handled;
    return this.step("switch", id, { ...options, expression }, options, this.branchesOf(id, branches, handled));
  }

  switch(id: string, cases: readonly { readonly when: unknown; readonly then: Steps }[], handled: Options = {}): Loose {
    const { default: otherwise, onNoMatch: _, ...options } = handled;
    const passes = passesUnmatched(id, otherwise !== undefined, handled);
    const ways = cases.map(({ when, then }, index) => ({
      when: stepParts({ when }, { ...this.at(id, "noop") }).before.when as Json,
      chain: this.block(id, `case${index + 1}`, then),
    }));
    const last = typeof otherwise === "function" ? this.block(id, "default", otherwise as Steps) : undefined;
    return this.step("switch", id, options, options, {
      attributes: (next) => {
        refuseNothing(id, passes, next);
        const cases = ways.map(({ when, chain }) => ({ when, next: chain.first(next) }));
        return { cases, ...(last && { default: last.first(next) }) };
      },
      blocks: [...ways.map(({ chain }) => chain), ...(last ? [last] : [])].map((chain) => ({ chain, rejoins: true })),
      goesOn: passes,
    });
  }

  noop(id: string, options: Options = {}): Loose {
    return this.step("noop", id, options);
  }

  setVar(id: string, ...given: readonly Loose[]): Loose {
    if (typeof given[0] !== "string") {
      const [variables, options = {}] = given;
      return this.step("set_var", id, { ...options, variables }, options);
    }
    const [name, value, options = {}] = given;
    if (value === undefined) throw new TypeError(`${id} has no value for ${name}: give it one, such as null`);
    return this.step("set_var", id, { ...options, name, value }, options);
  }

  transform(id: string, value: unknown, options: Options = {}): Loose {
    return this.step("transform", id, { ...options, ...this.valueOf("transform", value) }, options);
  }

  merge(id: string, sources: unknown, options: Options = {}): Loose {
    return this.step("merge", id, { ...options, sources });
  }

  filter(id: string, items: unknown, condition: unknown, options: Options = {}): Loose {
    return this.step("filter", id, { ...options, items, condition }, options);
  }

  map(id: string, items: unknown, value: unknown, options: Options = {}): Loose {
    return this.step("map", id, { ...options, items, ...this.valueOf("map", value) }, options);
  }

  log(id: string, message: unknown, options: Options = {}): Loose {
    return this.step("log", id, { ...options, message });
  }

  metricEmit(id: string, name: unknown, options: Options = {}): Loose {
    return this.step("metric_emit", id, { ...options, name });
  }

  assert(id: string, condition: unknown, code?: unknown, options: Options = {}): Loose {
    return this.step("assert", id, { ...options, condition, code });
  }

  waitDuration(id: string, duration: Loose, options: Options = {}): Loose {
    if (typeof duration === "object") return this.step("wait_duration", id, { ...options, ...duration });
    return this.step("wait_duration", id, {
      ...options,
      ...(typeof duration === "number" ? { durationMs: duration } : { duration }),
    });
  }

  waitUntil(id: string, until: unknown, options: Options = {}): Loose {
    return this.step("wait_until", id, { ...options, until });
  }

  waitForSignal(id: string, signal: SignalContract | string, options: Options = {}): Loose {
    return this.step("wait_for_signal", id, { ...options, signalName: signalName(signal) }, options);
  }

  waitForEvent(id: string, topic: unknown, { payload: _, ...options }: Options = {}): Loose {
    return this.step("wait_for_event", id, { ...options, topic });
  }

  emitEvent(id: string, topic: unknown, options: Options = {}): Loose {
    return this.step("emit_event", id, { ...options, topic });
  }

  emitSignal(id: string, signal: SignalContract | string, options: Options): Loose {
    return this.step("emit_signal", id, { ...options, signalName: signalName(signal) });
  }

  manualApproval(id: string, { approved, rejected, ...options }: Options): Loose {
    const given = Object.entries({ approved, rejected }).filter(([, steps]) => steps !== undefined);
    if (given.length === 0) return this.step("manual_approval", id, options);
    const branches = this.branchesOf(id, Object.fromEntries(given) as Record<string, Steps>, {});
    return this.step("manual_approval", id, options, options, { ...branches, goesOn: approved === undefined });
  }

  collectInput(id: string, options: Options): Loose {
    return this.step("collect_input", id, options);
  }

  parallel(id: string, branches: Readonly<Record<string, Steps>>, options: Options = {}): Loose {
    const chains = this.chainsOf(id, branches, []);
    return {
      join: (joinId: string, joinOptions: Options = {}) => {
        const fork = this.step("parallel", id, options, options, {
          attributes: () => ({ branches: targetsOf(chains, undefined) }),
          blocks: Object.values(chains).map((chain) => ({ chain, rejoins: false })),
        });
        return fork.step("join", joinId, joinOptions);
      },
    };
  }

  foreach(id: string, items: unknown, body: Steps, options: Options = {}): Loose {
    const names = [options.itemVar, options.indexVar].filter((name) => typeof name === "string") as string[];
    const chain = this.block(id, "body", body, ["item", "index", ...names]);
    return this.step("foreach", id, { ...options, items }, options, {
      attributes: () => ({ body: chain.first(undefined) }),
      blocks: [{ chain, rejoins: false }],
    });
  }

  while(id: string, body: Steps, options: Options): Loose {
    const chain = this.block(id, "body", body, ["iteration"]);
    return this.step("while", id, options, options, {
      attributes: () => ({ body: chain.first(undefined) }),
      blocks: [{ chain, rejoins: false }],
    });
  }

  tryCatch(id: string, tried: Steps, caught: Steps, options: Options = {}): Loose {
    const chains = [this.block(id, "try", tried), this.block(id, "catch", caught, ["error"])] as const;
    return this.step("try_catch", id, options, options, {
      attributes: () => ({ try: chains[0].first(undefined), catch: chains[1].first(undefined) }),
      blocks: chains.map((chain) => ({ chain, rejoins: false })),
      goesOn: chains.some(({ isOpen }) => isOpen),
    });
  }

  subSaga(id: string, saga: string | { readonly id: string }, options: Options): Loose {
    return this.step("sub_saga", id, { ...options, workflowId: sagaId(saga) });
  }

  spawnSaga(id: string, saga: string | { readonly id: string }, options: Options): Loose {
    return this.step("spawn_saga", id, { ...options, workflowId: sagaId(saga) });
  }

  cancel(id: string, options: Options = {}): Loose {
    const cancelled = this.step("cancel", id, options);
    return options.runId === undefined && options.when === undefined ? cancelled.shut() : cancelled;
  }

  error(id: string, options: Options = {}): Loose {
    const { when, onError } = options;
    // It has no next: what it would lead to is the end of the block around it.
    if (when !== undefined || onError === "continue")
      throw new TypeError(`${id} is an error, which always fails: write a switch or an assert in place of it`);
    const failed = this.step("error", id, options);
    return failed.isOpen ? failed : failed.shut();
  }

  end(
    output?: unknown,
    { id = this.place.path === "" ? "end" : `${this.place.path}.end`, ...options }: Loose = {},
  ): Loose {
    return this.step("end", id, { ...options, ...(output !== undefined && { output }) }).shut();
  }

  close(): Loose {
    return this.shut();
  }

  goTo(target: string): Loose {
    return this.shut({ kind: "goes_to", target });
  }

  entrypoint(name: string): Loose {
    return new Chain(this.place, this.parts, this.ended, this.entries, [...this.entryNames, name]);
  }

  private at(id: string, type: StepTypeName) {
    return { id, type, locals: this.place.locals };
  }

  /** An expression, or a value as a template. */
  private valueOf(type: "map" | "transform", given: unknown): Options {
    const value = computedFor(type, "template", given, this.place.locals);
    return isExpression(value) ? { expression: value } : { template: value };
  }

  private block(id: string, name: string, steps: Steps, locals: readonly string[] = []): Chain {
    const path = `${this.place.path === "" ? "" : `${this.place.path}.`}${id}.${name}`;
    const origin = {};
    const chain = steps(new Chain({ path, origin, locals: [...this.place.locals, ...locals] }));
    if (chain instanceof Chain && chain.place.origin === origin) return chain;
    throw new TypeError(`the block ${path} must return the chain that it was given, with its steps`);
  }

  private chainsOf(id: string, branches: Readonly<Record<string, Steps>>, locals: readonly string[]) {
    const chains = Object.entries(branches).map(
      ([name, steps]) => [name, this.block(id, name, steps, locals)] as const,
    );
    return Object.fromEntries(chains);
  }

  private branchesOf(id: string, branches: Readonly<Record<string, Steps>>, handled: Options): Targets {
    const chains = this.chainsOf(id, branches, []);
    const passes = passesUnmatched(id, Object.hasOwn(branches, "default"), handled);
    return {
      attributes: (next) => {
        refuseNothing(id, passes, next);
        return { branches: targetsOf(chains, next) };
      },
      blocks: Object.values(chains).map((chain) => ({ chain, rejoins: true })),
      goesOn: passes,
    };
  }

  /** `handled`: what the user gave, with the handlers of errors and timeouts. */
  private step(
    type: StepTypeName,
    id: string,
    options: Options,
    handled: Options = options,
    { attributes, blocks, goesOn: always = true }: Targets = NO_TARGETS,
  ): Chain {
    if (!this.isOpen) throw new TypeError(`the step ${id} follows one that nothing can follow`);
    refuseOptions(id, type, handled);
    const [timeout, error] = [
      this.handler(id, "timeout", handled.onTimeout),
      this.handler(id, "error", handled.onError),
    ];
    const { before, own, after } = stepParts(options, this.at(id, type));
    const goesOn = !LAST.has(type) && (always || mayPass(handled));
    const inner = [...blocks, ...timeout.blocks, ...error.blocks];
    const layOut = (next: string | undefined): readonly StepDocument[] => [
      {
        ...before,
        ...inOrder(ATTRIBUTES[type], { ...own, ...attributes(next), on_timeout: timeout.target(next) }),
        ...inOrder(COMMON.after, { ...after, on_error: error.target(next) }),
        ...(goesOn && next !== undefined && { next }),
      } as unknown as StepDocument,
      ...inner.flatMap(({ chain, rejoins }) => chain.layOut(rejoins ? next : undefined)),
    ];
    const entries = [
      ...this.entries,
      ...this.entryNames.map((name) => [name, id] as const),
      ...inner.flatMap(({ chain }) => chain.entries),
    ];
    const leadsOn = goesOn || inner.some(({ chain, rejoins }) => rejoins && chain.isOpen);
    const chain = new Chain(
      this.place,
      [...this.parts, { id, layOut }],
      { kind: leadsOn ? "open" : "closed" },
      entries,
    );
    return leadsOn || LAST.has(type) ? chain : chain.shut();
  }

  /** A word, or steps that the error or the timeout leads to. */
  private handler(id: string, name: string, given: unknown) {
    if (typeof given !== "function") return { blocks: [], target: () => given as Json | undefined };
    const chain = this.block(id, name, given as Steps);
    return { blocks: [{ chain, rejoins: true }], target: (next: string | undefined): Json => chain.first(next) };
  }

  private shut(ended: End = { kind: "closed" }): Loose {
    if (this.ended.kind === "goes_to") throw new TypeError("the chain is closed already");
    const chain = new Chain(this.place, this.parts, ended, this.entries, this.entryNames);
    return this.place.finish ? this.place.finish(chain) : chain;
  }
}

/** These have no `next`. */
const LAST: ReadonlySet<StepTypeName> = new Set(["end", "error"]);

/** Whether a run may go on along `next` without what the step does. */
const mayPass = ({ when, onError, onTimeout }: Options) =>
  when !== undefined || onError === "continue" || onTimeout === "continue";

/** Whether a run goes on along `next` where no branch fits. Throws TypeError where that could not be: JSON has no other way to say it. */
function passesUnmatched(id: string, hasDefault: boolean, { onNoMatch, ...handled }: Options): boolean {
  if (onNoMatch === undefined) return false;
  if (onNoMatch !== "fail" && onNoMatch !== "continue")
    throw new TypeError(`${id}.onNoMatch must be "fail" or "continue"`);
  if (hasDefault) throw new TypeError(`${id} has a default, so onNoMatch would never count`);
  if (onNoMatch === "fail" && mayPass(handled))
    throw new TypeError(
      `${id} may be passed (when, onError), so it goes on where no branch fits: give it a default that fails`,
    );
  return onNoMatch === "continue";
}

/** Throws TypeError where a step would go on, and there is nothing to go on to. */
function refuseNothing(id: string, passes: boolean, next: string | undefined): void {
  if (passes && next === undefined)
    throw new TypeError(`nothing follows ${id} where no branch fits: add a step, such as noop`);
}

const inOrder = (table: object, json: Readonly<Record<string, Json | undefined>>): JsonObject =>
  Object.fromEntries(Object.keys(table).flatMap((name) => (json[name] === undefined ? [] : [[name, json[name]]])));

function signalName(signal: unknown): unknown {
  return typeof signal === "object" && signal !== null && !isExpression(signal)
    ? (signal as SignalContract).name
    : signal;
}

const sagaId = (saga: string | { readonly id: string }): string => (typeof saga === "string" ? saga : saga.id);

function targetsOf(chains: Readonly<Record<string, Chain>>, next: string | undefined): JsonObject {
  return Object.fromEntries(Object.entries(chains).map(([name, chain]) => [name, { next: chain.first(next) }]));
}
