// The spans of a timeline: how long each step, attempt, wait and undo took, read from the audit rows. A span without an end goes on.
import { awaitedWord, reasonWord } from "../parts/state-words.js";
import { type Halt, haltBy, letGoBy } from "./halt.js";
import { failureOf, isIncident, isUndo, type Row, textIn, timeOf, typeOf, willRetry } from "./rows.js";
import { nameOf } from "./words.js";

export type SpanKind = "step" | "queue" | "attempt" | "retry" | "wait" | "children" | "incident" | "halt" | "undo";

export interface Span {
  readonly kind: SpanKind;
  readonly step: string;
  readonly from: number;
  to?: number;
  /** The number of the row that began it. */
  readonly seq: number;
  readonly words: string;
  ended?: "done" | "failed" | "skipped";
}

/** Spans in the order of their begin. Rows are added; spans are closed in place. */
export class Spans {
  readonly all: Span[] = [];
  private readonly outer = new Map<string, Span>();
  private readonly inner = new Map<string, Span>();
  /** While an operator or a quarantine holds the run. */
  private readonly halts = new Map<Halt, Span>();
  private taken = 0;

  append(rows: readonly Row[]): void {
    for (const row of rows) {
      if (row.seq <= this.taken) continue;
      this.taken = row.seq;
      this.take(row);
    }
  }

  private take(row: Row): void {
    if (typeOf(row).startsWith("run.")) return this.closeAll(timeOf(row));
    if (typeOf(row) === "log") this.holds(row);
    if (row.step_id === undefined) return;
    const key = `${isUndo(row) ? "undo " : ""}${row.step_id}`;
    if (typeOf(row) === "step.started") this.begin(key, row);
    else if (typeOf(row) === "step.dispatched") this.within(key, row, "attempt", `attempt ${row.attempt}`);
    else if (typeOf(row) === "step.paused") this.waits(key, row);
    else if (typeOf(row) === "step.failed") this.fails(key, row);
    else if (/^step\.(succeeded|skipped)$/.test(typeOf(row)))
      this.end(key, row, typeOf(row) === "step.skipped" ? "skipped" : "done");
  }

  private begin(key: string, row: Row): void {
    const undo = isUndo(row);
    this.end(key, row);
    this.outer.set(key, this.open(row, undo ? "undo" : "step", undo ? `undo of ${row.step_id}` : `${row.step_id}`));
  }

  /** A halt is seen in the lane of the step that the run stands at. */
  private holds(row: Row): void {
    for (const halt of letGoBy(row)) {
      const span = this.halts.get(halt);
      if (span) this.close(span, timeOf(row));
      this.halts.delete(halt);
    }
    const halt = haltBy(row);
    if (halt !== undefined && row.step_id !== undefined && !this.halts.has(halt))
      this.halts.set(halt, this.open(row, halt === "quarantine" ? "incident" : "halt", reasonWord(halt)));
  }

  /** Between the begin of a step and its first dispatch it waited for a worker: whether it did, the dispatch says. */
  private within(key: string, row: Row, kind: SpanKind, words: string): void {
    const before = this.inner.get(key);
    const outer = this.outer.get(key);
    if (before) this.close(before, timeOf(row));
    else if (outer && kind === "attempt" && timeOf(row) > outer.from)
      this.all.push({ ...outer, kind: "queue", to: timeOf(row), words: "waits for a worker" });
    this.inner.set(key, this.open(row, kind, words));
  }

  private waits(key: string, row: Row): void {
    const awaiting = textIn(row, "awaiting") ?? "something";
    const words = `waits ${awaitedWord(awaiting)}${nameOf(row)}`;
    this.within(key, row, awaiting === "children" ? "children" : "wait", words);
  }

  private fails(key: string, row: Row): void {
    const attempt = this.inner.get(key);
    if (attempt) attempt.ended = "failed";
    if (isIncident(row)) return this.within(key, row, "incident", `${reasonWord("incident")}: ${failureOf(row).code}`);
    if (!willRetry(row)) return this.end(key, row, "failed");
    if (attempt) this.close(attempt, timeOf(row));
    this.inner.set(key, this.open(row, "retry", `waits to try again after ${failureOf(row).code}`));
  }

  private end(key: string, row: Row, ended?: Span["ended"]): void {
    for (const spans of [this.inner, this.outer]) {
      const span = spans.get(key);
      if (!span) continue;
      this.close(span, timeOf(row));
      if (ended !== undefined) span.ended ??= ended;
      spans.delete(key);
    }
  }

  private open(row: Row, kind: SpanKind, words: string): Span {
    const span: Span = { kind, step: row.step_id ?? "", from: timeOf(row), seq: row.seq, words };
    this.all.push(span);
    return span;
  }

  private close(span: Span, at: number): void {
    span.to = at;
  }

  private closeAll(at: number): void {
    for (const spans of [this.inner, this.outer, this.halts]) {
      for (const span of spans.values()) this.close(span, at);
      spans.clear();
    }
  }
}
