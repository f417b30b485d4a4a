// Ids that must not be mixed up. At run time they are strings, and `__id` is never there; a text becomes an id where it was checked or
// derived, through its constructor, which is the only cast.

import { isUuid } from "./uuid.js";

/** The id of a run, a UUID in lower case. Its last byte is the shard of the run and of its whole family. */
export type RunId = string & { readonly __id: "run" };

/** The id of one dispatch of an attempt, derived from the run, the step and the attempt; a UUID with the run's shard. */
export type DispatchId = string & { readonly __id: "dispatch" };

export const asRunId = (uuid: string): RunId => uuid as RunId;
export const asDispatchId = (uuid: string): DispatchId => uuid as DispatchId;

/** The shard of a run and of every id derived for it: the last byte. Must never change. */
export const shardNumber = (uuid: string): number => Number.parseInt(uuid.slice(-2), 16);

export const isRunId = (value: unknown): value is RunId => isUuid(value);

/** The run id that a text is, or undefined. UUIDs compare in lower case. */
export const parseRunId = (text: unknown): RunId | undefined =>
  isUuid(text) ? asRunId(text.toLowerCase()) : undefined;

/** The dispatch id that a text is, or undefined. */
export const parseDispatchId = (text: unknown): DispatchId | undefined =>
  isUuid(text) ? asDispatchId(text.toLowerCase()) : undefined;
