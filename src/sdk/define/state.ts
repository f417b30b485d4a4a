// What the compiler knows at each step: types alone, and no code. A path is one way to the next step; where several ways meet, a variable that not
// all of them set may be missing.

import type { Read } from "./read.js";
import type { Scope } from "./scope.js";

/** One way through a step or a block. */
export interface Path {
  /** The variables that it sets, by their names. */
  readonly own: unknown;
  /** The ids of the steps on it. */
  readonly ids: string;
  /** The output of its last step. */
  readonly last: unknown;
  /** The outputs of the `end`s on it. */
  readonly ends: unknown;
  /** Whether it leads to the next step. */
  readonly open: boolean;
}

/**
 * What is known where a chain has come to. Each step gives the members anew as arguments, and not as a type that refers to the state before: a chain
 * of a hundred steps would be nested a hundred deep.
 */
export interface State<
  Input = unknown,
  Vars = unknown,
  Own = unknown,
  Ids extends string = string,
  Last = unknown,
  Ends = unknown,
  IsOpen extends boolean = boolean,
  Locals = unknown,
  Kind extends "run" | "block" | "child" = "run" | "block" | "child",
  Sees = unknown,
> extends Path {
  readonly input: Input;
  /** All variables, by their names. */
  readonly vars: Vars;
  readonly own: Own;
  readonly ids: Ids;
  readonly last: Last;
  readonly ends: Ends;
  readonly open: IsOpen;
  /** What blocks around it give: `item`, `error`. */
  readonly locals: Locals;
  /** `run`: the chain of the saga itself. `block`: one inside it, of the same run. `child`: a branch or an item, which is a run of its own. */
  readonly kind: Kind;
  /** What the functions of the next step are given. It is here, and not computed there, because it is used ten times as often. */
  readonly scope: Sees;
}

/** The error that a catch sees, and that `onError` stores. */
export interface StepError {
  code: string;
  message: string;
  step_id: string;
  details?: unknown;
  cause?: unknown;
}

export interface FailedOutput {
  error: StepError;
}

/** No variables. */
export type None = Record<never, never>;

/** Later ones win. */
export type Put<Vars, Own> = [keyof Own] extends [never]
  ? Vars
  : [keyof Vars] extends [never]
    ? Own
    : [keyof Own & keyof Vars] extends [never]
      ? Vars & Own
      : Omit<Vars, keyof Own> & Own;

/** What the saga's own chain sets is of no interest to a block around it: there is none. */
type PutInBlock<S extends State, Own> = S["kind"] extends "run" ? None : Put<S["own"], Own>;

type SeenBy<S extends State, Vars> = S["kind"] extends "run"
  ? Scope<S["input"], Vars>
  : Scope<S["input"], Vars> & S["locals"];

// An alias of an interface's reference is lazy and remembers its arguments, so each state would hold the one before. A member of an interface is not.
interface BegunBox<Input> {
  readonly state: State<Input, None, None, never, null, never, true, None, "run", Scope<Input, None>>;
}

/** The beginning of a saga. */
export type Begun<Input> = BegunBox<Input>["state"];

interface InsideBox<S extends State, Id extends string, Kind extends "block" | "child", Locals = None, Own = None> {
  readonly state: State<
    S["input"],
    Put<S["vars"], Own>,
    Own,
    S["ids"] | Id,
    null,
    never,
    true,
    Put<S["locals"], Locals>,
    Kind,
    Scope<S["input"], Put<S["vars"], Own>> & Put<S["locals"], Locals>
  >;
}

/** The beginning of a block. */
export type Inside<
  S extends State,
  Id extends string,
  Kind extends "block" | "child",
  Locals = None,
  Own = None,
> = InsideBox<S, Id, Kind, Locals, Own>["state"];

interface AfterBox<S extends State, Id extends string, Own, Last> {
  readonly state: State<
    S["input"],
    Put<S["vars"], Own>,
    PutInBlock<S, Own>,
    S["ids"] | Id,
    Last,
    S["ends"],
    true,
    S["locals"],
    S["kind"],
    SeenBy<S, Put<S["vars"], Own>>
  >;
}

/** After a step with one way out. */
export type After<S extends State, Id extends string, Own, Last> = AfterBox<S, Id, Own, Last>["state"];

interface EnteredBox<S extends State> {
  readonly state: State<
    S["input"],
    Maybe<S["vars"]>,
    Maybe<S["own"]>,
    S["ids"],
    S["last"],
    S["ends"],
    true,
    S["locals"],
    S["kind"],
    SeenBy<S, Maybe<S["vars"]>>
  >;
}

/** Where a run may start: what the steps before set may be missing. */
export type Entered<S extends State> = EnteredBox<S>["state"];

interface EndedBox<S extends State, Id extends string, Ends> {
  readonly state: State<
    S["input"],
    S["vars"],
    S["own"],
    S["ids"] | Id,
    never,
    S["ends"] | Ends,
    false,
    S["locals"],
    S["kind"],
    S["scope"]
  >;
}

/** After a step that nothing follows. */
export type Ended<S extends State, Id extends string, Ends> = EndedBox<S, Id, Ends>["state"];

export type Open<P> = Extract<P, { readonly open: true }>;
type NamesOfAny<O> = O extends unknown ? keyof O : never;
type MemberOf<O, K> = O extends unknown ? (K extends keyof O ? O[K] : never) : never;

/** Those variables that a way sets anew. Most often there are none, and then a type that is made of it does not hold all variables. */
type Known<Vars, Names> = [Names & keyof Vars] extends [never] ? None : Pick<Vars, Names & keyof Vars>;

/**
 * The variables where several ways meet. `Own` is the union of what they set; `Extract` keeps the compiler from mapping each of them alone.
 * `Before`: what was set before, of the same names.
 */
type Met<Own, Before> = { readonly [K in Extract<keyof Own, string>]: Own[K] } & {
  readonly [K in Exclude<NamesOfAny<Own>, keyof Own>]:
    | MemberOf<Own, K>
    | (K extends keyof Before ? Before[K] : undefined);
};

type MetBy<S extends State, P> = Met<OwnOf<P>, Known<S["vars"], NamesOfAny<OwnOf<P>>>>;
type OwnOf<P> = P extends Path ? P["own"] : never;

/** Variables that may be missing. */
export type Maybe<Vars> = { readonly [K in keyof Vars]: Vars[K] | undefined };

interface JoinedBox<S extends State, Id extends string, P extends Path> {
  readonly state: State<
    S["input"],
    Put<S["vars"], MetBy<S, Open<P>>>,
    PutInBlock<S, MetBy<S, Open<P>>>,
    S["ids"] | Id | P["ids"],
    Open<P>["last"],
    S["ends"] | P["ends"],
    true,
    S["locals"],
    S["kind"],
    SeenBy<S, Put<S["vars"], MetBy<S, Open<P>>>>
  >;
}

/** After a step with several ways out, of which at least one leads on. */
export type Joined<S extends State, Id extends string, P extends Path> = JoinedBox<S, Id, P>["state"];

/** One way that sets these variables. */
export interface Way<Own, Last> {
  readonly own: Own;
  readonly ids: never;
  readonly last: Last;
  readonly ends: never;
  readonly open: true;
}

/** An output in its variable. `saveAs: null` discards it. */
export type Saved<Name, Out> = Name extends string ? { readonly [K in Name]: Out } : None;

/** What a block came to. */
export type PathOf<Block> = Block extends (...given: never) => { readonly "~state": infer P extends Path } ? P : never;

/** The ways that a handler of errors or timeouts adds. `Out`: what the step then stores. */
export type Handled<Handler, Name, Out> = ["fail"] extends [Handler]
  ? never
  : Handler extends "continue"
    ? Way<Saved<Name, Out>, Out>
    : PathOf<Handler>;

/** What a branch or an item gives: its `end`, or else the output of its last step. */
export type ChildOutput<P> = P extends Path ? P["ends"] | (P["open"] extends true ? Read<P["last"]> : never) : never;
