// Cursors: the place in a list where its next page begins, as an opaque text. It is the key of the last row seen, so a page starts at
// the same place however many rows come or go before it.
import { createHash } from "node:crypto";
import { badRequest } from "../../errors.js";
import { isUuid } from "../../ids.js";
import { postgresTime } from "../engine/times.js";
import type { Reach } from "./reach.js";

const KINDS = {
  uuid: /^[0-9a-f-]{36}$/,
  time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  integer: /^\d{1,18}$/,
  text: /^[^\0]{0,512}$/u,
} as const;
/** The type that a key's text is compared as. */
export const KEY_TYPES = { uuid: "uuid", time: "timestamptz", integer: "int8", text: "text" } as const;

export interface KeyColumn {
  /** A column of the list's rows, under its own name. */
  readonly column: { readonly name: string };
  readonly kind: keyof typeof KINDS;
}

/** The key of a row, as text, column by column. */
export type Position = readonly string[];

/** The list as cursors name it: that of one tenant refuses the cursor of another's. */
export function listOf(name: string, { tenants }: Pick<Reach, "tenants">): string {
  if (tenants === "*") return name;
  const digest = createHash("sha256")
    .update([...tenants].sort().join())
    .digest("base64url");
  return `${name} ${digest.slice(0, 16)}`;
}

/** `list` is part of the cursor, so that one list refuses the cursor of another. */
export function writeCursor(list: string, position: Position): string {
  return Buffer.from(JSON.stringify([list, ...position]), "utf8").toString("base64url");
}

/** Throws 400 for a text that is not a cursor of this list. */
export function readCursor(list: string, key: readonly KeyColumn[], cursor: string): Position {
  const parts = parsed(Buffer.from(cursor, "base64url").toString("utf8"));
  const fits =
    Array.isArray(parts) &&
    parts.length === key.length + 1 &&
    parts[0] === list &&
    key.every(({ kind }, index) => fitsKind(kind, parts[index + 1]));
  if (fits) return parts.slice(1);
  throw badRequest("cursor is not one that this list gave", [
    { path: "$.query.cursor", message: "is not one of this list" },
  ]);
}

function fitsKind(kind: KeyColumn["kind"], value: unknown): value is string {
  if (typeof value !== "string" || !KINDS[kind].test(value)) return false;
  if (kind === "time") return postgresTime(value)?.startsWith(value.slice(0, -1)) === true;
  return kind !== "uuid" || isUuid(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
