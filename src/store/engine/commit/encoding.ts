// Rows as array literals of Postgres, column by column, so that a group travels as one text parameter a column. Each run's rows are encoded
// when it submits them: a group then only joins texts. The driver's array serializer costs more than the rest of the client's side.
import {
  type ColumnType,
  inOnePiece,
  RELATIONS,
  type Relation,
  type RunCommit,
  type RunId,
  type Slices,
} from "../../../../machines/index.js";
import { sealRows } from "../../sealed/rows.js";
import type { Sealer } from "../../sealed/sealing.js";

/** A run's share of a commit as it travels. */
export interface EncodedRun {
  readonly runId: RunId;
  /** All runs whose rows it writes: the run, those that it creates, and those that it promises a signal. */
  readonly writes: readonly string[];
  readonly parts: readonly Part[];
  /** About the bytes of its rows, so that a group is bounded in bytes and not only in runs. */
  readonly weight: number;
}

/** The rows of one relation: a text for each column, without the braces of the literal. */
interface Part {
  readonly relation: Relation;
  readonly rows: number;
  readonly cells: readonly string[];
}

type Encode = (cell: unknown) => string;
type Encoder = readonly { readonly column: string; readonly encode: Encode }[];

const ENCODE: Readonly<Record<string, Encode>> = {
  uuid: (cell) => quoted(cell as string),
  text: (cell) => quoted(cell as string),
  int8: (cell) => quoted(cell as string),
  int2: String,
  int4: String,
  bool: (cell) => (cell ? "t" : "f"),
  timestamptz: (cell) => time(cell as number),
  // JSON text has neither control characters nor lone surrogates, so it is escaped as JSON escapes a string: five times as fast as a
  // replacement, 2 ms a megabyte. A number needs no quotes.
  json: (cell) => (typeof cell === "number" ? JSON.stringify(cell) : JSON.stringify(JSON.stringify(cell))),
};

const ENCODERS = Object.fromEntries(
  Object.entries(RELATIONS).map(([relation, columns]) => [relation, encoderOf(columns)]),
) as Readonly<Record<Relation, Encoder>>;

function encoderOf(columns: Readonly<Record<string, ColumnType>>): Encoder {
  return Object.entries(columns).map(([column, type]) => {
    const encode = ENCODE[type.replace("?", "")] as Encode;
    return { column, encode: (cell) => (cell === undefined ? "NULL" : encode(cell)) };
  });
}

const KEY_COLUMN = Object.keys(RELATIONS.new_run).indexOf("key");

/** What a row takes besides its values, and the rows that are always small. */
const FIXED_BYTES = 1_024;

/** Rows that are encoded in one piece: a run may begin with 100,000 variables, which take 0.15 s (law 14). */
const SLICE_ROWS = 2_000;

/** Whether its rows are too many for one piece: see encodeSlices. */
export function isLarge({ rows }: RunCommit): boolean {
  return Object.values(rows).some((some) => some !== undefined && some.length > SLICE_ROWS);
}

/** `sealer`: that of the run's tenant. Absent: encryption is off. */
export function encodeRun(commit: RunCommit, sealer?: Sealer): EncodedRun {
  return inOnePiece(encodeSlices(commit, sealer, Number.POSITIVE_INFINITY));
}

/** Stops after every piece. */
export function* encodeSlices({ runId, rows }: RunCommit, sealer?: Sealer, sliceRows = SLICE_ROWS): Slices<EncodedRun> {
  const parts: Part[] = [];
  let weight = FIXED_BYTES;
  for (const relation of Object.keys(rows) as Relation[]) {
    const some = rows[relation] as readonly Cells[] | undefined;
    if (!some || some.length === 0) continue;
    const cells = new Array<string>(ENCODERS[relation].length).fill("");
    for (let from = 0; from < some.length; from += sliceRows) {
      const to = Math.min(some.length, from + sliceRows);
      if (!sealer) weight += appendRows(relation, cells, some, from, to);
      else {
        const sealed = sealRows(relation, some.slice(from, to), sealer);
        weight += appendRows(relation, cells, sealed, 0, sealed.length, from > 0);
      }
      if (from + sliceRows < some.length) yield;
    }
    parts.push({ relation, rows: some.length, cells });
  }
  return { runId, writes: writtenBy(runId, rows), parts, weight };
}

type Cells = Readonly<Record<string, unknown>>;

/** How long their texts are. */
function appendRows(
  relation: Relation,
  cells: string[],
  rows: readonly Cells[],
  from: number,
  to: number,
  hasOthers = false,
): number {
  const encoder = ENCODERS[relation];
  let length = 0;
  for (let nthRow = from; nthRow < to; nthRow++) {
    const row = rows[nthRow] as Cells;
    const comma = nthRow === 0 && !hasOthers ? "" : ",";
    for (let nth = 0; nth < encoder.length; nth++) {
      const { column, encode } = encoder[nth] as Encoder[number];
      const cell = encode(row[column]);
      length += cell.length;
      cells[nth] += comma + cell;
    }
  }
  return length;
}

function writtenBy(
  runId: RunId,
  { new_run: created = [], promise: promises = [] }: RunCommit["rows"],
): readonly string[] {
  return [runId, ...created.map(({ id }) => id), ...promises.map(({ waiter }) => waiter)];
}

/** The rows of a group, relation by relation. */
export class GroupRows {
  private readonly found = new Map<Relation, { rows: number; readonly literals: string[] }>();

  constructor(group: readonly EncodedRun[]) {
    for (const { parts } of group) for (const part of parts) this.add(part);
  }

  private add({ relation, rows, cells }: Part): void {
    const found = this.found.get(relation);
    if (!found) {
      this.found.set(relation, { rows, literals: [...cells] });
      return;
    }
    found.rows += rows;
    for (let nth = 0; nth < cells.length; nth++) found.literals[nth] += `,${cells[nth]}`;
  }

  count(relation: Relation): number {
    return this.found.get(relation)?.rows ?? 0;
  }

  /** Some run is created under an idempotency key. */
  get hasStartKeys(): boolean {
    const { literals } = this.found.get("new_run") ?? {};
    return literals?.[KEY_COLUMN]?.includes('"') ?? false;
  }

  has(relation: Relation): boolean {
    return this.found.has(relation);
  }

  /** A parameter for each column of the relation, in their order. */
  parameters(relation: Relation): string[] {
    return this.found.get(relation)?.literals.map((cells) => `{${cells}}`) ?? ENCODERS[relation].map(() => "{}");
  }
}

function quoted(cell: string): string {
  if (!/["\\]/.test(cell)) return `"${cell}"`;
  return `"${cell.replace(/["\\]/g, "\\$&")}"`;
}

/** The rows of a batch have few times, of now and of what is due: each is formatted once. A time has its place by its last bits. */
const WRITTEN = Array.from({ length: 64 }, () => ({ epochMs: Number.NaN, text: "" }));

function time(epochMs: number): string {
  const written = WRITTEN[epochMs & (WRITTEN.length - 1)] as (typeof WRITTEN)[number];
  if (written.epochMs !== epochMs) {
    written.text = new Date(epochMs).toISOString();
    written.epochMs = epochMs;
  }
  return written.text;
}
