// The package's client: what programs import. How it works is in the other files.
export type { InputOf, OutputOf, SagaContract } from "../contract/saga.js";
export { type RunFilter, type Runs, SagaClient } from "./client.js";
export type { Document, OfVersion, Rules, Workflows } from "./definitions.js";
export {
  Conflict,
  type Detail,
  type Envelope,
  Forbidden,
  Invalid,
  NotFound,
  Overloaded,
  RateLimited,
  SagaApiError,
  SagaCancelled,
  SagaError,
  SagaFailed,
  SagaNotEnded,
  Unauthorized,
  UnexpectedAnswer,
  Unreachable,
} from "./errors.js";
export type { Operations } from "./generated/operations.js";
export type * from "./generated/resources.js";
export type { JsonObject } from "./json.js";
export type { Actions, Bulk, Keys, Tasks, Triggers } from "./operating.js";
export type {
  Answered,
  Asked,
  Call,
  CallArguments,
  ItemOf,
  List,
  ListId,
  OperationId,
  QueryOf,
  Sent,
} from "./operations.js";
export type {
  BodyReader,
  ClientOptions,
  Fetch,
  FetchAnswer,
  FetchInit,
  RetryOptions,
  Socket,
  SocketClass,
} from "./options.js";
export { type Page, Pages } from "./pages.js";
export { Run, type SignalAnswer, type WaitOptions } from "./run.js";
export type { CallOptions, QueryValue, RequestOptions } from "./transport.js";
export type { InputsOf, OutputOfSaga, SignalLike, StartOptions } from "./types.js";
export type { WatchOptions } from "./watch.js";
