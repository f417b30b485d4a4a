// State machines made of a seed: small, without loops but for retries, with paths that mostly find something. What they mean is the interpreter's business.
export class Dice {
  constructor(private state: number) {}

  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  upTo(most: number): number {
    return Math.floor(this.next() * (most + 1));
  }

  chance(of: number): boolean {
    return this.next() < of;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.upTo(list.length - 1)] as T;
  }
}

type Dict = Record<string, unknown>;

export interface Generated {
  readonly machine: Dict;
  readonly script: Record<string, { output?: unknown; error?: string }[]>;
  readonly input: Dict;
}

const PATHS = [
  "$",
  "$.a",
  "$.c.d",
  "$.c",
  "$.list",
  "$.list[0]",
  "$.list[*]",
  "$.list[1:3]",
  "$.flag",
  "$.b",
  "$['b']",
  "$.none",
  "$.items[*].n",
  "$.when",
];
const RESULT_PATHS = ["$", null, "$.r", "$.c.r", "$.new.deep.r", "$.a", "$.b.x"];
const ERRORS = ["Boom", "Other.Error", "States.Timeout"];
const FUNCTIONS = [
  "States.Format('{} and {}', $.a, $.b)",
  "States.Format('it\\'s \\{{}\\} 100%', $.flag)",
  "States.Array($.a, 'x', 3, null, true)",
  "States.ArrayLength($.list)",
  "States.ArrayGetItem($.list, 1)",
  "States.ArrayContains($.list, 2)",
  "States.ArrayRange(1, 9, 3)",
  "States.ArrayRange(9, 1, -4)",
  "States.ArrayPartition($.list, 2)",
  "States.ArrayUnique(States.Array(1, 2, 1))",
  "States.MathAdd($.a, -3)",
  "States.MathAdd($.b, 1)",
  "States.StringSplit($.b, ' ')",
  "States.Base64Encode('é 🎉')",
  "States.Base64Decode('aGk=')",
  "States.JsonMerge($.c, $.c, false)",
  "States.JsonToString($.c)",
  "States.ArrayLength($.b)",
];

export function generate(seed: number): Generated {
  const dice = new Dice(seed);
  const made = new Maker(dice);
  const machine = made.machine(2 + dice.upTo(5), 0, true);
  const input: Dict = {
    a: dice.pick([1, 2.5, -7, 0]),
    b: dice.pick(["hello world", "", "ünïcode 🎉", "${x} $$ %s"]),
    c: { d: dice.pick([1, "d", null]), "e f": [1] },
    list: [1, 2, 3, 4].slice(0, 1 + dice.upTo(3)),
    items: [{ n: 1 }, { m: 2 }, { n: null }].slice(0, dice.upTo(3)),
    flag: dice.chance(0.5),
    when: "2026-01-01T00:00:00Z",
  };
  return { machine, script: made.script, input };
}

class Maker {
  readonly script: Generated["script"] = {};
  private count = 0;

  constructor(private readonly dice: Dice) {}

  /** `fails`: whether something in it may fail. Of branches that run side by side only one may. */
  machine(size: number, depth: number, fails: boolean): Dict {
    const names = Array.from({ length: size }, () => `S ${++this.count}`);
    const states = names.map((name, index) => [name, this.state(name, names.slice(index + 1), depth, fails)] as const);
    return { StartAt: names[0], States: Object.fromEntries(states) };
  }

  private state(name: string, later: readonly string[], depth: number, fails: boolean): Dict {
    const { dice } = this;
    const [next] = later;
    const onward = next === undefined ? { End: true } : { Next: dice.pick(later.slice(0, 2)) };
    const kind = dice.pick(["Pass", "Pass", "Task", "Task", "Wait", "Choice", "Parallel", "Map", "Succeed", "Fail"]);
    const paths = fails ? this.inAndOut() : {};
    switch (kind) {
      case "Task":
        return {
          Type: "Task",
          Resource: "arn:aws:lambda:eu:1:function:F",
          ...paths,
          ...this.result(fails),
          ...this.failing(name, later, fails),
          ...onward,
        };
      case "Wait":
        return {
          Type: "Wait",
          ...(fails && dice.chance(0.3) ? { SecondsPath: "$.a" } : { Seconds: dice.upTo(90) }),
          ...paths,
          ...onward,
        };
      case "Choice":
        if (next === undefined) return { Type: "Succeed" };
        return {
          Type: "Choice",
          ...paths,
          Choices: this.rules(later, fails),
          ...(dice.chance(0.8) || !fails ? { Default: next } : {}),
        };
      case "Parallel":
      case "Map":
        if (depth < 2) return this.container(kind, later, depth, fails, { ...paths, ...onward });
        return { Type: "Pass", ...onward };
      case "Succeed":
        return next === undefined || dice.chance(0.2) ? { Type: "Succeed", ...paths } : { Type: "Pass", ...onward };
      case "Fail":
        return fails && (next === undefined || dice.chance(0.1))
          ? { Type: "Fail", Error: dice.pick(ERRORS), Cause: "made" }
          : { Type: "Pass", ...onward };
      default:
        return { Type: "Pass", ...paths, ...this.passed(fails), ...onward };
    }
  }

  private inAndOut(): Dict {
    const { dice } = this;
    return {
      ...(dice.chance(0.1) && { InputPath: dice.pick([...PATHS, null]) }),
      ...(dice.chance(0.1) && { OutputPath: dice.pick([...PATHS, null]) }),
    };
  }

  private passed(fails: boolean): Dict {
    const { dice } = this;
    if (!fails) return { Result: { n: dice.upTo(9), list: [1] }, ResultPath: dice.pick(["$", null]) };
    return {
      ...dice.pick<Dict>([{ Result: { "x.$": "$.a", t: "${y}" } }, { Parameters: this.payload() }, {}]),
      ...(dice.chance(0.7) && { ResultPath: dice.pick(RESULT_PATHS) }),
    };
  }

  private payload(): Dict {
    const { dice } = this;
    const value = () =>
      dice.chance(0.4) ? dice.pick(FUNCTIONS) : dice.pick([...PATHS, "$$.Execution.Input.a", "$$.State.Name"]);
    return { "p.$": value(), deep: { "q.$": value(), text: "${no} $.a" }, list: [{ "r.$": value() }, "plain"] };
  }

  private result(fails: boolean): Dict {
    const { dice } = this;
    if (!fails) return { ResultPath: dice.pick(["$", null]) };
    return {
      ...(dice.chance(0.3) && { Parameters: this.payload() }),
      ...(dice.chance(0.3) && { ResultSelector: { "s.$": dice.pick(["$", "$.a", "$.ok"]), fixed: 1 } }),
      ...(dice.chance(0.8) && { ResultPath: dice.pick(RESULT_PATHS) }),
    };
  }

  /** Outcomes of a task, and what its state does about its failures. */
  private failing(name: string, later: readonly string[], fails: boolean): Dict {
    const { dice } = this;
    const good = () => ({
      output: dice.pick<unknown>([{ ok: 1, a: 5, list: [7] }, "text", 3, [1, 2], null, true, {}]),
    });
    this.script[name] = fails
      ? Array.from({ length: 1 + dice.upTo(3) }, () => (dice.chance(0.5) ? { error: dice.pick(ERRORS) } : good()))
      : [good()];
    return fails ? this.handled(later) : {};
  }

  private handled(later: readonly string[]): Dict {
    const { dice } = this;
    const names = () =>
      dice.pick([["States.ALL"], ["Boom"], ["States.TaskFailed"], ["States.Timeout"], ["Boom", "Other.Error"]]);
    const retriers = Array.from({ length: dice.upTo(2) }, () => ({
      ErrorEquals: names(),
      ...(dice.chance(0.5) && { MaxAttempts: dice.upTo(3) }),
      ...(dice.chance(0.5) && { IntervalSeconds: 1 + dice.upTo(9) }),
      ...(dice.chance(0.3) && { BackoffRate: dice.pick([1, 1.5, 3]) }),
      ...(dice.chance(0.3) && { MaxDelaySeconds: 12 }),
    }));
    const catchers =
      later.length === 0
        ? []
        : Array.from({ length: dice.upTo(2) }, () => ({
            ErrorEquals: names(),
            Next: dice.pick(later),
            ...(dice.chance(0.6) && { ResultPath: dice.pick(RESULT_PATHS.filter((path) => path !== "$.b.x")) }),
          }));
    return { ...(retriers.length > 0 && { Retry: retriers }), ...(catchers.length > 0 && { Catch: catchers }) };
  }

  private container(kind: string, later: readonly string[], depth: number, fails: boolean, common: Dict): Dict {
    const { dice } = this;
    const handled = fails ? this.handled(later) : {};
    const size = () => 1 + dice.upTo(2);
    if (kind === "Parallel") {
      const guilty = dice.upTo(1);
      const branches = [0, 1].map((index) => this.machine(size(), depth + 1, fails && index === guilty));
      return {
        Type: "Parallel",
        Branches: branches,
        ...common,
        ...handled,
        ...(dice.chance(0.5) && { ResultPath: "$.r" }),
      };
    }
    const path = fails ? dice.pick(["$.list", "$.items", "$.a", "$.none"]) : undefined;
    if (path === undefined) return { Type: "Pass", ...common };
    return {
      ...{ Type: "Map", ItemsPath: path, MaxConcurrency: 1, ...common, ...handled },
      ItemProcessor: this.machine(size(), depth + 1, true),
      ...(dice.chance(0.5) && {
        ItemSelector: { "v.$": "$$.Map.Item.Value", "i.$": "$$.Map.Item.Index", "a.$": "$.a", b: "t" },
      }),
      ...(dice.chance(0.5) && { ResultPath: "$.r" }),
    };
  }

  private rules(later: readonly string[], fails: boolean): Dict[] {
    return Array.from({ length: 1 + this.dice.upTo(2) }, () => ({
      ...this.rule(fails, 0),
      Next: this.dice.pick(later),
    }));
  }

  private rule(fails: boolean, depth: number): Dict {
    const { dice } = this;
    const Variable = fails ? dice.pick(["$.a", "$.b", "$.c.d", "$.flag", "$.when", "$.a"]) : "$";
    if (depth < 2 && dice.chance(0.3)) {
      const two = () => [this.rule(fails, depth + 1), this.rule(fails, depth + 1)];
      return dice.pick<Dict>([{ And: two() }, { Or: two() }, { Not: this.rule(fails, depth + 1) }]);
    }
    return dice.pick<Dict>([
      { Variable, NumericGreaterThan: 0 },
      { Variable, NumericEquals: 2.5 },
      { Variable, StringEquals: "d" },
      { Variable, StringLessThan: "m" },
      { Variable, StringMatches: "h*o w*" },
      { Variable, BooleanEquals: true },
      { Variable, TimestampLessThanEquals: "2026-01-01T01:00:00+01:00" },
      {
        Variable: dice.pick(["$.none.deeper", "$.c.d", "$.list[2]", "$.c['e f'][0]", "$.a.b"]),
        IsPresent: dice.chance(0.5),
      },
      { Variable, IsNull: true },
      { Variable, IsString: dice.chance(0.5) },
      { Variable, IsNumeric: true },
      { Variable, IsTimestamp: true },
      ...(fails
        ? [
            { Variable, NumericLessThanPath: "$.list[0]" },
            { Variable, StringEqualsPath: "$.b" },
          ]
        : []),
    ]);
  }
}
