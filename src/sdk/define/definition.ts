// What a finished chain is: a saga and its document, or a block of one. Types alone.
import type { SagaContract } from "../contract/index.js";
import type { Path } from "./state.js";
import type { JsonObject } from "./value.js";

/** A saga that is written to its end: it serialises to the document, and a client starts it. */
export interface Saga<Input = unknown, Output = unknown> extends SagaContract<Input, Output> {
  readonly id: string;
  /** The document, as the service stores it. */
  toJSON(): SagaDocument;
}

/** A workflow document: the JSON of the service. */
export interface SagaDocument extends JsonObject {
  readonly id: string;
  readonly name: string;
  readonly start: string;
  readonly steps: readonly StepDocument[];
}

export interface StepDocument extends JsonObject {
  readonly id: string;
  readonly type: string;
}

/** What a function that writes a block returns: the chain that it was given, with its steps. */
export interface Block<P extends Path = Path> {
  readonly "~state": P;
}

/** A block that nothing follows: it has ended, failed, or gone elsewhere. */
export interface Closed<P extends Path> extends Block<P> {}
