// How values look on a terminal: their width, safe text, times, and tables that fit. It writes nothing.

/**
 * Control characters and those that turn the direction of a text could move the cursor or hide what a line says. Text of users is shown with them
 * written out.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters in question.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function safe(text: string): string {
  return text.replace(UNSAFE, (char) => {
    const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" }[char];
    return short ?? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** A value on one line: texts as they are, everything else as JSON. */
export function inline(value: unknown): string {
  if (value === undefined) return "";
  return safe(typeof value === "string" ? value : JSON.stringify(value));
}

const segments = new Intl.Segmenter("en", { granularity: "grapheme" });
/** East Asian wide characters and emoji take two columns. */
const WIDE =
  /^(?:\p{Emoji_Presentation}|\p{Emoji}\uFE0F|[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}])/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one.
const COLOURS = /\u001b\[[\d;]*m/g;

const isAscii = (text: string) => /^[\x20-\x7e]*$/.test(text);

/** In columns of a terminal, without colours. */
export function widthOf(text: string): number {
  const plain = text.replace(COLOURS, "");
  if (isAscii(plain)) return plain.length;
  let width = 0;
  for (const { segment } of segments.segment(plain)) width += WIDE.test(segment) ? 2 : 1;
  return width;
}

/** At most `width` columns; what is cut ends with an ellipsis. The text has no colours. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const { segment } of segments.segment(text)) {
    const wide = widthOf(segment);
    if (used + wide > width - 1) break;
    kept += segment;
    used += wide;
  }
  return width < 1 ? "" : `${kept}…`;
}

export const padded = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - widthOf(text)));

export interface Column {
  readonly title: string;
  /** May be cut to make the table fit; the number is the least width. Without it the column is always whole. */
  readonly least?: number;
}

export interface Cell {
  readonly text: string;
  /** Colours it after it was cut and padded. */
  readonly paint?: (text: string) => string;
}

const GAP = 2;

/** Lines of a table that fits into `width`. The widest of the columns that may be cut gives first. */
export function table(columns: readonly Column[], rows: readonly (readonly Cell[])[], width: number): string[] {
  const widths = columns.map(({ title }, index) =>
    Math.max(widthOf(title), ...rows.map((row) => widthOf(row[index]?.text ?? ""))),
  );
  const total = () => widths.reduce((sum, each) => sum + each, 0) + GAP * (columns.length - 1);
  while (total() > width) {
    const candidates = columns.flatMap(({ least }, index) =>
      least !== undefined && (widths[index] ?? 0) > least ? [index] : [],
    );
    if (candidates.length === 0) break;
    const widest = candidates.reduce((best, index) => ((widths[index] ?? 0) > (widths[best] ?? 0) ? index : best));
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  const lineOf = (cells: readonly Cell[]) =>
    cells
      .map(({ text, paint = (same) => same }, index) => {
        const fits = cut(text, widths[index] ?? 0);
        return paint(index === cells.length - 1 ? fits : padded(fits, widths[index] ?? 0));
      })
      .join(" ".repeat(GAP))
      .trimEnd();
  return [lineOf(columns.map(({ title }) => ({ text: title }))), ...rows.map(lineOf)];
}

/** `4s`, `3m`, `5h`, `12d`: one unit is enough for a list. */
export function ago(from: string, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(from)) / 1_000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** `850 ms`, `4.2 s`, `3 min 20 s`, `5 h 3 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Names beside values, aligned; values that are absent are left out. */
export function facts(pairs: readonly (readonly [name: string, value: string | undefined])[]): string[] {
  const present = pairs.filter((pair): pair is readonly [string, string] => pair[1] !== undefined && pair[1] !== "");
  const width = Math.max(0, ...present.map(([name]) => name.length));
  return present.map(([name, value]) => `${name.padEnd(width)}  ${value}`);
}
