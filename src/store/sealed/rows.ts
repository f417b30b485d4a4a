// Seals what is data in the rows of a commit. Which columns have data is the matter of machines/messages/sealed.ts.
import { type Relation, SEALED, type SealedColumn } from "../../../machines/index.js";
import { sealedIn } from "./envelope.js";
import type { Sealer } from "./sealing.js";

type Cells = Readonly<Record<string, unknown>>;

/** Rows of the relation with their data in envelopes; the rows themselves if they have none. */
export function sealRows(relation: Relation, rows: readonly Cells[], sealer: Sealer): readonly Cells[] {
  const columns = SEALED[relation];
  if (!columns) return rows;
  return rows.map((row) => {
    const hashed = isHashed(relation) ? withHashes(relation, row, sealer) : row;
    const sealed: Record<string, unknown> = { ...hashed };
    for (const [name, column] of Object.entries(columns)) {
      const cell = hashed[name];
      if (cell !== undefined) sealed[name] = sealedCell(cell, column, hashed, sealer);
    }
    return sealed;
  });
}

function sealedCell(cell: unknown, { of, by, part }: SealedColumn, row: Cells, sealer: Sealer): unknown {
  const identity = [of, ...by.map((column) => String(row[column]))].join("/");
  return sealedIn(cell, part, (value, path) => sealer.seal(value, identity + path));
}

type Hashed = "scope" | "kept_entry" | "scope_value";
const isHashed = (relation: Relation): relation is Hashed =>
  relation === "scope" || relation === "kept_entry" || relation === "scope_value";

interface Manifest {
  readonly own: Cells;
  readonly shared: Readonly<Record<string, string>>;
}

/**
 * The hash of a kept value is keyed, or it would say whether a value is one that is tried. The manifest has the hashes of its names once
 * more, sealed: they say which value is whose.
 */
function withHashes(relation: Hashed, row: Cells, sealer: Sealer): Cells {
  if (relation === "scope_value") return { ...row, hash: sealer.hash(row.hash as string) };
  const { own, shared } = row.manifest as Manifest;
  const names = Object.fromEntries(Object.entries(shared).map(([name, hash]) => [name, sealer.hash(hash)]));
  return { ...row, manifest: { own, shared: names, names } };
}
