// The ways out of the steps that have several, and what blocks give to the step around them. Types alone.
import type { Gives, Ref } from "./expression.js";
import type { ChildOutput, FailedOutput, Maybe, None, Path, PathOf, Way } from "./state.js";

/** The way past a step that its `when` leaves out. */
export type Skip<W> = [undefined] extends [W] ? never : Way<None, null>;

export type PathsOf<B> = PathOf<B[keyof B]>;

export type NoMatch = "fail" | "continue";
/** The way past branches of which none fits. A step that goes on after an error has a next step, which is taken then, too. */
export type Unmatched<N, E> =
  | (N extends "continue" ? Way<None, null> : never)
  | (["fail"] extends [E] ? never : E extends "continue" ? Way<None, null> : never);

export type Otherwise<D> = [undefined] extends [D] ? never : PathOf<D>;

export type JoinMode = "all" | "any" | "count" | "all_settled";

/** What a join stores: the outputs of the branches that the mode waits for, and of others that were as quick. */
export type JoinedOutput<B, Mode, On> = Mode extends "all_settled"
  ? { [K in keyof B]: ChildOutput<PathOf<B[K]>> | FailedOutput }
  : Mode extends "all"
    ? [On] extends [never]
      ? { [K in keyof B]: ChildOutput<PathOf<B[K]>> }
      : { [K in keyof B & On]: ChildOutput<PathOf<B[K]>> } & { [K in Exclude<keyof B, On>]?: ChildOutput<PathOf<B[K]>> }
    : { [K in keyof B]?: ChildOutput<PathOf<B[K]>> };

/** The ids of the steps in the branches. */
export type PathsIds<B> = PathsOf<B> extends infer P extends Path ? P["ids"] : never;

/** The names that the body of a `foreach` sees. */
export type ItemLocals<Item, ItemVar, IndexVar> = {
  readonly [K in "item" | (ItemVar extends string ? ItemVar : never)]: Ref<Item>;
} & { readonly [K in "index" | (IndexVar extends string ? IndexVar : never)]: Ref<number> };

/** What a round may have set: a condition sees it from the second round on. */
export type MaybeSet<P> = P extends Path ? Maybe<P["own"]> : never;

/** Of several objects: later members win. */
export type Merged<L extends readonly unknown[], All = unknown> = L extends readonly [infer First, ...infer Rest]
  ? Merged<Rest, unknown extends All ? Gives<First> : Omit<All, keyof Gives<First>> & Gives<First>>
  : L extends readonly []
    ? { [K in keyof All]: All[K] }
    : { [name: string]: unknown };
