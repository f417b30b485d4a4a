// The lines of `saga dev`: for a terminal each with the part that it is from, readable; otherwise what the children write, as it came, and lines of JSON of
// its own. It decides nothing but the look.
import { styleText } from "node:util";

export type Level = "info" | "warn" | "error";
export type Part = "service" | "worker" | "definitions" | "dev";

export interface PrinterOptions {
  readonly isPretty: boolean;
  readonly hasColours: boolean;
  write(text: string): void;
}

type Fields = Readonly<Record<string, unknown>>;
type Style = Parameters<typeof styleText>[0];

const WIDTH = "definitions".length;
const COLOURS: Readonly<Record<Part, Style>> = {
  service: "cyan",
  worker: "magenta",
  definitions: "blue",
  dev: "green",
};
/** Members of a log line that are not shown behind its message. */
const KNOWN = new Set(["level", "time", "msg", "message", "pid", "hostname", "err", "error", "v"]);
const NUMBERS: Readonly<Record<number, string>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};
const MOST_FIELD = 200;

export class Printer {
  constructor(private readonly options: PrinterOptions) {}

  get isPretty(): boolean {
    return this.options.isPretty;
  }

  /** A line of a child. */
  line(part: Part, text: string): void {
    if (!this.isPretty) return this.options.write(`${text}\n`);
    const entry = entryIn(text);
    this.put(part, entry ? this.shown(entry) : [text]);
  }

  /** A line of `saga dev` itself; several, if the message has several. */
  say(level: Level, message: string, fields: Fields = {}, part: Part = "dev"): void {
    const entry = { level, time: new Date().toISOString(), part, msg: message, ...fields };
    if (!this.isPretty) return this.options.write(`${JSON.stringify(entry)}\n`);
    this.put(part, this.painted(level, message.split("\n")));
  }

  /** Where everything is: the only lines without a part. */
  banner(title: string, rows: Readonly<Record<string, string>>, hints: readonly string[]): void {
    if (!this.isPretty) {
      const names = Object.entries(rows).map(([name, value]) => [name.toLowerCase(), value]);
      return this.say("info", "ready", Object.fromEntries(names));
    }
    const width = Math.max(...Object.keys(rows).map((name) => name.length));
    const lines = Object.entries(rows).map(([name, value]) => `  ${this.paint("bold", name.padEnd(width))}  ${value}`);
    const rest = hints.map((hint) => `  ${this.paint("dim", hint)}`);
    this.options.write(
      `${["", `  ${this.paint(["bold", "green"], title)}`, "", ...lines, "", ...rest, ""].join("\n")}\n`,
    );
  }

  private put(part: Part, lines: readonly string[]): void {
    const prefix = this.paint(COLOURS[part], (part === "dev" ? "saga" : part).padEnd(WIDTH));
    this.options.write(lines.map((line) => `${prefix} ${this.paint("dim", "|")} ${line}\n`).join(""));
  }

  private shown(entry: Entry): readonly string[] {
    const { level, message, fields, trace } = entry;
    const rest = fields.map(([name, value]) => this.paint("dim", `${name}=${value}`));
    const [first = "", ...more] = message.split("\n");
    return [
      ...this.painted(level, [[first, ...rest].join(" "), ...more]),
      ...trace.map((line) => this.paint("dim", line)),
    ];
  }

  private painted(level: string, [first = "", ...more]: readonly string[]): readonly string[] {
    const style: Style | undefined =
      level === "warn" ? "yellow" : level === "error" || level === "fatal" ? "red" : undefined;
    if (style === undefined) return [first, ...more];
    return [
      `${this.paint(style, level === "warn" ? "warning:" : "error:")} ${first}`,
      ...more.map((line) => `  ${line}`),
    ];
  }

  private paint(style: Style, text: string): string {
    return this.options.hasColours ? styleText(style, text) : text;
  }
}

interface Entry {
  readonly level: string;
  readonly message: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly trace: readonly string[];
}

/** A log line of the service, of a worker of ours, or of another logger of pino's shape. Undefined: it is any text. */
function entryIn(text: string): Entry | undefined {
  if (!text.startsWith("{")) return undefined;
  let value: Fields;
  try {
    value = JSON.parse(text) as Fields;
  } catch {
    return undefined;
  }
  const message = value.msg ?? value.message;
  const level = typeof value.level === "number" ? NUMBERS[value.level] : value.level;
  if (typeof message !== "string" || typeof level !== "string") return undefined;
  const fields = Object.entries(value).filter(([name]) => !KNOWN.has(name));
  const error = (value.err ?? value.error) as { message?: unknown; stack?: unknown } | string | undefined;
  const reason = typeof error === "string" ? error : error?.message;
  const stack = typeof error === "object" && typeof error?.stack === "string" ? error.stack : "";
  const trace = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const said = typeof reason === "string" && reason !== "" ? `${message}: ${reason}` : message;
  return {
    level,
    message: said,
    fields: fields.map(([name, field]) => [name, fieldText(field)]),
    trace: trace.slice(0, 5),
  };
}

function fieldText(value: unknown): string {
  const text = typeof value === "string" && /^[^\s"\p{Cc}]+$/u.test(value) ? value : (JSON.stringify(value) ?? "");
  return text.length > MOST_FIELD ? `${text.slice(0, MOST_FIELD)}…` : text;
}
