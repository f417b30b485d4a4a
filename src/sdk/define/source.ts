// `sourceOf`: a document as a module of TypeScript that writes it. Each call is made on a real chain while it is printed, and what comes of it is
// compared with the document: a graph that is no nesting of blocks is printed as `fromDocument`. Nothing is evaluated, and the service is not asked.
import { defineAction } from "../contract/index.js";
import { ATTRIBUTES, type AttributeKind, COMMON, DOCUMENT, optionName, type StepTypeName } from "./attributes.js";
import { Chain } from "./chain.js";
import type { SagaDocument, StepDocument } from "./definition.js";
import { fromDocument } from "./document.js";
import { cel, celOf, text, textOf } from "./expression.js";
import {
  argumentsOf,
  blockOf,
  identifier,
  list,
  literal,
  memberName,
  object,
  type Piece,
  sameJson,
  wordsOf,
} from "./printed.js";
import { saga, WrittenSaga } from "./saga.js";
import type { Json, JsonObject } from "./value.js";
import { pinned } from "./written.js";

const PACKAGE = "@saga-orchestrator/define";

/** The graph, or a value in it, is none that a chain writes. */
class Unwritable extends Error {}

/**
 * The text of a module that exports the saga of a document: it serialises to the same document, but for the order of members and steps. Types of
 * actions are not known to a document, so their contracts have schemas that take anything. Throws TypeError if it is no workflow document.
 */
export function sourceOf(json: unknown): string {
  const document = fromDocument(json).toJSON();
  const name = identifier(document.id);
  try {
    return new Printer(document).print(name);
  } catch (error) {
    // What define itself refuses is a TypeError.
    if (!(error instanceof Unwritable || error instanceof TypeError)) throw error;
    // An id may be any text, also one that would end the comment.
    const why = error.message.replaceAll(/\s+/g, " ");
    return `import { fromDocument } from ${literal(PACKAGE)};

// Not a chain of steps, because ${why}.
export const ${name} = fromDocument(${literal(document as unknown as Json)});
`;
  }
}

/** What a chain has come to: its text, and itself. */
interface Written {
  readonly calls: readonly string[];
  readonly chain: unknown;
}

/** Names of types that attributes take: an expression in place of a value says that it gives one. */
const NUMBERS = /(_ms|_attempts|_failures|^max_\w+|^keep_last|^multiplier|^count|^limit|^version|^value)$/;
const ANYTHING = new Set([
  "inputs",
  "query",
  "body",
  "payload",
  "variables",
  "template",
  "fields",
  "output",
  "details",
]);
const TEXTS_INSIDE = new Set(["headers", "tags"]);

/** What the types of define do not let a step have, although the service does: it never counts there, or what follows depends on the block around. */
const NOT_TAKEN: Readonly<Partial<Record<StepTypeName, readonly string[]>>> = {
  parallel: ["on_error", "save_as"],
  error: ["when", "save_as", "compensation", "on_undo_failure"],
  end: ["when", "save_as", "on_error", "compensation", "on_failure", "on_undo_failure"],
};

function refuseUntaken(step: StepDocument): void {
  const found = Object.keys(step).find((name) => NOT_TAKEN[step.type as StepTypeName]?.includes(name));
  if (found !== undefined)
    throw new Unwritable(`the ${step.type} ${step.id} has ${found}, which define does not let it have`);
  if (step.type === "error" && step.on_error === "continue")
    throw new Unwritable(`the error ${step.id} goes on, which define does not let it do`);
}

/** A lone variable, which `set_var` has in `value`; a metric has a number there. */
const isLoneValue = ({ type }: StepDocument, name: string) => type === "set_var" && name === "value";
const ONE_OF_ANY = "payload";

/** To the service, a member that is null is absent. */
function refuseNull(step: StepDocument): void {
  const found = Object.keys(step).find(
    (name) => step[name] === null && name !== "save_as" && !ANYTHING.has(isLoneValue(step, name) ? ONE_OF_ANY : name),
  );
  if (found !== undefined) throw new Unwritable(`${step.id} has a ${found} that is null: leave it out`);
}

/** What a handler may be in place of a step. */
const isWord = (to: unknown) => to === "fail" || to === "continue";

/** Whether a run may go on along `next` without what the step does. */
const mayPass = (step: StepDocument) =>
  step.when !== undefined || step.on_error === "continue" || step.on_timeout === "continue";

/** Whether a run goes on along `next` only where no branch fits. */
function isUnmatchedNext(step: StepDocument): boolean {
  const { default: otherwise, branches = {}, next } = step;
  if (next === undefined || mayPass(step)) return false;
  if (otherwise !== undefined || "default" in (branches as object))
    throw new Unwritable(`${step.id} has a next that is never taken: it has a default`);
  return true;
}

const NO_MATCH = ({ step }: Place): readonly Named[] =>
  isUnmatchedNext(step) ? [["onNoMatch", plain("continue")]] : [];

type Named = readonly [option: string, piece: Piece];

/** A step, and how its parts are printed. */
interface Place {
  readonly step: StepDocument;
  readonly attribute: (name: string) => Piece;
  readonly expression: (source: Json | undefined, gives: string) => Piece;
  readonly block: (target: Json | undefined) => Piece;
  readonly branches: Piece;
  readonly called: (name: Json | undefined) => Piece;
  /** All attributes but those that are `taken`: one object, or none. */
  readonly options: (taken: readonly string[], more?: readonly Named[]) => readonly Piece[];
}

/** What the expressions of attributes give. */
const GIVES: Readonly<Record<string, string>> = {
  ...{ when: "boolean", condition: "boolean", match: "boolean", items: "unknown[]" },
};

/** The attributes that a method takes before its options. */
const POSITIONAL: Readonly<Partial<Record<StepTypeName, readonly string[]>>> = {
  ...{ merge: ["sources"], filter: ["items", "condition"], log: ["message"] },
  ...{ metric_emit: ["name"], wait_until: ["until"], wait_for_event: ["topic"], emit_event: ["topic"] },
  ...{ emit_signal: ["signal_name"], foreach: ["items", "body"], while: ["body"], try_catch: ["try", "catch"] },
};

const ABSENT: Piece = { source: "undefined", value: undefined };
const orEmpty = ([given = object([])]: readonly Piece[]): Piece => given;

/** As a function of what the step sees. */
const later = ({ source, value }: Piece): Piece => ({ source: `() => ${source}`, value: () => value });

function computed({ step, attribute }: Place): Piece {
  return attribute(step.expression === undefined ? "template" : "expression");
}

function called({ step, options }: Place): readonly Piece[] {
  return [plain(step.workflow_id), orEmpty(options(["workflow_id"]))];
}

/** What methods are given after the id, where it is not the attributes of POSITIONAL and the options. */
const GIVEN: Readonly<Partial<Record<StepTypeName, (place: Place) => readonly Piece[]>>> = {
  action: ({ step, called, options }) => [called(step.action), orEmpty(options(["action"]))],
  decision: (place) => {
    const { step, attribute, expression, branches, options } = place;
    const rule = { rule: "rule_id", inputs: "rule_inputs", outputKey: "output_key" };
    const parts = Object.entries(rule).filter(([, name]) => step[name] !== undefined);
    const byRule = () => object(parts.map(([option, name]) => [option, attribute(name)]));
    const chosen = step.expression === undefined ? byRule() : expression(step.expression, "string");
    return [chosen, branches, ...options(["expression", ...Object.values(rule)], NO_MATCH(place))];
  },
  switch: (place) => {
    const { step, expression, branches, block, options } = place;
    if (step.expression !== undefined)
      return [expression(step.expression, "string"), branches, ...options(["expression"], NO_MATCH(place))];
    const given = (step.cases ?? []) as readonly { readonly when: string; readonly next: string }[];
    const cases = given.map(({ when, next }): readonly Named[] => [
      ["when", expression(when, "boolean")],
      ["then", block(next)],
    ]);
    return [list(cases.map(object)), ...options(["cases"], NO_MATCH(place))];
  },
  set_var: ({ step, attribute, options }) => {
    const names = step.variables === undefined ? ["name", "value"] : ["variables"];
    if (step.variables !== undefined && step.name !== undefined)
      throw new Unwritable(`${step.id} sets variables in two ways`);
    return [...names.map(attribute), ...options(names)];
  },
  transform: (place) => [computed(place), ...place.options(["expression", "template"])],
  map: (place) => [place.attribute("items"), computed(place), ...place.options(["items", "expression", "template"])],
  assert: ({ step, attribute, options }) => {
    const more = options(["condition", "code"]);
    const code = step.code !== undefined ? [attribute("code")] : more.length > 0 ? [ABSENT] : [];
    return [attribute("condition"), ...code, ...more];
  },
  wait_duration: ({ step, attribute, options }) => {
    const name = step.duration_ms === undefined ? "duration" : "duration_ms";
    const given = attribute(name);
    const isPlain = typeof given.value === "number" || typeof given.value === "string";
    return [isPlain ? given : object([[optionName(name), given]]), ...options(["duration_ms", "duration"])];
  },
  wait_for_signal: ({ attribute, options }) => {
    const given = attribute("signal_name");
    return [typeof given.value === "string" ? given : later(given), ...options(["signal_name"])];
  },
  manual_approval: ({ step, block, options }) =>
    options(
      [],
      branchesOf(step).map(([way, to]) => [way, block(to)]),
    ),
  sub_saga: called,
  spawn_saga: called,
  end: ({ step, attribute }) => [
    step.output === undefined ? ABSENT : attribute("output"),
    object([["id", plain(step.id)], ...Object.entries(titles(step))]),
  ],
};

class Printer {
  private readonly steps: ReadonlyMap<string, StepDocument>;
  private readonly placed = new Set<string>();
  private readonly used = new Set<string>(["saga"]);
  private readonly contracts = new Map<string, string>();

  constructor(private readonly document: SagaDocument) {
    this.steps = new Map(document.steps.map((step) => [step.id, step]));
    if (this.steps.size < document.steps.length) throw new Unwritable("two steps have one id");
  }

  print(name: string): string {
    const head = this.head();
    const begun = saga(this.document.id, head.value as never);
    const { calls, chain } = this.chain(begun, this.document.start, undefined, new Set());
    const open = chain instanceof Chain;
    const closed = open ? this.call(chain, "close", []) : undefined;
    const made = closed?.chain ?? chain;
    if (!(made instanceof WrittenSaga)) throw new Unwritable("it has no end");
    const missing = this.document.steps.find(({ id }) => !this.placed.has(id));
    if (missing) throw new Unwritable(`nothing leads to the step ${missing.id}`);
    const other = differing(made.toJSON(), this.document);
    if (other !== undefined) throw new Unwritable(`${other} would be another one`);
    const all = closed ? [...calls, ...closed.calls] : calls;
    const contracts = [...this.contracts].map(([action, code]) => `  ${memberName(action)}: ${code},\n`);
    return [
      `import { ${[...this.used].sort().join(", ")} } from ${literal(PACKAGE)};\n\n`,
      contracts.length === 0
        ? ""
        : `/** A document does not say what actions take and give: put in their schemas. */\n`,
      contracts.length === 0 ? "" : `const actions = {\n${contracts.join("")}};\n\n`,
      `export const ${name} = saga(${literal(this.document.id)}, ${head.source})`,
      ...all.map((call) => `\n  ${call.replaceAll("\n", "\n  ")}`),
      ";\n",
    ].join("");
  }

  private head(): Piece {
    const parts = Object.entries(this.document).flatMap(([member, value]): [string, Piece][] => {
      const kind: AttributeKind | undefined = DOCUMENT[member as keyof typeof DOCUMENT];
      if (kind === undefined) throw new Unwritable(`define knows no ${member}`);
      if (value === null) throw new Unwritable(`${member} is null: leave it out`);
      if (kind === "target" || member === "id") return [];
      if (member === "input_schema") return [["input", plain(value)]];
      return [[optionName(member), kind === "parts" ? this.parts(value as JsonObject) : plain(value)]];
    });
    return object(parts);
  }

  /** The steps from `entry` on, until they come to `follow`, end, or go back. `ids`: those that a step may go back to. */
  private chain(begun: unknown, entry: string, follow: string | undefined, ids: ReadonlySet<string>): Written {
    const calls: string[] = [];
    const known = new Set(ids);
    let chain = begun;
    let at: string | undefined = entry;
    const apply = (written: Written) => {
      calls.push(...written.calls);
      chain = written.chain;
    };
    while (at !== undefined && at !== follow) {
      if (known.has(at)) {
        apply(this.call(chain, "goTo", [plain(at)]));
        return { calls, chain };
      }
      const step = this.steps.get(at);
      if (step === undefined) throw new Unwritable(`there is no step ${at}`);
      refuseNull(step);
      if (this.placed.has(at)) throw new Unwritable(`several ways that do not meet there lead to the step ${at}`);
      for (const [name, id] of Object.entries((this.document.entrypoints ?? {}) as Record<string, Json>))
        if (id === at) apply(this.call(chain, "entrypoint", [plain(name)]));
      const before = this.placed.size;
      this.placed.add(at);
      known.add(at);
      const next = this.nextOf(step, follow);
      apply(this.step(chain, step, next, known));
      for (const id of [...this.placed].slice(before)) if (this.steps.get(id)?.type !== "end") known.add(id);
      if (step.type === "parallel") {
        const join = this.steps.get(next ?? "");
        at = join && this.nextOf(join, follow);
      } else at = next;
      if (!(chain instanceof Chain && chain.isOpen)) return { calls, chain };
    }
    // A block from which nothing leads on, although something follows it.
    if (at === undefined && follow !== undefined) apply(this.call(chain, "close", []));
    return { calls, chain };
  }

  /** What follows a step in its chain. A step that only branches does not say so: it is where its branches meet. */
  private nextOf(step: StepDocument, follow: string | undefined): string | undefined {
    if (step.next !== undefined) return step.next as string;
    const targets = branchTargets(step);
    if (targets.length === 0 || (step.type === "manual_approval" && !("approved" in (step.branches as object)))) return;
    const reached = targets.map((target) => this.reachable(target, follow));
    // Where one branch alone leads on, it is written as what follows.
    const open = targets.filter((_, index) => this.leadsOn(reached[index] ?? new Set(), follow));
    const [only] = new Set(open);
    if (new Set(open).size === 1 && !this.placed.has(only ?? "")) return only;
    const counts = new Map<string, number>();
    for (const id of reached.flatMap((ids) => [...ids])) counts.set(id, (counts.get(id) ?? 0) + 1);
    const shared = [...counts].filter(([id, count]) => count > 1 && id !== follow && !this.placed.has(id));
    const first = shared.find(([id]) => {
      const behind = this.reachable(id, follow);
      return shared.every(([other]) => behind.has(other));
    });
    if (first) return first[0];
    return follow !== undefined && reached.some((ids) => ids.has(follow)) ? follow : undefined;
  }

  /** Whether a way comes to what follows, or to a good end. */
  private leadsOn(ids: ReadonlySet<string>, follow: string | undefined): boolean {
    if (follow !== undefined && ids.has(follow)) return true;
    return [...ids].some((id) => this.steps.get(id)?.type === "end");
  }

  /** The steps to which a step leads in its own chain and those around it; not what is inside its body. */
  private reachable(from: string, until: string | undefined): ReadonlySet<string> {
    const found = new Set<string>();
    const open = [from];
    for (let id = open.pop(); id !== undefined; id = open.pop()) {
      const step = this.steps.get(id);
      if (found.has(id) || step === undefined || this.placed.has(id)) continue;
      found.add(id);
      if (id === until) continue;
      const handlers = [step.on_error, step.on_timeout].filter((to) => !isWord(to));
      open.push(
        ...([step.next, ...handlers].filter((to) => typeof to === "string") as string[]),
        ...branchTargets(step),
      );
    }
    return found;
  }

  /** A step as a call of its method. `next` is where its handlers and branches meet again. */
  private step(chain: unknown, step: StepDocument, next: string | undefined, ids: ReadonlySet<string>): Written {
    const type = step.type as StepTypeName;
    refuseUntaken(step);
    if (!Object.hasOwn(ATTRIBUTES, type)) throw new Unwritable(`define knows no step type ${type}`);
    const place = this.place(step, next, ids);
    if (type === "parallel") return this.fork(chain, step, [place.branches, ...place.options([])], ids);
    const taken = POSITIONAL[type] ?? [];
    const given = GIVEN[type]?.(place) ?? [...taken.map(place.attribute), ...place.options(taken)];
    const method = type === "switch" && step.expression !== undefined ? "switchOn" : optionName(type);
    return this.call(chain, method, type === "end" ? given : [plain(step.id), ...given]);
  }

  private place(step: StepDocument, next: string | undefined, ids: ReadonlySet<string>): Place {
    const table = { ...COMMON.before, ...ATTRIBUTES[step.type as StepTypeName], ...COMMON.after };
    const kinds = table as Readonly<Record<string, AttributeKind>>;
    const block = (target: Json | undefined, follow: string | undefined) => this.block(String(target), follow, ids);
    const attribute = (name: string): Piece => {
      const [kind, member] = [kinds[name], step[name]];
      if (kind === undefined) throw new Unwritable(`define knows no ${name} of ${step.type}`);
      if (member === undefined) throw new Unwritable(`${step.id} has no ${name}`);
      // A lone variable takes what one of several takes.
      if (kind !== "target") return this.attribute(kind, isLoneValue(step, name) ? ONE_OF_ANY : name, member);
      // A body and the chains of a try end by themselves; a handler leads on.
      if (name === "body" || name === "try" || name === "catch") return block(member, undefined);
      return name !== "default" && isWord(member) ? plain(member) : block(member, next);
    };
    return {
      step,
      attribute,
      expression: (source, gives) => this.expression(String(source), gives),
      block: (target) => block(target, next),
      branches: object(
        branchesOf(step).map(([name, to]) => [name, block(to, step.type === "parallel" ? undefined : next)]),
      ),
      called: (name) => this.called(String(name)),
      options: (taken, more = []) => {
        const left = Object.keys(step).filter((name) => !["id", "type", "next", "branches", ...taken].includes(name));
        const given = left.map(
          (name): Named =>
            name === "compensation"
              ? ["undo", this.undo(step.compensation as JsonObject)]
              : [optionName(name), attribute(name)],
        );
        const all = [...given, ...more];
        return all.length === 0 ? [] : [object(all)];
      },
    };
  }

  private fork(chain: unknown, step: StepDocument, given: readonly Piece[], ids: ReadonlySet<string>): Written {
    const join = this.steps.get(String(step.next));
    if (join?.type !== "join" || this.placed.has(join.id)) throw new Unwritable(`no join follows ${step.id}`);
    refuseUntaken(join);
    refuseNull(join);
    const fork = this.call(chain, "parallel", [plain(step.id), ...given]);
    this.placed.add(join.id);
    // A join is written as any other step, but on the fork.
    const place = this.place(join, join.next as string | undefined, new Set([...ids, join.id]));
    const joined = this.call(fork.chain, "join", [plain(join.id), ...place.options([])]);
    return { calls: [...fork.calls, ...joined.calls], chain: joined.chain };
  }

  /** Its text is there once the method that takes it has called it. */
  private block(entry: string, follow: string | undefined, ids: ReadonlySet<string>): Piece {
    let source = "";
    return {
      get source() {
        return source;
      },
      value: (chain: unknown) => {
        const { calls, chain: written } = this.chain(chain, entry, follow, ids);
        source = blockOf(calls);
        return written;
      },
    };
  }

  private call(chain: unknown, method: string, args: readonly Piece[]): Written {
    const on = chain as Record<string, (...given: readonly unknown[]) => unknown>;
    const next = on[method]?.(...args.map(({ value }) => value));
    return { calls: [`.${method}${argumentsOf(args)}`], chain: next };
  }

  /** An action by its name: a contract, or what computes the name. */
  private called(name: string): Piece {
    const [, service, action, version] = /^([A-Za-z0-9_.:-]+)\.([A-Za-z0-9_:-]+)(?:@([1-9]\d{0,8}))?$/.exec(name) ?? [];
    if (service === undefined || action === undefined) {
      const computed = this.template(name, "string");
      if (typeof computed.value === "string") throw new Unwritable(`no contract has the name ${name}`);
      return later(computed);
    }
    this.used.add("defineAction");
    const value = defineAction({ service, name: action, version: Number(version ?? 1), input: {}, output: {} });
    const other = value.version === 1 ? "" : `, version: ${version}`;
    const members = `service: ${literal(service)}, name: ${literal(action)}${other}`;
    this.contracts.set(name, `defineAction({ ${members}, input: {}, output: {} })`);
    const at = memberName(name);
    const source = at === name ? `actions.${name}` : `actions[${literal(name)}]`;
    if (version === undefined) return { source, value };
    this.used.add("pinned");
    return { source: `pinned(${source})`, value: pinned(value) };
  }

  private undo({ action, inputs }: JsonObject): Piece {
    const called = this.called(String(action));
    const given: readonly Named[] = inputs === undefined ? [] : [["inputs", this.value("inputs", inputs)]];
    if (typeof called.value === "function") {
      if (inputs === null) throw new Unwritable(`the undo ${action} has inputs that are null: leave them out`);
      return object([["action", called], ...given]);
    }
    return given.length === 0 ? called : list([called, ...given.map(([, piece]) => piece)]);
  }

  private attribute(kind: AttributeKind, name: string, member: Json | undefined): Piece {
    if (kind === "cel") return this.expression(String(member), GIVES[name]);
    if (kind === "cels") return list((member as readonly string[]).map((one) => this.expression(one)));
    if (kind === "parts") return this.parts(member as JsonObject);
    return kind === "value" ? this.value(name, member) : plain(member);
  }

  private parts(members: JsonObject): Piece {
    return object(
      Object.entries(members).map(([name, member]) => [
        optionName(name),
        name === "non_retryable_codes" || name === "jitter" || name === "on_limit"
          ? plain(member)
          : this.value(name, member),
      ]),
    );
  }

  private expression(source: string, type?: string): Piece {
    const raw = source.replaceAll("`", () => "\\`").replaceAll("${", () => "\\${");
    const value = cel(Object.assign([raw], { raw: [raw] }));
    if (celOf(value) !== source || source.includes("\r"))
      throw new Unwritable(`cel cannot write ${JSON.stringify(source)}`);
    this.used.add("cel");
    return { source: `cel${type === undefined ? "" : `<${type}>`}\`${raw}\``, value };
  }

  /** A value with templates inside. The name says what type an expression in place of it gives. */
  private value(name: string, json: Json | undefined): Piece {
    if (ANYTHING.has(name))
      return this.template(json, typeof json === "string" && name !== "template" ? wholeOf(name) : undefined);
    if (TEXTS_INSIDE.has(name))
      return this.template(json, typeof json === "string" ? "Record<string, string>" : "string");
    return this.template(json, NUMBERS.test(name) ? "number" : "string");
  }

  private template(json: Json | undefined, type: string | undefined): Piece {
    if (Array.isArray(json)) return list(json.map((item) => this.template(item, type)));
    if (typeof json === "object" && json !== null)
      return object(Object.entries(json).map(([name, member]) => [name, this.template(member, type)]));
    return typeof json === "string" && json.includes("${") ? this.text(json, type) : plain(json);
  }

  private text(template: string, type: string | undefined): Piece {
    const { texts, expressions } = wordsOf(template);
    const [only] = expressions;
    const isBare = texts.every((one) => one === "");
    if (only === undefined) return plain(texts.join(""));
    if (isBare && expressions.length === 1) return this.expression(only, type);
    // `text` with one expression alone writes an empty text behind it.
    if (isBare && expressions.length === 2 && expressions[1] === '""') return this.words(["", ""], [only], template);
    return this.words(texts, expressions, template);
  }

  private words(texts: readonly string[], expressions: readonly string[], template: string): Piece {
    const parts = expressions.map((one) => this.expression(one));
    const value = text(Object.assign([...texts], { raw: texts }), ...(parts.map((part) => part.value) as never[]));
    if (textOf(value) !== template) throw new Unwritable(`text cannot write ${JSON.stringify(template)}`);
    this.used.add("text");
    const written = texts.map((one, index) => {
      const quoted = JSON.stringify(one)
        .slice(1, -1)
        .replaceAll('\\"', '"')
        .replaceAll("`", () => "\\`")
        .replaceAll("${", () => "\\${");
      return quoted + (parts[index] ? `\${${parts[index].source}}` : "");
    });
    return { source: `text\`${written.join("")}\``, value };
  }
}

/** What a whole template gives where an object is wanted. */
const wholeOf = (name: string) =>
  ["output", "payload", "details", "body"].includes(name) ? undefined : "Record<string, unknown>";

function plain(json: Json | undefined): Piece {
  if (json === undefined) throw new Unwritable("a step lacks an attribute that it needs");
  return { source: literal(json), value: json };
}

const titles = ({ title, description }: StepDocument): Record<string, Piece> => ({
  ...(title !== undefined && { title: plain(title) }),
  ...(description !== undefined && { description: plain(description) }),
});

function branchesOf({ id, branches = {} }: StepDocument): readonly (readonly [name: string, to: Json])[] {
  return Object.entries(branches as Record<string, { readonly next?: Json }>).map(([name, { next }]) => {
    if (next === undefined) throw new Unwritable(`the branch ${name} of ${id} leads nowhere`);
    return [name, next];
  });
}

/** Where a step without a `next` of its own leads: its branches and cases. */
function branchTargets(step: StepDocument): string[] {
  if (!["decision", "switch", "manual_approval"].includes(step.type)) return [];
  const cases = [
    ...((step.cases ?? []) as readonly { readonly next?: Json }[]),
    ...Object.values((step.branches ?? {}) as Record<string, { readonly next?: Json }>),
  ];
  return [...cases.map(({ next }) => next), step.default].filter((to) => typeof to === "string") as string[];
}

/** The first part of the document that is another one. The order of steps and members does not count. */
function differing(made: SagaDocument, wanted: SagaDocument): string | undefined {
  const { steps, ...head } = made;
  const { steps: wantedSteps, ...wantedHead } = wanted;
  if (!sameJson(head, wantedHead)) return "its head";
  const other = wantedSteps.find(
    (step) =>
      !sameJson(
        step,
        steps.find(({ id }) => id === step.id),
      ),
  );
  return other && `the step ${other.id}`;
}
