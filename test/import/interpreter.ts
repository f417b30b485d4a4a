// An interpreter of the Amazon States Language, written from its specification (states-language.net) to judge the importer: it shares no code with it.
// Branches and items run one after the other, so a script that fails in two of them at once has no expected end here.
type Value = unknown;
type Dict = Record<string, Value>;

export interface TaskOutcome {
  readonly output?: Value;
  readonly error?: string;
}

export interface Ended {
  readonly status: "SUCCEEDED" | "FAILED";
  readonly output?: Value;
  readonly error?: string;
  /** Names of the states that were entered, in their order. */
  readonly trail: readonly string[];
  /** Seconds that Wait states and retries took, in all branches together. */
  readonly waited: number;
}

class Failed extends Error {
  constructor(
    readonly name_: string,
    readonly cause_ = "",
  ) {
    super(name_);
  }
}

const isDict = (value: Value): value is Dict => typeof value === "object" && value !== null && !Array.isArray(value);

/** Outcomes by the name of the Task: the nth attempt takes the nth, the last one is repeated. */
export type Script = Readonly<Record<string, readonly TaskOutcome[]>>;

export function execute(machine: Dict, input: Value, script: Script, most = 2_000): Ended {
  const run = new Execution(input, script, most);
  try {
    const output = run.scope(machine, input, {});
    return { status: "SUCCEEDED", output, trail: run.trail, waited: run.waited };
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    return { status: "FAILED", error: error.name_, trail: run.trail, waited: run.waited };
  }
}

class Execution {
  readonly trail: string[] = [];
  waited = 0;
  private readonly used = new Map<string, number>();

  constructor(
    private readonly input: Value,
    private readonly script: Script,
    private left: number,
  ) {}

  scope(machine: Dict, input: Value, context: Dict): Value {
    const states = machine.States as Record<string, Dict>;
    let [name, data]: [string | undefined, Value] = [machine.StartAt as string, input];
    while (name !== undefined) {
      const state: Dict | undefined = states[name];
      if (!state) throw new Error(`there is no state ${name}`);
      if (this.left-- <= 0) throw new Error("the machine does not end");
      this.trail.push(name);
      const entered: { next: string | undefined; data: Value } = new Visit(this, state, name, data, {
        ...context,
        State: { Name: name, EnteredTime: new Date(Date.UTC(2026, 0, 1) + this.waited * 1_000).toISOString() },
      }).enter();
      [name, data] = [entered.next, entered.data];
    }
    return data;
  }

  outcome(task: string): TaskOutcome {
    const list = this.script[task] ?? [{ output: {} }];
    const nth = this.used.get(task) ?? 0;
    this.used.set(task, nth + 1);
    return list[Math.min(nth, list.length - 1)] ?? { output: {} };
  }

  get executionInput(): Value {
    return this.input;
  }
}

class Visit {
  constructor(
    private readonly run: Execution,
    private readonly state: Dict,
    private readonly name: string,
    private readonly raw: Value,
    private readonly context: Dict,
  ) {}

  enter(): { next: string | undefined; data: Value } {
    const { state } = this;
    const next = (state.Next ?? undefined) as string | undefined;
    switch (state.Type) {
      case "Succeed":
        return { next: undefined, data: this.output(this.effective()) };
      case "Fail":
        throw new Failed(String(state.Error ?? this.textAt("ErrorPath") ?? "error"), String(state.Cause ?? ""));
      case "Wait":
        return this.wait(next);
      case "Choice":
        return this.choice();
      case "Pass": {
        const input = this.effective();
        const made =
          "Parameters" in state ? this.payload(state.Parameters, input, "States.ParameterPathFailure") : input;
        return { next, data: this.output(this.combine("Result" in state ? state.Result : made)) };
      }
      default:
        return this.attempt(next);
    }
  }

  private textAt(field: string): Value {
    return typeof this.state[field] === "string" ? this.reference(String(this.state[field]), this.raw) : undefined;
  }

  private wait(next: string | undefined) {
    const input = this.effective();
    const { Seconds: seconds, SecondsPath: path } = this.state;
    const time = seconds ?? (typeof path === "string" ? this.reference(path, input) : 0);
    if (typeof time !== "number" || time < 0) throw new Failed("States.Runtime");
    this.run.waited += time;
    if (typeof this.state.TimestampPath === "string") this.reference(this.state.TimestampPath, input);
    return { next, data: this.output(input) };
  }

  private choice() {
    const input = this.effective();
    const rule = (this.state.Choices as Dict[]).find((each) => this.holds(each, input));
    const next = (rule?.Next ?? this.state.Default) as string | undefined;
    if (next === undefined) throw new Failed("States.NoChoiceMatched");
    return { next, data: this.output(input) };
  }

  /** Task, Parallel and Map: with Retry and Catch. */
  private attempt(next: string | undefined): { next: string | undefined; data: Value } {
    const input = this.effective();
    const counts = new Map<Dict, number>();
    for (;;) {
      try {
        let result = this.work(input);
        if ("ResultSelector" in this.state)
          result = this.payload(this.state.ResultSelector, result, "States.ResultPathMatchFailure");
        return { next, data: this.output(this.combine(result)) };
      } catch (error) {
        if (!(error instanceof Failed)) throw error;
        if (!this.retries(error, counts)) return this.caught(error);
      }
    }
  }

  private retries(error: Failed, counts: Map<Dict, number>): boolean {
    // The result's own paths fail again in the same way.
    if (error.name_ === "States.ResultPathMatchFailure") return false;
    const retrier = ((this.state.Retry ?? []) as Dict[]).find((each) =>
      matches(error.name_, each.ErrorEquals as string[]),
    );
    if (!retrier) return false;
    const nth = counts.get(retrier) ?? 0;
    if (nth >= Number(retrier.MaxAttempts ?? 3)) return false;
    counts.set(retrier, nth + 1);
    const delay = Number(retrier.IntervalSeconds ?? 1) * Number(retrier.BackoffRate ?? 2) ** nth;
    this.run.waited += Math.min(delay, Number(retrier.MaxDelaySeconds ?? Number.POSITIVE_INFINITY));
    return true;
  }

  private caught(error: Failed): { next: string | undefined; data: Value } {
    const catcher = ((this.state.Catch ?? []) as Dict[]).find((each) =>
      matches(error.name_, each.ErrorEquals as string[]),
    );
    if (!catcher) throw error;
    const data = this.combine({ Error: error.name_, Cause: error.cause_ }, catcher);
    return { next: catcher.Next as string, data };
  }

  private work(input: Value): Value {
    const { state } = this;
    const given = (field: string) =>
      field in state ? this.payload(state[field], input, "States.ParameterPathFailure") : input;
    if (state.Type === "Task") {
      given("Parameters");
      const { error, output } = this.run.outcome(this.name);
      if (error !== undefined) throw new Failed(error, `cause of ${error}`);
      return structuredClone(output);
    }
    if (state.Type === "Parallel") {
      const begun = given("Parameters");
      return this.children(() =>
        (state.Branches as Dict[]).map((branch) => this.run.scope(branch, structuredClone(begun), this.context)),
      );
    }
    const items = typeof state.ItemsPath === "string" ? this.reference(state.ItemsPath, input) : input;
    if (!Array.isArray(items)) throw new Failed("States.Runtime");
    const selector = state.ItemSelector ?? state.Parameters;
    const processor = (state.ItemProcessor ?? state.Iterator) as Dict;
    return this.children(() =>
      items.map((item, index) => {
        const context = { ...this.context, Map: { Item: { Index: index, Value: item } } };
        const inner = new Visit(this.run, state, this.name, this.raw, context);
        const data = selector === undefined ? item : inner.payload(selector, input, "States.Runtime");
        return this.run.scope(processor, structuredClone(data), context);
      }),
    );
  }

  /** What fails in the paths of a branch cannot be caught outside of it (a choice of the importer, which the page names). */
  private children<T>(make: () => T): T {
    try {
      return make();
    } catch (error) {
      if (error instanceof Failed && PATHS.includes(error.name_)) throw new Failed("States.Runtime");
      throw error;
    }
  }

  private effective(): Value {
    const path = this.state.InputPath;
    return path === undefined ? this.raw : path === null ? {} : this.reference(String(path), this.raw);
  }

  private output(data: Value): Value {
    const path = this.state.OutputPath;
    return path === undefined ? data : path === null ? {} : this.reference(String(path), data);
  }

  private combine(result: Value, by: Dict = this.state): Value {
    const path = by.ResultPath;
    if (path === null) return this.raw;
    if (path === undefined || path === "$") return result;
    const names = [...String(path).matchAll(/\.([\w$-]+)|\['([^']*)'\]/g)].map(
      ([, plain, quoted]) => plain ?? quoted ?? "",
    );
    const root = structuredClone(this.raw);
    let at: Value = root;
    names.forEach((name, index) => {
      if (!isDict(at)) throw new Failed("States.ResultPathMatchFailure");
      if (index === names.length - 1) at[name] = result;
      else if (!(name in at)) at[name] = {};
      at = at[name];
    });
    return root;
  }

  private payload(value: Value, input: Value, error: string): Value {
    if (Array.isArray(value)) return value.map((each) => this.payload(each, input, error));
    if (!isDict(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => {
        if (!name.endsWith(".$")) return [name, this.payload(each, input, error)];
        try {
          return [name.slice(0, -2), this.compute(String(each), input)];
        } catch (thrown) {
          if (thrown instanceof Failed)
            throw new Failed(
              JSON.stringify(value).includes("States.") && error === "States.ParameterPathFailure"
                ? "States.IntrinsicFailure"
                : error,
            );
          throw thrown;
        }
      }),
    );
  }

  private compute(text: string, input: Value): Value {
    if (!text.startsWith("States.")) return this.reference(text, input);
    const [value, rest] = this.term(text, input);
    if (rest.trim() !== "") throw new Error(`what is ${rest}`);
    return value;
  }

  /** One term of an intrinsic function, and the text behind it. */
  private term(text: string, input: Value): [Value, string] {
    const at = text.trimStart();
    const literal = /^'((?:[^'\\]|\\.)*)'/.exec(at);
    if (literal) return [(literal[1] ?? "").replace(/\\(['\\])/g, "$1"), at.slice(literal[0].length)];
    const call = /^States\.(\w+)\(/.exec(at);
    if (!call) {
      const word = /^[^,)]+/.exec(at)?.[0] ?? "";
      const value = word.startsWith("$") ? this.reference(word.trim(), input) : JSON.parse(word);
      return [value, at.slice(word.length)];
    }
    const args: Value[] = [];
    let rest = at.slice(call[0].length).trimStart();
    while (!rest.startsWith(")")) {
      const [value, behind] = this.term(rest, input);
      args.push(value);
      rest = behind.trimStart().replace(/^,\s*/, "");
    }
    const make = INTRINSICS[call[1] ?? ""];
    if (!make) throw new Error(`no function ${call[1]}`);
    return [make(args), rest.slice(1)];
  }

  private reference(path: string, input: Value): Value {
    if (!path.startsWith("$$")) return select(path.slice(1), input);
    const context = { ...CONTEXT, Execution: { ...EXECUTION, Input: this.run.executionInput }, ...this.context };
    return select(path.slice(2), context);
  }

  private holds(rule: Dict, input: Value): boolean {
    if (Array.isArray(rule.And)) return rule.And.every((each) => this.holds(each as Dict, input));
    if (Array.isArray(rule.Or)) return rule.Or.some((each) => this.holds(each as Dict, input));
    if (isDict(rule.Not)) return !this.holds(rule.Not, input);
    const operator = Object.keys(rule).find((name) => /^(Is|String|Numeric|Boolean|Timestamp)/.test(name)) ?? "";
    let left: Value;
    try {
      left = this.reference(String(rule.Variable), input);
    } catch (error) {
      if (operator === "IsPresent") return rule[operator] === false;
      throw error;
    }
    if (operator.startsWith("Is")) return this.is(operator, left) === rule[operator];
    const right = operator.endsWith("Path") ? this.reference(String(rule[operator]), input) : rule[operator];
    return compare(operator.replace(/Path$/, ""), left, right);
  }

  private is(operator: string, value: Value): boolean {
    const tests: Record<string, boolean> = {
      IsPresent: true,
      IsNull: value === null,
      IsNumeric: typeof value === "number",
      IsString: typeof value === "string",
      IsBoolean: typeof value === "boolean",
      IsTimestamp: typeof value === "string" && isTimestamp(value),
    };
    return tests[operator] ?? false;
  }
}

/** As a rehearsal has them. */
const EXECUTION = {
  Id: "00000000-0000-8000-8000-000000000001",
  Name: "00000000-0000-8000-8000-000000000001",
  StartTime: "2026-01-01T00:00:00.000Z",
};
const CONTEXT = { StateMachine: { Id: "x", Name: "x" } };

const PATHS = ["States.ParameterPathFailure", "States.IntrinsicFailure", "States.ResultPathMatchFailure"];
const isTimestamp = (text: string) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text);

function matches(name: string, names: readonly string[]): boolean {
  const fatal = name === "States.Runtime" || name === "States.DataLimitExceeded";
  const late = name === "States.Timeout" || name === "States.HeartbeatTimeout";
  return names.some((each) => {
    if (each === "States.ALL") return !fatal;
    if (each === "States.TaskFailed") return !fatal && !late;
    if (each === "States.Timeout") return late;
    return each === name && !fatal;
  });
}

function compare(operator: string, left: Value, right: Value): boolean {
  const [, type, sign] = /^(String|Numeric|Boolean|Timestamp)(.*)$/.exec(operator) ?? [];
  if (sign === "Matches") return typeof left === "string" && glob(String(right), left);
  const wanted = { String: "string", Numeric: "number", Boolean: "boolean", Timestamp: "string" }[type ?? ""];
  if (typeof left !== wanted || typeof right !== wanted) return false;
  let [a, b] = [left, right] as [number, number];
  if (type === "Timestamp") {
    if (!isTimestamp(String(left)) || !isTimestamp(String(right))) return false;
    [a, b] = [Date.parse(String(left)), Date.parse(String(right))];
  }
  switch (sign) {
    case "Equals":
      return a === b;
    case "LessThan":
      return a < b;
    case "LessThanEquals":
      return a <= b;
    case "GreaterThan":
      return a > b;
    default:
      return a >= b;
  }
}

/** A star matches any text; a backslash makes a star a star. */
function glob(pattern: string, text: string): boolean {
  if (pattern === "") return text === "";
  if (pattern.startsWith("*")) return glob(pattern.slice(1), text) || (text !== "" && glob(pattern, text.slice(1)));
  const taken = pattern.startsWith("\\") ? 1 : 0;
  return text !== "" && pattern[taken] === text[0] && glob(pattern.slice(taken + 1), text.slice(1));
}

/** JSONPath: a definite path gives the value or fails, an indefinite one a list. */
function select(path: string, root: Value): Value {
  let found: Value[] = [root];
  let several = false;
  let rest = path;
  while (rest !== "") {
    const [token = "", plain, quoted, index, all, slice] =
      /^(?:\.([\p{L}\p{N}_$-]+)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])|\[(\d*:\d*)\])/u.exec(rest) ?? [];
    if (token === "") throw new Error(`what is the path ${path}`);
    rest = rest.slice(token.length);
    const name = plain ?? quoted;
    if (name !== undefined)
      found = found.flatMap((value) => (isDict(value) && Object.hasOwn(value, name) ? [value[name]] : []));
    else if (index !== undefined)
      found = found.flatMap((value) =>
        Array.isArray(value) && Number(index) < value.length ? [value[Number(index)]] : [],
      );
    else {
      const [from, to] = (slice ?? ":").split(":");
      if (found.some((value) => !Array.isArray(value) && !isDict(value))) throw new Failed("States.Runtime");
      found = found.flatMap((value) =>
        all && isDict(value)
          ? Object.values(value)
          : (value as Value[]).slice(Number(from || 0), to ? Number(to) : undefined),
      );
      several = true;
    }
    if (!several && found.length === 0) throw new Failed("States.Runtime", `nothing at ${path}`);
  }
  return structuredClone(several ? found : found[0]);
}

const fail = (): never => {
  throw new Failed("States.IntrinsicFailure");
};

const INTRINSICS: Record<string, (args: Value[]) => Value> = {
  Format: ([format, ...values]) => {
    let nth = 0;
    return String(format).replace(/\\([{}])|\{\}/g, (_, brace?: string) => {
      if (brace) return brace;
      const value = values[nth++];
      return typeof value === "string" ? value : JSON.stringify(value);
    });
  },
  JsonToString: ([value]) => JSON.stringify(value),
  Array: (args) => args,
  ArrayContains: ([list, value]) => (list as Value[]).some((each) => JSON.stringify(each) === JSON.stringify(value)),
  ArrayLength: ([list]) => (Array.isArray(list) ? list.length : fail()),
  ArrayGetItem: ([list, index]) => (Array.isArray(list) && Number(index) < list.length ? list[Number(index)] : fail()),
  ArrayRange: ([from, to, step]) => {
    const list: number[] = [];
    for (let at = Number(from); Number(step) > 0 ? at <= Number(to) : at >= Number(to); at += Number(step))
      list.push(at);
    return list;
  },
  ArrayPartition: ([list, size]) =>
    (list as Value[]).flatMap((_, index, all) =>
      index % Number(size) === 0 ? [all.slice(index, index + Number(size))] : [],
    ),
  ArrayUnique: ([list]) => [...new Map((list as Value[]).map((each) => [JSON.stringify(each), each])).values()],
  MathAdd: ([a, b]) => (typeof a === "number" && typeof b === "number" ? a + b : fail()),
  StringSplit: ([text, by]) =>
    typeof text === "string" ? text.split(String(by)).filter((each) => each !== "") : fail(),
  Base64Encode: ([text]) => Buffer.from(String(text)).toString("base64"),
  Base64Decode: ([text]) => Buffer.from(String(text), "base64").toString(),
  JsonMerge: ([a, b]) => (isDict(a) && isDict(b) ? { ...a, ...b } : fail()),
};
