// Two plots as SVG text: lines of latency percentiles, and horizontal bars. Colours are classes, which the report's style defines.
import { escaped, shown } from "./text.js";

export interface Line {
  readonly name: string;
  /** Pairs of a percentile and its milliseconds, ascending. */
  readonly points: readonly (readonly [number, number])[];
}

const [WIDTH, HEIGHT] = [560, 260];
const [LEFT, RIGHT, TOP, BOTTOM] = [72, 30, 10, 30];
const PERCENTILES = [0, 50, 90, 99, 99.9, 99.99];
const MOST_NINES = 4;

interface Axes {
  readonly x: (percentile: number) => number;
  readonly y: (ms: number) => number;
  /** Powers of ten of milliseconds. */
  readonly decades: readonly number[];
}

/** Percentiles on an axis of nines (each tick leaves a tenth of the last one's rest), milliseconds on a logarithmic one. */
export function percentilePlot(lines: readonly Line[]): string {
  const axes = axesOf(lines.flatMap(({ points }) => points.map(([, ms]) => ms)));
  return svg(WIDTH, HEIGHT, "Latency by percentile", [
    grid(axes),
    ...lines.map((line, nth) => polyline(axes, line, nth)),
  ]);
}

function axesOf(values: readonly number[]): Axes {
  const exponents = values.filter((ms) => ms > 0).map(Math.log10);
  const low = exponents.length > 0 ? Math.floor(Math.min(...exponents)) : 0;
  const high = Math.max(low + 1, Math.ceil(Math.max(low, ...exponents)));
  const share = (ms: number) => (Math.log10(Math.max(ms, 10 ** low)) - low) / (high - low);
  return {
    x: (percentile) => LEFT + (nines(percentile) / MOST_NINES) * (WIDTH - LEFT - RIGHT),
    y: (ms) => HEIGHT - BOTTOM - share(ms) * (HEIGHT - BOTTOM - TOP),
    decades: Array.from({ length: high - low + 1 }, (_, nth) => 10 ** (low + nth)),
  };
}

function grid({ x, y, decades }: Axes): string {
  const rows = decades.map(
    (ms) => ruled(LEFT, y(ms), WIDTH - RIGHT, y(ms)) + label(LEFT - 6, y(ms) + 4, `${shown(ms)} ms`, "end"),
  );
  const columns = PERCENTILES.map(
    (each) => ruled(x(each), TOP, x(each), HEIGHT - BOTTOM) + label(x(each), HEIGHT - 12, `${each} %`),
  );
  return [...rows, ...columns].join("\n");
}

function polyline({ x, y }: Axes, { name, points }: Line, nth: number): string {
  const path = points.map(([percentile, ms]) => `${fixed(x(percentile))},${fixed(y(ms))}`).join(" ");
  return `<polyline class="line c${nth % 6}" points="${path}"><title>${escaped(name)}</title></polyline>`;
}

export interface Bar {
  readonly name: string;
  /** What follows the bar. */
  readonly text: string;
  /** Stacked; the class of each part is its place among all parts. */
  readonly parts: readonly number[];
}

const [ROW, NAME, TEXT] = [24, 150, 150];
/** Characters of a name beside its bar; the end of a path says more than its beginning. */
const MOST_CHARACTERS = 24;

export function barPlot(title: string, bars: readonly Bar[]): string {
  const sum = ({ parts }: Bar) => parts.reduce((total, part) => total + part, 0);
  const scale = (WIDTH - NAME - TEXT) / (Math.max(...bars.map(sum)) || 1);
  return svg(
    WIDTH,
    bars.length * ROW,
    title,
    bars.map((bar, row) => barRow(bar, row * ROW, scale)),
  );
}

function barRow({ name, text, parts }: Bar, y: number, scale: number): string {
  let x = NAME;
  const rects = parts.map((part, nth) => {
    const rect = `<rect class="bar c${nth % 6}" x="${fixed(x)}" y="${y + 4}" width="${fixed(part * scale)}" height="${ROW - 8}"/>`;
    x += part * scale;
    return rect;
  });
  const middle = y + ROW / 2 + 4;
  const named = label(NAME - 8, middle, name.slice(-MOST_CHARACTERS), "end");
  return named + rects.join("") + label(x + 6, middle, text, "start");
}

/** 0 % is 0, 90 % is 1, 99 % is 2; 100 % is at the end of the axis. */
function nines(percentile: number): number {
  return Math.min(MOST_NINES, -Math.log10(1 - Math.min(percentile, 99.999) / 100));
}

function svg(width: number, height: number, title: string, body: readonly string[]): string {
  const head = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">`;
  return `${head}\n${body.join("\n")}\n</svg>`;
}

function ruled(x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="rule" x1="${fixed(x1)}" y1="${fixed(y1)}" x2="${fixed(x2)}" y2="${fixed(y2)}"/>`;
}

function label(x: number, y: number, text: string, anchor: "start" | "middle" | "end" = "middle"): string {
  return `<text x="${fixed(x)}" y="${fixed(y)}" text-anchor="${anchor}">${escaped(text)}</text>`;
}

const fixed = (value: number) => value.toFixed(1);
