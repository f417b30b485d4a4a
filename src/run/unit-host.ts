// The host of the units of a node: what machines/ cannot compute of the rows of a commit. The random tokens of runs, the kept scopes with their
// hashes, the format of the record, and what RabbitMQ gets. The units themselves are machines/writes/unit.ts.

import { createHash } from "node:crypto";
import {
  type Json,
  type JsonObject,
  RECORD_FORMATS,
  type RecordFormats,
  type Row,
  type UnitHost,
} from "../../machines/index.js";
import { randomFill } from "../ambient.js";
import { type OutgoingEvents, outgoingRows } from "../events/outgoing-events.js";

export interface UnitOptions {
  /** A test's switch, for a node of another release. */
  readonly formats?: RecordFormats;
  /** The record format that is written: all live nodes read it (law 13). Absent: this node is alone. */
  readonly recordFormat?: () => number;
  /** Encryption is on: a manifest stays in its scope, where the database can see what is sealed in it. */
  readonly seals?: boolean;
  /** Which events RabbitMQ gets. Absent: none. */
  readonly outgoing?: OutgoingEvents;
}

export function unitHost({
  formats = RECORD_FORMATS,
  recordFormat,
  outgoing,
  seals = false,
}: UnitOptions = {}): UnitHost {
  return {
    newFence,
    keptScope: (scope, variables) => keptScope(scope, variables, seals),
    recordOf: (context) => formats.encode(context, recordFormat?.() ?? formats.writes),
    outgoing: outgoing && ((run, publishable, from) => outgoingRows(run, publishable, outgoing, from)),
  };
}

/**
 * Eight bytes: two histories of one run agree by chance once in 1.8e19, and each update costs eight bytes in the hot row. Nothing is
 * guessed, so their secrecy does not matter; they come from the system's generator and not from Math.random() because its state is
 * copied with a snapshot of a virtual machine, and the copy would repeat the tokens of the original. One call fills many: a
 * token costs 0.1 µs.
 */
const TOKENS = new BigInt64Array(512);
let used = TOKENS.length;

/**
 * A new token, an int8 as text. It has no order and no meaning: it only tells two histories apart that have reached the same revision, after the
 * database has lost commits.
 */
function newFence(): string {
  if (used === TOKENS.length) {
    randomFill(TOKENS);
    used = 0;
  }
  return String(TOKENS[used++]);
}

/** Characters. A shorter value, or manifest, is not worth a row of its own. */
const SMALL = 512;

/**
 * The scope of a fork as rows: small variables in its manifest, large ones by the hash of their content. A family has each content once, so a
 * fork writes what is new and not what it sees (law 15): an item that forks again refers to the values of its parents.
 *
 * The manifest, {own: {name: value}, shared: {name: hash}}, and the values that it refers to. A storage format. `holder`: the run at the top of the
 * family: its starting inputs are those of the scope, and the family shares kept values.
 */
function keptScope(
  scope: Pick<Row<"scope">, "run_id" | "entry" | "holder">,
  variables: JsonObject,
  seals: boolean,
): { readonly scope: Row<"scope">; readonly values: readonly Row<"scope_value">[] } {
  const own: JsonObject = {};
  const shared: Record<string, string> = {};
  const values = new Map<string, Json>();
  for (const [name, value] of Object.entries(variables)) {
    const text = JSON.stringify(value);
    if (text.length <= SMALL) define(own, name, value);
    else define(shared, name, keep(values, text, value));
  }
  const manifest = { own, shared };
  const text = JSON.stringify(manifest);
  const { run_id, holder } = scope;
  return {
    scope:
      seals || text.length <= SMALL
        ? { ...scope, manifest, manifest_hash: undefined }
        : { ...scope, manifest: undefined, manifest_hash: keep(values, text, manifest) },
    values: [...values].map(([hash, value]) => ({ run_id, holder, hash, value })),
  };
}

function keep(values: Map<string, Json>, text: string, value: Json): string {
  const hash = contentHash(text);
  values.set(hash, value);
  return hash;
}

/** 128 bits of SHA-256, in a column of type uuid. Must never change: releases that run side by side share values by it. */
function contentHash(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

/** An assignment to `__proto__` would set the prototype. */
function define<T>(target: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
}
