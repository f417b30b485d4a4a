// The chain of a saga as the compiler sees it: one method for each step type, and what is known after it. Types alone; chain.ts carries them out.
import type { TSchema } from "typebox";
import type { InputOf, OutputOf, SagaContract, SignalContract } from "../contract/index.js";
import type { Block, Closed, Saga } from "./definition.js";
import type { Expr, Ref } from "./expression.js";
import type {
  ActionStepOptions,
  Approval,
  CancelOptions,
  Duration,
  EndOptions,
  ErrorOptions,
  ForeachOptions,
  HttpRequestOptions,
  HttpResponse,
  JoinOptions,
  LogOptions,
  MayUndo,
  MetricOptions,
  NamesBranch,
  NoMatchOptions,
  OutputOfCalled,
  PayloadOf,
  PayloadRule,
  ReceivedEvent,
  RuleChoice,
  SpawnSagaOptions,
  StepOptions,
  SubSagaOptions,
  TaskOptions,
  TimeLimit,
  TryCatchOptions,
  WaitForEventOptions,
  WebhookOptions,
  WhileOptions,
} from "./options.js";
import type { Carried, Read, TypeOf } from "./read.js";
import type { AnyAction, Computed, Condition, Given } from "./scope.js";
import type {
  After,
  Begun,
  ChildOutput,
  Ended,
  Entered,
  FailedOutput,
  Handled,
  Inside,
  Joined,
  None,
  Open,
  Path,
  PathOf,
  Saved,
  State,
  StepError,
  Way,
} from "./state.js";
import type { Anything, Resolved, Variable } from "./value.js";
import type {
  ItemLocals,
  JoinedOutput,
  JoinMode,
  MaybeSet,
  Merged,
  NoMatch,
  Otherwise,
  PathsIds,
  PathsOf,
  Skip,
  Unmatched,
} from "./ways.js";
import type { NamedLater } from "./written.js";

type Fresh<S extends State, Id extends string> = Id extends S["ids"] ? `there is already a step "${Id}"` : Id;

type Steps<F extends State> = (flow: Flow<F>) => Block;

/** The steps of a handler, in which the step's own variable has what it stores then. */
type Handler<S extends State, Id extends string, Save, Stored> =
  | "fail"
  | "continue"
  | Steps<Inside<S, Id, "block", None, Saved<Save, Stored>>>;
type Rescue<S extends State, Id extends string> = Exclude<Handler<S, Id, Id, FailedOutput>, string>;

type When<S extends State> = Condition<S["scope"]> | undefined;

/** What follows where no way leads on. */
type Shut<S extends State, Id extends string, Ends> = S["kind"] extends "run"
  ? Saga<S["input"], S["ends"] | Ends>
  : Closed<Ended<S, Id, Ends>>;

// Members of interfaces, for the reason that state.ts gives.
interface Next<S extends State, Id extends string, Own, Last, P extends Path> {
  readonly after: Flow<After<S, Id, Own, Last>>;
  readonly joined: Flow<Joined<S, Id, P>>;
}

type Meeting<S extends State, Id extends string, P extends Path> = [Open<P>] extends [never]
  ? Shut<S, Id | P["ids"], P["ends"]>
  : Next<S, Id, None, null, P>["joined"];

/** After a step that stores an output. */
type Stored<S extends State, Id extends string, Save, Out, W, E> = [undefined, "fail"] extends [W, E]
  ? Next<S, Id, Saved<Save, Out>, Out, never>["after"]
  : Meeting<S, Id, Way<Saved<Save, Out>, Out> | Skip<W> | Handled<E, Save, FailedOutput>>;

/** The same where a timeout may store null. */
type Waited<S extends State, Id extends string, Save, Out, W, E, T> = ["fail"] extends [T]
  ? Stored<S, Id, Save, Out, W, E>
  : Meeting<S, Id, Way<Saved<Save, Out>, Out> | Skip<W> | Handled<E, Save, FailedOutput> | Handled<T, Save, null>>;

/** After a step without an output. */
type Passed<S extends State, Id extends string, E> = ["fail"] extends [E]
  ? Next<S, Id, None, null, never>["after"]
  : Meeting<S, Id, Way<None, null> | Handled<E, Id, FailedOutput>>;

/** After a step that sets variables by name. */
type Assigned<S extends State, Id extends string, Own, W, E> = [undefined, "fail"] extends [W, E]
  ? Next<S, Id, Own, null, never>["after"]
  : Meeting<S, Id, Way<Own, null> | Skip<W> | Handled<E, Id, FailedOutput>>;

/** The options of a step without an output. */
type Plain<S extends State, E, W, U extends AnyAction> = StepOptions<never, W, E> & Undo<S, null, U>;
type Undo<S extends State, Out, U extends AnyAction> = MayUndo<S["scope"], unknown, Out, U>;

type Branches<S extends State, Id extends string> = { readonly [name: string]: Steps<Inside<S, Id, "block">> };
type ChildBranches<S extends State, Id extends string> = { readonly [name: string]: Steps<Inside<S, Id, "child">> };
/** After branches of the run itself. */
type Branched<S extends State, Id extends string, P extends Path, W, E> = Meeting<
  S,
  Id,
  P | Skip<W> | Handled<E, Id, FailedOutput>
>;

interface Case<S extends State, Id extends string> {
  readonly when: Condition<S["scope"]>;
  readonly then: Steps<Inside<S, Id, "block">>;
}

/** A parallel, whose join is the next step. */
export interface Fork<S extends State, Fork extends string, B, W> {
  /** Waits for the branches. Its output has a member for each. */
  join<
    const Id extends string,
    U extends AnyAction,
    const V extends When<S>,
    const E extends Handler<S, Fork | Id, Save, FailedOutput>,
    const Mode extends JoinMode = "all",
    const On extends keyof B & string = never,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    options?: JoinOptions<On> &
      StepOptions<Save, V, E> &
      MayUndo<S["scope"], unknown, JoinedOutput<B, Mode, On>, U> & {
        /** "all" (the default), "any", "count" with a `count`, or "all_settled". */
        readonly mode?: Mode;
        /** With the mode "count": how many branches must succeed. */
        readonly count?: Given<S["scope"], number>;
      },
  ): Stored<S, Fork | Id | PathsIds<B>, Save, JoinedOutput<B, Mode, On>, [undefined] extends [W] ? V : W, E>;
}

type PayloadDescribed<G> =
  G extends SignalContract<string, infer Payload extends TSchema> ? Carried<TypeOf<Payload>> : unknown;

interface Item<T> {
  readonly item: Ref<T>;
  readonly index: Ref<number>;
}

type InputOfSaga<G> = G extends string ? { readonly [name: string]: unknown } : InputOf<G>;
type OutputOfSaga<G> = G extends string ? unknown : OutputOf<G>;
type AnySaga = string | SagaContract<never, unknown> | SagaContract;

/** A chain of steps. Each method returns a new chain with the step at its end, and leaves this one as it is. */
export interface Flow<S extends State> extends Block<S> {
  /** A worker executes an action. Output: the worker's result. */
  action<
    const Id extends string,
    A extends AnyAction | NamedLater<S["scope"]>,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    action: A,
    options: ActionStepOptions<S["scope"], A, U, Save, W, E>,
  ): Stored<S, Id, Save, Carried<OutputOfCalled<A>>, W, E>;

  /** Makes an HTTP request from the service itself. Output: { status, headers, body }. */
  httpRequest<
    const Id extends string,
    U extends AnyAction,
    Body extends TSchema,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    options: HttpRequestOptions<S["scope"], Body> &
      StepOptions<Save, W, E> &
      MayUndo<S["scope"], { url: string; method: string; body: unknown }, HttpResponse<TypeOf<Body>>, U>,
  ): Stored<S, Id, Save, HttpResponse<TypeOf<Body>>, W, E>;

  /** Sends a signed webhook; the run does not wait for it. */
  webhookEmit<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(id: Fresh<S, Id>, options: WebhookOptions<S["scope"]> & Plain<S, E, W, U>): Passed<S, Id, E>;

  /** Takes the branch that a value, as text, or a rule names; `default` where none does. Without it the step fails then. */
  decision<
    const Id extends string,
    U extends AnyAction,
    const B extends Branches<S, Id>,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
    const N extends NoMatch = "fail",
  >(
    id: Fresh<S, Id>,
    chosenBy: NamesBranch<S["scope"]> | RuleChoice<S["scope"]>,
    branches: B,
    options?: Plain<S, E, W, U> & NoMatchOptions<N>,
  ): Branched<S, Id, PathsOf<B> | Unmatched<N, E>, W, E>;

  /** Takes the first case that holds, else `default`. Without it the step fails then. */
  switch<
    const Id extends string,
    U extends AnyAction,
    const C extends readonly Case<S, Id>[],
    const D extends Steps<Inside<S, Id, "block">> | undefined,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
    const N extends NoMatch = "fail",
  >(
    id: Fresh<S, Id>,
    cases: C,
    options?: Plain<S, E, W, U> & NoMatchOptions<N> & { readonly default?: D },
  ): Branched<S, Id, PathOf<C[number]["then"]> | Otherwise<D> | Unmatched<N, E>, W, E>;

  /** Takes the branch that a value names: a `switch` with an expression, which does what `decision` does. */
  switchOn<
    const Id extends string,
    U extends AnyAction,
    const B extends Branches<S, Id>,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
    const N extends NoMatch = "fail",
  >(
    id: Fresh<S, Id>,
    expression: NamesBranch<S["scope"]>,
    branches: B,
    options?: Plain<S, E, W, U> & NoMatchOptions<N>,
  ): Branched<S, Id, PathsOf<B> | Unmatched<N, E>, W, E>;

  /** Does nothing. */
  noop<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(id: Fresh<S, Id>, options?: Plain<S, E, W, U>): Passed<S, Id, E>;

  /** Sets one variable. */
  setVar<
    const Id extends string,
    U extends AnyAction,
    const Name extends string,
    const V extends Anything,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    name: string extends Name ? never : Name,
    value: V | ((scope: S["scope"]) => V),
    options?: Plain<S, E, W, U>,
  ): Assigned<S, Id, { readonly [K in Name]: Variable<V> }, W, E>;

  /** Sets variables; all values see the old ones. */
  setVar<
    const Id extends string,
    U extends AnyAction,
    V extends { readonly [name: string]: Anything },
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    variables: V | ((scope: S["scope"]) => V),
    options?: Plain<S, E, W, U>,
  ): Assigned<S, Id, { readonly [K in keyof V]: Variable<V[K]> }, W, E>;

  /** Computes a value: an expression, or JSON with expressions inside. Output: the value. */
  transform<
    const Id extends string,
    const V extends Anything,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    value: V | ((scope: S["scope"]) => V),
    options?: StepOptions<Save, W, E> & MayUndo<S["scope"], unknown, Resolved<V>, U>,
  ): Stored<S, Id, Save, Resolved<V>, W, E>;

  /** Merges objects into one; a later source wins. Output: the merged object. */
  merge<
    const Id extends string,
    U extends AnyAction,
    const L extends readonly Expr[],
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    sources: L | ((scope: S["scope"]) => L),
    options?: StepOptions<Save, W, E> & { readonly strategy?: "shallow" | "deep" } & Undo<S, Merged<L>, U>,
  ): Stored<S, Id, Save, Merged<L>, W, E>;

  /** Keeps the items for which the condition holds. Output: those. */
  filter<
    const Id extends string,
    U extends AnyAction,
    T,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    items: Computed<S["scope"], readonly T[]>,
    condition: Condition<S["scope"] & Item<T>>,
    options?: StepOptions<Save, W, E> & Undo<S, T[], U>,
  ): Stored<S, Id, Save, T[], W, E>;

  /** Computes a value from every item of a list. Output: the values. */
  map<
    const Id extends string,
    U extends AnyAction,
    T,
    const V extends Anything,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    items: Computed<S["scope"], readonly T[]>,
    value: V | ((scope: S["scope"] & Item<T>) => V),
    options?: StepOptions<Save, W, E> & Undo<S, Resolved<V>[], U>,
  ): Stored<S, Id, Save, Resolved<V>[], W, E>;

  /** Writes an audit event `log`. */
  log<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    message: Given<S["scope"], string>,
    options?: LogOptions<S["scope"]> & Plain<S, E, W, U>,
  ): Passed<S, Id, E>;

  /** Records a value: an audit event `metric`, and a series on `/metrics`. */
  metricEmit<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    name: Given<S["scope"], string>,
    options?: MetricOptions<S["scope"]> & Plain<S, E, W, U>,
  ): Passed<S, Id, E>;

  /** Fails unless the condition holds, with this code. Default: "assertion_failed". */
  assert<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    condition: Condition<S["scope"]>,
    code?: Given<S["scope"], string>,
    options?: Plain<S, E, W, U> & { readonly message?: Given<S["scope"], string> },
  ): Passed<S, Id, E>;

  /** Waits: milliseconds, an ISO 8601 text such as "PT15M", or one of both computed. */
  waitDuration<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(id: Fresh<S, Id>, duration: Duration<S["scope"]>, options?: Plain<S, E, W, U>): Passed<S, Id, E>;

  /** Waits until a point in time: RFC 3339, or a CEL timestamp. */
  waitUntil<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(id: Fresh<S, Id>, until: Given<S["scope"], string>, options?: Plain<S, E, W, U>): Passed<S, Id, E>;

  /** Waits for a signal. Output: its payload. */
  waitForSignal<
    const Id extends string,
    U extends AnyAction,
    G extends SignalContract | string | ((scope: S["scope"]) => Expr<string>),
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const T extends Handler<S, Id, Save, null>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    signal: G,
    options?: TimeLimit<S["scope"], T> & PayloadRule & StepOptions<Save, W, E> & Undo<S, PayloadDescribed<G>, U>,
  ): Waited<S, Id, Save, PayloadDescribed<G>, W, E, T>;

  /** Waits for an event of a topic. Output: { topic, headers, payload }. */
  waitForEvent<
    const Id extends string,
    U extends AnyAction,
    Payload extends TSchema,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const T extends Handler<S, Id, Save, null>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    topic: Given<S["scope"], string>,
    options?: WaitForEventOptions<S["scope"], Payload, T> &
      PayloadRule &
      StepOptions<Save, W, E> &
      Undo<S, ReceivedEvent<TypeOf<Payload>>, U>,
  ): Waited<S, Id, Save, ReceivedEvent<TypeOf<Payload>>, W, E, T>;

  /** Publishes an event to the runs that wait for its topic. */
  emitEvent<
    const Id extends string,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    topic: Given<S["scope"], string>,
    options?: Plain<S, E, W, U> & {
      readonly payload?: Given<S["scope"], unknown>;
      readonly headers?: Given<S["scope"], { readonly [name: string]: string | null }>;
    },
  ): Passed<S, Id, E>;

  /** Sends a signal to another run. Output: { signal_id }. */
  emitSignal<
    const Id extends string,
    U extends AnyAction,
    G extends SignalContract | string,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    signal: G,
    options: StepOptions<Save, W, E> &
      Undo<S, { signal_id: string }, U> & { readonly runId: Given<S["scope"], string> } & (G extends string
        ? { readonly payload?: Given<S["scope"], { readonly [name: string]: unknown }> }
        : { readonly payload: NoInfer<Given<S["scope"], PayloadOf<G>>> }),
  ): Stored<S, Id, Save, { signal_id: string }, W, E>;

  /** Waits for a person to approve or to reject. A rejection without a branch fails the step. */
  manualApproval<
    const Id extends string,
    U extends AnyAction,
    Form extends TSchema,
    const Yes extends Steps<Inside<S, Id, "block", None, Saved<Save, Approval<TypeOf<Form>>>>> | undefined,
    const No extends Steps<Inside<S, Id, "block", None, Saved<Save, Approval<TypeOf<Form>>>>> | undefined,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const T extends Handler<S, Id, Save, null>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    options: TaskOptions<S["scope"], T> &
      Omit<StepOptions<Save, W, E>, "title"> &
      Undo<S, Approval<TypeOf<Form>>, U> & {
        /** The schema of the result, besides its `approved`. */
        readonly formSchema?: Form;
        readonly approved?: Yes;
        readonly rejected?: No;
      },
  ): [undefined, undefined, "fail", undefined, "fail"] extends [Yes, No, T, W, E]
    ? Next<S, Id, Saved<Save, Approval<TypeOf<Form>>>, Approval<TypeOf<Form>>, never>["after"]
    : Meeting<
        S,
        Id,
        | ([undefined] extends [Yes] ? Way<Saved<Save, Approval<TypeOf<Form>>>, Approval<TypeOf<Form>>> : PathOf<Yes>)
        | Otherwise<No>
        | Skip<W>
        | Handled<E, Save, FailedOutput>
        | Handled<T, Save, null>
      >;

  /** Waits for a person to fill in a form. Output: the result. */
  collectInput<
    const Id extends string,
    U extends AnyAction,
    Form extends TSchema,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const T extends Handler<S, Id, Save, null>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    options: TaskOptions<S["scope"], T> &
      Omit<StepOptions<Save, W, E>, "title"> &
      Undo<S, TypeOf<Form>, U> & {
        /** The JSON Schema of the result. */
        readonly formSchema: Form;
      },
  ): Waited<S, Id, Save, TypeOf<Form>, W, E, T>;

  /** Runs branches side by side, each a run of its own with a copy of the variables. The next step is their join. */
  parallel<const Id extends string, U extends AnyAction, const B extends ChildBranches<S, Id>, const W extends When<S>>(
    id: Fresh<S, Id>,
    branches: B,
    options?: Omit<StepOptions<never, W, "fail">, "onError" | "saveAs"> &
      Undo<S, null, U> & {
        /** Branches that run at once; 0 (the default): all. */
        readonly maxConcurrency?: Given<S["scope"], number>;
      },
  ): Fork<S, Id, B, W>;

  /** Runs its body for each item of a list, each as a run of its own. Output: what the bodies gave, in the order of the items. */
  foreach<
    const Id extends string,
    U extends AnyAction,
    T,
    const B extends Steps<Inside<S, Id, "child", ItemLocals<T, ItemVar, IndexVar>>>,
    const Tolerated extends Given<S["scope"], number> | undefined,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const ItemVar extends string | undefined = undefined,
    const IndexVar extends string | undefined = undefined,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    items: Computed<S["scope"], readonly T[]>,
    body: B,
    options?: Omit<ForeachOptions<S["scope"]>, "toleratedFailures"> &
      StepOptions<Save, W, E> &
      Undo<S, unknown, U> & {
        /** Another name for `item` in the body. */
        readonly itemVar?: ItemVar;
        /** Another name for `index` in the body. */
        readonly indexVar?: IndexVar;
        /** Items that may fail: their output is `{ error }`. */
        readonly toleratedFailures?: Tolerated;
      },
  ): Stored<
    S,
    Id | (PathOf<B> extends infer P extends Path ? P["ids"] : never),
    Save,
    (ChildOutput<PathOf<B>> | ([undefined] extends [Tolerated] ? never : FailedOutput))[],
    W,
    E
  >;

  /** Repeats its body while the condition holds, which is checked before each round. Output: what the last rounds gave. */
  while<
    const Id extends string,
    U extends AnyAction,
    const B extends Steps<Inside<S, Id, "block", { readonly iteration: Ref<number> }>>,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    body: B,
    options: WhileOptions<S["scope"]> &
      StepOptions<Save, W, E> &
      Undo<S, unknown, U> & {
        /** Sees `iteration`, from 0, and what the body sets, from the second round on. */
        readonly condition: Condition<
          Inside<S, Id, "block", { readonly iteration: Ref<number> }, MaybeSet<PathOf<B>>>["scope"]
        >;
      },
  ): Meeting<
    S,
    Id,
    | (PathOf<B> extends infer P extends Path
        ?
            | Way<Saved<Save, Read<P["last"]>[]> & MaybeSet<P>, Read<P["last"]>[]>
            | (Omit<P, "open"> & { readonly open: false })
        : never)
    | Skip<W>
    | Handled<E, Save, FailedOutput>
  >;

  /** Runs steps; an error that leaves them goes to the catch, which sees `error`. */
  tryCatch<
    const Id extends string,
    U extends AnyAction,
    const B extends Steps<Inside<S, Id, "block">>,
    const C extends Steps<
      Inside<
        S,
        Id | PathOf<B>["ids"],
        "block",
        { readonly error: Ref<StepError> },
        MaybeSet<PathOf<B>> & { readonly [K in ErrorVar]: StepError }
      >
    >,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
    const ErrorVar extends string = "error",
  >(
    id: Fresh<S, Id>,
    tried: B,
    caught: C,
    options?: TryCatchOptions<S["scope"]> &
      Plain<S, E, W, U> & {
        /** The variable of the error. Default "error". */
        readonly errorVar?: ErrorVar;
      },
  ): Branched<S, Id, PathOf<B> | PathOf<C>, W, E>;

  /** Runs another saga as a child and waits for its end. Output: the child's. */
  subSaga<
    const Id extends string,
    G extends AnySaga,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    saga: G,
    options: SubSagaOptions<S["scope"], InputOfSaga<G>> &
      StepOptions<Save, W, E> &
      MayUndo<S["scope"], InputOfSaga<G>, OutputOfSaga<G>, U>,
  ): Stored<S, Id, Save, OutputOfSaga<G>, W, E>;

  /** Starts a run of another saga and goes on. Output: { run_id }. */
  spawnSaga<
    const Id extends string,
    G extends AnySaga,
    U extends AnyAction,
    const W extends When<S>,
    const E extends Handler<S, Id, Save, FailedOutput>,
    const Save extends string | null = Id,
  >(
    id: Fresh<S, Id>,
    saga: G,
    options: SpawnSagaOptions<S["scope"], InputOfSaga<G>> &
      StepOptions<Save, W, E> &
      MayUndo<S["scope"], InputOfSaga<G>, { run_id: string }, U>,
  ): Stored<S, Id, Save, { run_id: string }, W, E>;

  /** Cancels another run, or this one if no `runId` is given: it ends here. */
  cancel<
    const Id extends string,
    U extends AnyAction,
    const R extends Given<S["scope"], string> | undefined,
    const W extends When<S>,
    const E extends Handler<S, Id, Id, FailedOutput>,
  >(
    id: Fresh<S, Id>,
    options?: CancelOptions<S["scope"]> & Plain<S, E, W, U> & { readonly runId?: R },
  ): [undefined, undefined] extends [R, W] ? Shut<S, Id, never> : Passed<S, Id, E>;

  /** Fails with a code of your own; without a code, it raises the error that was caught last again. Nothing follows, but for the steps of `onError`. */
  error<const Id extends string, const E extends "fail" | Rescue<S, Id>>(
    id: Fresh<S, Id>,
    options?: ErrorOptions<S["scope"]> & { readonly onError?: E } & Pick<StepOptions<never, never, E>, "onFailure">,
  ): ["fail"] extends [E] ? Shut<S, Id, never> : Meeting<S, Id, PathOf<E>>;

  /** The run succeeds, with this output. */
  end<const V extends Anything = null>(
    output?: V | ((scope: S["scope"]) => V),
    options?: EndOptions,
  ): Shut<S, never, Resolved<V>>;

  /** Ends the chain without an `end`: the output is that of the last step. */
  close(): Shut<S, never, Read<S["last"]>>;

  /** Goes to a step before, of the same block. */
  goTo(id: S["ids"]): Shut<S, never, never>;

  /** The next step is one where a run may start, by this name. What the steps before set may be missing from here on. */
  entrypoint(name: string): Flow<Entered<S>>;
}

export type Begin<Input> = Flow<Begun<Input>>;
