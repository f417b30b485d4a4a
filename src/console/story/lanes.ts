// The spans of a story as lanes of a timeline: one for each step, in the order in which they began, and which spans a window shows. Pure.
import type { Span } from "./spans.js";

export interface Lane {
  readonly step: string;
  readonly spans: readonly Span[];
}

export interface Window {
  readonly from: number;
  readonly to: number;
}

export interface Bar {
  readonly span: Span;
  /** Shares of the window. */
  readonly left: number;
  readonly width: number;
}

/** More in one lane would not be told apart. */
const MAX_BARS = 400;

export function lanesOf(spans: readonly Span[]): readonly Lane[] {
  const lanes = new Map<string, Span[]>();
  for (const span of spans) {
    const lane = lanes.get(span.step);
    if (lane) lane.push(span);
    else lanes.set(span.step, [span]);
  }
  return [...lanes].map(([step, spans]) => ({ step, spans }));
}

/** `now`: where a span ends that goes on. `left`: spans of the window that are not drawn. */
export function barsOf({ spans }: Lane, { from, to }: Window, now: number): { bars: readonly Bar[]; left: number } {
  const length = Math.max(1, to - from);
  const inside = spans.filter((span) => span.from <= to && (span.to ?? now) >= from);
  const bars = inside.slice(0, MAX_BARS).map((span) => {
    const start = Math.max(from, span.from);
    const end = Math.min(to, span.to ?? now);
    return { span, left: (start - from) / length, width: Math.max(0, end - start) / length };
  });
  return { bars, left: inside.length - bars.length };
}

/** Never narrower than a millisecond, never beyond the whole. `at`: the share of the window that stays where it is. */
export function zoomed({ from, to }: Window, factor: number, whole: Window, at = 0.5): Window {
  const length = Math.min(whole.to - whole.from, Math.max(10, (to - from) * factor));
  const middle = from + (to - from) * at;
  return inside({ from: middle - length * at, to: middle + length * (1 - at) }, whole);
}

export function moved({ from, to }: Window, share: number, whole: Window): Window {
  const by = (to - from) * share;
  return inside({ from: from + by, to: to + by }, whole);
}

function inside({ from, to }: Window, whole: Window): Window {
  const length = Math.min(to - from, whole.to - whole.from);
  const start = Math.min(Math.max(from, whole.from), whole.to - length);
  return { from: start, to: start + length };
}

const STEPS = [1, 2, 5];

/** Round times for the marks of an axis: no more than there is room for. */
export function marksOf({ from, to }: Window, start: number, most = 8): readonly number[] {
  const rough = Math.max(1, (to - from) / most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (STEPS.find((one) => one * power >= rough) ?? 10) * power;
  const first = Math.ceil((from - start) / step);
  const count = Math.floor((to - start) / step) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, nth) => start + (first + nth) * step);
}
