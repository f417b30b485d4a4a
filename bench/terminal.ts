// What the bench says while it runs, on standard error, and the table at the end, on standard output. On a terminal the progress is one
// line that is written over; elsewhere it is one plain line for each repetition.
import { COLUMNS, medians } from "./report/figures.js";
import { shown } from "./report/text.js";
import type { Repetition, ResultFile } from "./result.js";

const REDRAW_MS = 200;

export class Terminal {
  private drawn = 0;

  constructor(private readonly out: NodeJS.WriteStream = process.stderr) {}

  /** The progress of a repetition; `total` is absent where a duration ends it. */
  progress(title: string, total: number | undefined): (done: number) => void {
    const since = performance.now();
    return (done) => {
      const now = performance.now();
      if (!this.out.isTTY || now - this.drawn < REDRAW_MS) return;
      this.drawn = now;
      const rate = Math.round((done * 1_000) / (now - since));
      this.rewrite(
        `${title}: ${done.toLocaleString("en")}${total === undefined ? "" : ` of ${total.toLocaleString("en")}`}, ${rate}/s`,
      );
    };
  }

  /** What happens now; only a terminal shows it. */
  now(text: string): void {
    if (this.out.isTTY) this.rewrite(text);
  }

  line(text: string): void {
    if (this.out.isTTY) this.rewrite("");
    this.out.write(`${text}\n`);
  }

  private rewrite(text: string): void {
    this.out.write(`\r\x1b[2K${text.slice(0, Math.max(20, (this.out.columns ?? 80) - 1))}`);
  }
}

/** One line for a repetition that is done. */
export function repetitionLine(title: string, unit: string, repetition: Repetition): string {
  const parts = [
    `${Math.round(repetition.throughput_per_second).toLocaleString("en")} ${unit}/s`,
    ...repetition.latencies.map(({ of, p50_ms, p99_ms }) => `${of} p50 ${shown(p50_ms)} ms, p99 ${shown(p99_ms)} ms`),
    ...repetition.figures.map(({ name, value, unit: of }) => `${name} ${value} ${of}`),
    repetition.errors > 0 && `${repetition.errors} errors`,
    ...repetition.notes,
  ];
  return `${title}: ${parts.filter(Boolean).join("; ")}`;
}

/** The medians of the repetitions. Rows and WAL are for each transition. */
export function resultTable({ scenarios }: ResultFile): string {
  const heads = ["scenario", ...COLUMNS.map(([head]) => head)];
  const rows = scenarios.map((scenario) => {
    const found = medians(scenario);
    return [scenario.scenario, ...COLUMNS.map(([, of]) => shown(of(found)))];
  });
  const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const cell = (text: string, column: number) =>
    column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0);
  return [heads, ...rows].map((row) => row.map(cell).join("  ")).join("\n");
}
