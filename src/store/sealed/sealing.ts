// Encryption at rest as the rest of the store sees it: what seals the values of a tenant, what opens what was read, and which pool has them. The keys
// behind it are keyring.ts; without them nothing here is called.
import type { Fragment, Sql } from "postgres";

/** What seals the values of one commit, under one data key. */
export interface Sealer {
  /** The value in an envelope. `identity`: which value it is. */
  seal(value: unknown, identity: string): object;
  /** A hash of content that cannot be tried without the key. */
  hash(hash: string): string;
}

/** The identity that a value must have, or the beginning that its place in the column is added to. */
export type Expected = string | ((identity: string, path: string) => boolean);

export interface Sealing {
  /** JSON as the driver reads it. What cannot be read is replaced by a marker that says why. */
  readonly parse: (text: string) => unknown;
  /**
   * JSON for a decision: each sealed value must be the one that was asked for. Throws Unreadable if one is not, or was changed, and UnknownDataKey if
   * this node does not have its key yet. For each value whose key was destroyed it calls `onDestroyed`, and has a marker in its place; without that it
   * throws KeyDestroyed.
   */
  read<T>(text: string, expected: Expected, onDestroyed?: () => void): T;
  /** The sealer of the tenant, if its key is at hand. Asking for it counts nothing. */
  sealerOf(tenantId: string | undefined): Sealer | undefined;
  /** The same, waited for. */
  sealer(tenantId: string | undefined): Promise<Sealer>;
  /** How often `parse` met a key that this node does not have yet. */
  readonly missed: number;
  refresh(): Promise<void>;
}

const ofPools = new WeakMap<Sql, Sealing>();

export function useSealing(pool: Sql, sealing: Sealing | undefined): void {
  if (sealing) ofPools.set(pool, sealing);
}

/** Undefined: nothing is sealed. */
export const sealingOf = (pool: Sql): Sealing | undefined => ofPools.get(pool);

/** The text of a value that a statement writes, sealed where encryption is on. */
export async function sealedText(
  pool: Sql,
  tenantId: string | undefined,
  value: unknown,
  identity: string,
): Promise<string> {
  const sealing = sealingOf(pool);
  return JSON.stringify(sealing ? (await sealing.sealer(tenantId)).seal(value, identity) : value);
}

/** How a statement selects a column that `readColumn` reads: as text, where encryption is on. */
export function asRead(pool: Sql): Fragment {
  const form = forms.get(pool) ?? (sealingOf(pool) ? pool`::text` : pool``);
  forms.set(pool, form);
  return form;
}

/** One a pool: a statement that is sent often should not make another. */
const forms = new WeakMap<Sql, Fragment>();

/** A column that was selected as `asRead` says. */
export function readColumn<T>(pool: Sql, cell: T, expected: Expected, onDestroyed?: () => void): T {
  const sealing = sealingOf(pool);
  return sealing && typeof cell === "string" ? sealing.read<T>(cell, expected, onDestroyed) : cell;
}

/** A column, or undefined if its key was destroyed. */
export function readIfThere<T>(pool: Sql, cell: T, expected: Expected): T | undefined {
  let isDestroyed = false;
  const value = readColumn(pool, cell, expected, () => {
    isDestroyed = true;
  });
  return isDestroyed ? undefined : value;
}

/** Reads a cell that may hold sealed values, as text, or null. */
export type ReadCell = <T>(cell: T, expected: Expected) => T;

/** Of kept variables: each is in the manifest, whose identity is given, or it is the value of the holder that the sealed names of the manifest say. */
export function ofManifest(
  manifest: string,
  { holder, names }: { readonly holder?: string | null; readonly names?: string | null },
  read: ReadCell,
): Expected {
  const shared = (read<unknown>(names ?? null, (identity) => identity === `${manifest}/names`) ?? {}) as Readonly<
    Record<string, string>
  >;
  return (identity, path) => {
    const name = path.slice(1);
    if (Object.hasOwn(shared, name)) return identity === `kept_values.value/${holder}/${shared[name]}`;
    return identity === `${manifest}/own/${name}`;
  };
}

/** The rows that can be read. Nothing is done with the others: this node may not have their keys yet, or something was changed. */
export function readableRows<Row>(pool: Sql, rows: readonly Row[], read: (row: Row) => Row): readonly Row[] {
  if (!sealingOf(pool)) return rows;
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch {
      return [];
    }
  });
}

/** Reads for a client, once more if a key was missing: another node may have made it a moment ago. */
export async function withKeys<T>(sealing: Sealing | undefined, read: () => Promise<T>): Promise<T> {
  if (!sealing) return read();
  for (let tries = 1; ; tries++) {
    const { missed } = sealing;
    const found = await read();
    if (sealing.missed === missed || tries === TRIES) return found;
    await sealing.refresh();
  }
}

const TRIES = 3;
