// The story of a run: its audit rows in their order, and the moment after any number of them. Rows are only ever added, and each is
// folded once; a moment in the past is folded from the nearest checkpoint.

import { ChartGraph } from "../../../machines/chart/graph.js";
import { Trace, type TracedRow } from "../../../machines/chart/trace.js";
import type { Chart } from "../../../machines/index.js";
import { BEGIN, FAILED, SUCCEEDED } from "../graph/chart.js";
import { BEGINNING, fold, folding, type Moment, type Move } from "./moment.js";
import { type Row, stateAfter, typeOf } from "./rows.js";

/** Rows between two checkpoints: so many are folded at most when the slider moves. */
const STRIDE = 256;

export class Story {
  readonly rows: Row[] = [];
  private readonly moves: (readonly Move[])[] = [];
  private readonly checkpoints: Moment[] = [BEGINNING];
  private readonly trace: Trace | undefined;
  private last = BEGINNING;

  /** Without a chart it knows no edges. */
  constructor(chart: Chart | undefined) {
    this.trace = chart && new Trace(new ChartGraph(chart));
  }

  /** Rows that it has already are passed over. */
  append(rows: readonly Row[]): void {
    const after = this.rows.at(-1)?.seq ?? 0;
    const fresh = rows.filter(({ seq }) => seq > after);
    if (fresh.length === 0) return;
    let moment = folding(this.last);
    for (const row of fresh) {
      const moves = this.movesOf(row);
      this.rows.push(row);
      this.moves.push(moves);
      moment = fold(moment, row, moves);
      if (moment.count % STRIDE === 0) this.checkpoints.push(folding(moment));
    }
    this.last = moment;
  }

  /** After all rows. */
  get now(): Moment {
    return this.last;
  }

  /** After the first rows. */
  after(count: number): Moment {
    if (count >= this.rows.length) return this.last;
    const checkpoint = this.checkpoints[Math.floor(Math.max(0, count) / STRIDE)] ?? BEGINNING;
    let moment = folding(checkpoint);
    for (let nth = checkpoint.count; nth < count; nth++)
      moment = fold(moment, this.rows[nth] as Row, this.moves[nth] ?? []);
    return moment;
  }

  /** The number of rows up to a `seq`. Numbers have no gaps, unless old rows were deleted. */
  countAt(seq: number): number {
    const guess = seq - (this.rows[0]?.seq ?? 1) + 1;
    if (this.rows[guess - 1]?.seq === seq) return guess;
    return this.rows.filter((row) => row.seq <= seq).length;
  }

  private movesOf(row: Row): readonly Move[] {
    if (!this.trace) return [];
    let from = nodeAt(this.trace.path);
    const traced: TracedRow = { type: typeOf(row), to: stateAfter(row), stepId: row.step_id, ...metadata(row) };
    return this.trace.take(traced).map(({ path }) => {
      const move = { from, to: nodeAt(path) };
      from = move.to;
      return move;
    });
  }
}

const metadata = ({ metadata }: Row) => (metadata ? { metadata: metadata as NonNullable<TracedRow["metadata"]> } : {});

const OUTER: Readonly<Record<string, string>> = { pending: BEGIN, succeeded: SUCCEEDED, failed: FAILED };

/** The node of the graph at a place of the chart. */
function nodeAt(path: string): string {
  const step = path.startsWith("active.") ? path.slice("active.".length).replaceAll("%2E", ".") : undefined;
  return step ?? OUTER[path] ?? `(${path})`;
}
