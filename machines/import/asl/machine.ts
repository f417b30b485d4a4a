// A state machine of the Amazon States Language as a workflow: the data that one state passes to the next is the variable `data`, and each state
// becomes a few steps that read and set it. What has no equivalent is reported, and a null or nothing is put in its place.

import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { LONGEST_WAIT_MS, parseInstant } from "../../values/time.js";
import { escaped, escapedJson, template } from "../cel.js";
import { Ids } from "../names.js";
import type { Report } from "../report.js";
import { Chain, type Step } from "./chain.js";
import { conditionOf } from "./choice.js";
import { policyOf, type Retrier, retriersOf } from "./errors.js";
import { addCounters, addFailures, ofParameters, type Scope, type State } from "./failures.js";
import { FIELDS } from "./fields.js";
import { celOf, namesOf, pathToCel, presence } from "./path.js";
import { computed, computedCel, orReported, payloadOf, scopeOfState } from "./payload.js";
import { actionOf } from "./resource.js";

const DATA = "vars.data";
/** TimeoutSeconds, where a Task has none. */
const LONGEST_TASK_MS = 99_999_999_000;

export class MachineImport {
  private readonly ids = new Ids();
  private readonly steps: Step[] = [];

  constructor(
    private readonly machine: JsonObject,
    private readonly report: Report,
  ) {}

  workflow(id: string, name: string): JsonObject {
    const { Comment: comment, TimeoutSeconds: timeout } = this.machine;
    const start = this.ids.for("input", "input");
    for (const field of Object.keys(this.machine))
      if (!FIELDS.machine.includes(field)) this.report.refuse([field], field, "the specification has no such field");
    if (this.machine.QueryLanguage === "JSONata")
      this.report.refuse(["QueryLanguage"], "QueryLanguage JSONata", JSONATA);
    this.steps.push({ id: start, type: "set_var", variables: { data: "${inputs}" } });
    const first = this.scope(this.machine, [], "end", false);
    const [input] = this.steps;
    if (input) input.next = first;
    return {
      ...{ id, name },
      ...(typeof comment === "string" && comment !== "" && { description: comment }),
      ...(typeof timeout === "number" && { timeout_ms: Math.min(timeout * 1_000, LONGEST_WAIT_MS) }),
      ...{ start, steps: this.steps },
    };
  }

  /** Adds the steps of all states and of the end, and gives the id of the first. */
  private scope(given: JsonObject, path: FieldPath, name: string, item: boolean): string {
    const states = isObject(given.States) ? given.States : {};
    const end = this.ids.for(`${path.join("/")}#end`, name);
    const scope: Scope = { path: [...path, "States"], end, item };
    for (const [key, state] of Object.entries(states)) this.state(key, isObject(state) ? state : {}, scope);
    this.steps.push({ id: end, type: "end", output: template(DATA) });
    return this.target(given.StartAt, scope);
  }

  private target(name: Json | undefined, scope: Scope): string {
    return this.ids.for([...scope.path, String(name)].join("/"), String(name));
  }

  private state(name: string, given: JsonObject, scope: Scope): void {
    const path = [...scope.path, name];
    const id = this.target(name, scope);
    const { Comment: comment } = given;
    const head = {
      ...(id !== name && { title: name }),
      ...(typeof comment === "string" && comment !== "" && { description: comment }),
    };
    const idFor = (suffix: string) =>
      suffix === "" ? id : this.ids.for(`${path.join("/")}#${suffix}`, `${id}.${suffix}`);
    const chain = new Chain(idFor, head);
    const type = String(given.Type);
    const handles = ["Catch", "Retry"].some((field) => Array.isArray(given[field]) && given[field].length > 0);
    const state: State = { name, id, given, path, scope, chain, input: DATA, failed: undefined, own: new Map() };
    this.checkFields(state, type);
    const known = { ...state, failed: handles ? idFor("failed") : undefined };
    this.steps.push(...this.read(type, known));
  }

  private checkFields({ given, path }: State, type: string): void {
    const known = FIELDS.states[type];
    if (!known)
      this.report.refuse(
        [...path, "Type"],
        `a state of the type ${type}`,
        "the specification has no such type",
        "a step that does nothing",
      );
    for (const field of Object.keys(given)) {
      const why =
        FIELDS.refused[field] ?? (known?.includes(field) === false ? `a ${type} state has no such field` : undefined);
      if (why !== undefined) this.report.refuse([...path, field], field, why);
    }
    if (given.QueryLanguage === "JSONata")
      this.report.refuse([...path, "QueryLanguage"], "QueryLanguage JSONata", JSONATA);
  }

  private read(type: string, state: State): readonly Step[] {
    switch (type) {
      case "Pass":
        return this.pass(state);
      case "Task":
        return this.task(state);
      case "Choice":
        return this.choice(state);
      case "Wait":
        return this.wait(state);
      case "Fail":
        return this.fail(state);
      case "Parallel":
        return this.parallel(state);
      case "Map":
        return this.map(state);
      default:
        this.enter(state);
        this.handOn(state);
        return state.chain.close(type === "Succeed" ? state.scope.end : this.next(state));
    }
  }

  private next({ given, scope }: State): string {
    return typeof given.Next === "string" ? this.target(given.Next, scope) : scope.end;
  }

  private scopeOf({ name, path, scope }: State, root: string, item = scope.item) {
    return scopeOfState({ root, state: name, path, report: this.report, item });
  }

  /** InputPath. A path that finds nothing fails the run, as States.Runtime does. */
  private enter(state: State): void {
    const { given, chain } = state;
    const path = given.InputPath;
    if (path === undefined || path === "$") return;
    chain.add("input", "set_var", { variables: { state_input: this.selected(state, "InputPath", DATA) } });
    state.input = "vars.state_input";
  }

  /** What InputPath or OutputPath selects, as a template. */
  private selected(state: State, field: "InputPath" | "OutputPath", root: string): Json {
    const path = state.given[field];
    if (path === null) return {};
    const at = [...state.path, field];
    return orReported(at, this.report, () => template(pathToCel(String(path), this.scopeOf(state, root))));
  }

  /** Of a state that computes nothing: its output is its input. */
  private handOn(state: State): void {
    const { given, chain, input } = state;
    const output = given.OutputPath;
    if (output !== undefined && output !== "$")
      chain.add("output", "set_var", { variables: { data: this.selected(state, "OutputPath", input) } });
    else if (input !== DATA) chain.add("output", "set_var", { variables: { data: template(input) } });
  }

  private pass(state: State): readonly Step[] {
    this.enter(state);
    const { given, chain, path, input } = state;
    const value = Object.hasOwn(given, "Result")
      ? escapedJson(given.Result ?? null)
      : Object.hasOwn(given, "Parameters")
        ? payloadOf(given.Parameters ?? null, this.scopeOf(state, input), [...path, "Parameters"], this.report)
        : template(input);
    this.place(state, value);
    return chain.close(this.next(state));
  }

  /** ResultPath and OutputPath: puts the value into the data. */
  private place(state: State, value: Json): void {
    const { given, chain } = state;
    const path = given.ResultPath === undefined ? "$" : given.ResultPath;
    // A payload is computed, and may fail, also where its value goes nowhere.
    if (path === null && typeof value !== "string")
      chain.add("value", "set_var", { variables: { result: value }, ...this.caught(state) });
    if (path !== null) {
      const names = orReported([...state.path, "ResultPath"], this.report, () => namesOf(String(path))) ?? [];
      if (names.length > 0) this.put(state, names, value);
      else if (value !== template(DATA))
        chain.add("result", "set_var", { variables: { data: value }, ...this.caught(state) });
    }
    if (given.OutputPath !== undefined && given.OutputPath !== "$")
      chain.add("output", "set_var", { variables: { data: this.selected(state, "OutputPath", DATA) } });
  }

  /** Sets a member of the data, however deep: from the innermost object out. */
  private put(state: State, names: readonly string[], value: Json): void {
    const { chain } = state;
    const caught = this.caught(state);
    if (value !== template("vars.result")) chain.add("value", "set_var", { variables: { result: value }, ...caught });
    for (let depth = names.length - 1; depth >= 0; depth--) {
      const way = names.slice(0, depth).map((name) => ({ kind: "member", name }) as const);
      const there = celOf(DATA, way);
      const base = depth === 0 ? DATA : `${presence(DATA, way)} ? ${there} : {}`;
      const last = depth === 0 && state.failed === undefined;
      const sources = [base, `{${JSON.stringify(names[depth])}: vars.result}`];
      chain.add(depth === 0 ? "result" : `result_${depth}`, "merge", {
        sources,
        ...caught,
        save_as: last ? "data" : "result",
      });
    }
    // With a catch, a merge that fails must leave the data as they are.
    if (state.failed !== undefined) chain.add("data", "set_var", { variables: { data: template("vars.result") } });
  }

  /** Where a step of the state's own paths leads if it fails: to the catchers, under this name. */
  private caught(state: State, name = "States.ResultPathMatchFailure"): JsonObject {
    const { given, own, chain } = state;
    if (!Array.isArray(given.Catch) || given.Catch.length === 0) return {};
    const suffix = name === "States.ResultPathMatchFailure" ? "unplaced" : "unset";
    own.set(name, suffix);
    return { on_error: chain.idOf(suffix), save_as: "result" };
  }

  private task(state: State): readonly Step[] {
    this.enter(state);
    const { given, chain, path, input } = state;
    const resource = String(given.Resource);
    const named = orReported([...path, "Resource"], this.report, () => actionOf(resource)) ?? {
      ...{ action: "task.token", answersObject: true, duty: "it answers what the token would have brought" },
    };
    this.report.note(
      [...path, "Resource"],
      resource,
      "a worker carries out the work of a Task",
      `the action ${named.action}${named.duty === "" ? "" : `: ${named.duty}`}`,
    );
    const inputs = Object.hasOwn(given, "Parameters")
      ? payloadOf(given.Parameters ?? null, this.scopeOf(state, input), [...path, "Parameters"], this.report)
      : template(input);
    const whole = isObject(inputs) ? inputs : wrapped(inputs);
    const retriers = retriersOf(given.Retry, [...path, "Retry"], this.report);
    const policy = policyOf(retriers);
    if (!policy) addCounters(state, retriers);
    const call = chain.add("task", "action", {
      action: named.action,
      inputs: whole,
      save_as: "result",
      ...this.times(state),
      retry: policy ?? { max_attempts: 1, initial_backoff_ms: 0 },
      ...(state.failed !== undefined && (given.Catch || !policy) && { on_error: state.failed }),
    });
    this.answered(state, named.answersObject ? "vars.result" : UNWRAPPED);
    if (state.failed !== undefined && (given.Catch || !policy)) this.failuresOf(state, call, policy ? [] : retriers);
    return chain.close(this.next(state));
  }

  private times(state: State): JsonObject {
    const { given, path, input } = state;
    const computedMs = (field: string) =>
      orReported([...path, field], this.report, () =>
        template(`${computedCel(String(given[field]), this.scopeOf(state, input))} * 1000`),
      );
    const fixedMs = (value: Json | undefined) =>
      typeof value === "number" ? Math.min(value * 1_000, LONGEST_WAIT_MS) : undefined;
    const timeout = given.TimeoutSecondsPath
      ? computedMs("TimeoutSecondsPath")
      : (fixedMs(given.TimeoutSeconds) ?? LONGEST_TASK_MS);
    const beat = given.HeartbeatSecondsPath ? computedMs("HeartbeatSecondsPath") : fixedMs(given.HeartbeatSeconds);
    if (beat !== undefined)
      this.report.note(path, "HeartbeatSeconds", "the worker has to send heartbeats", "heartbeat_timeout_ms");
    return { timeout_ms: timeout, ...(beat !== undefined && { heartbeat_timeout_ms: beat }) };
  }

  /** ResultSelector, then ResultPath and OutputPath. */
  private answered(state: State, result: string): void {
    const { given, chain, path } = state;
    if (!Object.hasOwn(given, "ResultSelector")) {
      this.place(state, template(result));
      return;
    }
    if (result !== "vars.result")
      chain.add("answer", "set_var", { variables: { result: template(result) }, ...this.caught(state) });
    const scope = this.scopeOf(state, "vars.result");
    this.place(state, payloadOf(given.ResultSelector ?? null, scope, [...path, "ResultSelector"], this.report));
  }

  private choice(state: State): readonly Step[] {
    const { given, chain, path, scope } = state;
    this.enter(state);
    const selects = given.OutputPath !== undefined && given.OutputPath !== "$";
    if (!selects) this.handOn(state);
    const ways = new Map<string, string>();
    // The rules read the input, so OutputPath comes behind them.
    const leave = (name: Json | undefined): string => {
      const target = this.target(name, scope);
      if (!selects) return target;
      const before = ways.get(target);
      const data = { data: this.selected(state, "OutputPath", state.input) };
      const way = before ?? chain.aside(`output_${ways.size}`, "set_var", { variables: data, next: target });
      ways.set(target, way);
      return way;
    };
    const cases = (Array.isArray(given.Choices) ? given.Choices : []).flatMap((rule, index) => {
      const at = [...path, "Choices", index];
      if (!isObject(rule)) return [];
      for (const field of ["Assign", "Output", "Condition"])
        if (Object.hasOwn(rule, field)) this.report.refuse([...at, field], field, FIELDS.refused[field] ?? JSONATA);
      const when = orReported(at, this.report, () => conditionOf(rule, this.scopeOf(state, state.input)));
      return [{ when: when ?? "false", next: leave(rule.Next) }];
    });
    const otherwise: JsonObject = typeof given.Default === "string" ? { default: leave(given.Default) } : {};
    chain.add("choice", "switch", { cases, ...otherwise });
    return chain.steps;
  }

  private wait(state: State): readonly Step[] {
    this.enter(state);
    const { given, chain, path, input } = state;
    const cel = (field: string) =>
      orReported([...path, field], this.report, () => computedCel(String(given[field]), this.scopeOf(state, input)));
    if (given.SecondsPath !== undefined)
      chain.add("wait", "wait_duration", { duration_ms: template(`${cel("SecondsPath")} * 1000`) });
    else if (given.TimestampPath !== undefined)
      chain.add("wait", "wait_until", { until: template(String(cel("TimestampPath"))) });
    else if (typeof given.Timestamp === "string" && parseInstant(given.Timestamp) !== undefined)
      chain.add("wait", "wait_until", { until: given.Timestamp });
    else {
      const seconds = given.Seconds;
      if (typeof seconds !== "number")
        this.report.refuse(
          [...path, "Seconds"],
          "a Wait without a number of seconds or a timestamp",
          "the time is not known",
          "no wait",
        );
      chain.add("wait", "wait_duration", { duration_ms: typeof seconds === "number" ? seconds * 1_000 : 0 });
    }
    this.handOn(state);
    return chain.close(this.next(state));
  }

  private fail(state: State): readonly Step[] {
    const { given, chain, path } = state;
    const text = (field: string, otherwise: string): Json => {
      const computedText = given[`${field}Path`];
      if (computedText === undefined)
        return typeof given[field] === "string" && given[field] !== "" ? escaped(given[field]) : otherwise;
      const at = [...path, `${field}Path`];
      return orReported(at, this.report, () => computed(String(computedText), this.scopeOf(state, DATA))) ?? otherwise;
    };
    if (given.Error === undefined && given.ErrorPath === undefined)
      this.report.note(path, "a Fail without an Error", "an error has a code here", 'the code "error"');
    chain.add("fail", "error", { code: text("Error", "error"), message: text("Cause", "") });
    return chain.steps;
  }

  private parallel(state: State): readonly Step[] {
    this.enter(state);
    const { given, chain, path } = state;
    if (Object.hasOwn(given, "Parameters")) {
      const scope = this.scopeOf(state, state.input);
      const payload = payloadOf(given.Parameters ?? null, scope, [...path, "Parameters"], this.report);
      chain.add("parameters", "set_var", {
        variables: { state_input: payload },
        ...this.caught(state, ofParameters(given)),
      });
      state.input = "vars.state_input";
    }
    const retriers = retriersOf(given.Retry, [...path, "Retry"], this.report);
    addCounters(state, retriers);
    const given_ = Array.isArray(given.Branches) ? given.Branches : [];
    const begun = given_.map((branch, index) => {
      const at = [...path, "Branches", index];
      this.onlyFields(isObject(branch) ? branch : {}, FIELDS.branch, at);
      const first = this.scope(isObject(branch) ? branch : {}, at, `${state.id}.branch${index}.end`, state.scope.item);
      return state.input === DATA ? first : this.enterBlock(state, `branch${index}`, template(state.input), first);
    });
    const branches = Object.fromEntries(begun.map((next, index) => [`branch${index}`, { next }]));
    const call = chain.add("parallel", "parallel", { branches });
    chain.add("join", "join", { save_as: "result", ...(state.failed !== undefined && { on_error: state.failed }) });
    this.answered(state, `[${given_.map((_, index) => `vars.result.branch${index}`).join(", ")}]`);
    this.failuresOf(state, call, retriers);
    return chain.close(this.next(state));
  }

  /** The first step of a branch or an item, which sets what its states begin with. */
  private enterBlock({ chain }: State, suffix: string, data: Json, next: string): string {
    return chain.aside(suffix, "set_var", { variables: { data }, next });
  }

  private map(state: State): readonly Step[] {
    this.enter(state);
    const { given, chain, path, input } = state;
    const field = isObject(given.ItemProcessor) ? "ItemProcessor" : "Iterator";
    const processor = isObject(given[field]) ? (given[field] as JsonObject) : {};
    this.onlyFields(processor, FIELDS.processor, [...path, field]);
    const distributed = isObject(processor.ProcessorConfig) && processor.ProcessorConfig.Mode === "DISTRIBUTED";
    if (distributed)
      this.report.refuse([...path, field, "ProcessorConfig", "Mode"], "Mode DISTRIBUTED", DISTRIBUTED, "a foreach");
    const retriers = retriersOf(given.Retry, [...path, "Retry"], this.report);
    addCounters(state, retriers);
    const items =
      given.ItemsPath === undefined
        ? input
        : orReported([...path, "ItemsPath"], this.report, () =>
            pathToCel(String(given.ItemsPath), this.scopeOf(state, input)),
          );
    const first = this.scope(processor, [...path, field], `${state.id}.item.end`, true);
    const selector = ["ItemSelector", "Parameters"].find((name) => Object.hasOwn(given, name));
    const data =
      selector === undefined
        ? template("item")
        : payloadOf(given[selector] ?? null, this.scopeOf(state, input, true), [...path, selector], this.report);
    const body = this.enterBlock(state, "item", data, first);
    const at_once =
      given.MaxConcurrencyPath === undefined
        ? (given.MaxConcurrency ?? 0)
        : orReported([...path, "MaxConcurrencyPath"], this.report, () =>
            computed(String(given.MaxConcurrencyPath), this.scopeOf(state, input)),
          );
    const call = chain.add("map", "foreach", {
      items: items ?? "[]",
      body,
      max_concurrency: at_once ?? 0,
      save_as: "result",
      ...(state.failed !== undefined && { on_error: state.failed }),
    });
    this.answered(state, "vars.result");
    this.failuresOf(state, call, retriers);
    return chain.close(this.next(state));
  }

  private failuresOf(state: State, call: string, retriers: readonly Retrier[]): void {
    if (state.failed !== undefined)
      addFailures(state, state.failed, {
        call,
        retriers,
        report: this.report,
        target: (next) => this.target(next, state.scope),
      });
  }

  private onlyFields(given: JsonObject, known: readonly string[], path: FieldPath): void {
    for (const field of Object.keys(given))
      if (!known.includes(field))
        this.report.refuse([...path, field], field, FIELDS.refused[field] ?? "the specification has no such field");
    if (given.QueryLanguage === "JSONata")
      this.report.refuse([...path, "QueryLanguage"], "QueryLanguage JSONata", JSONATA);
  }
}

const DISTRIBUTED =
  "its items are executions of their own with limits, a history and an error of their own (States.ExceedToleratedFailureThreshold)";
const JSONATA = "its expressions are programs in another language than CEL";

/** An action takes and gives objects. Any other value travels as the member `$`. */
const wrapped = (whole: Json): Json => {
  const cel = typeof whole === "string" && whole.startsWith("${") ? whole.slice(2, -1) : undefined;
  return cel === undefined ? { $: whole } : template(`type(${cel}) == map ? ${cel} : {"$": ${cel}}`);
};
const UNWRAPPED = '(size(vars.result) == 1 && "$" in vars.result ? vars.result["$"] : vars.result)';
