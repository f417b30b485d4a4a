// Where a command writes and what it reads: the two output streams, colours, the width of the terminal, and standard input. What is written is the
// commands' business.
import { styleText } from "node:util";
import { EXIT, Failure } from "../exit.js";

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan" | "magenta";

/** An input for a command is JSON; the service takes a few MiB at most. */
const MOST_INPUT_BYTES = 32 * 1024 * 1024;
/** A pipe has no width; a terminal that does not say has the usual one. */
const USUAL_WIDTH = 80;

/** Those of the process, unless a program runs the command itself. */
export interface Streams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
}

export interface TerminalOptions {
  readonly mayColour: boolean;
  readonly isDumb: boolean;
}

export class Terminal {
  constructor(
    private readonly options: TerminalOptions,
    readonly streams: Streams = process,
  ) {}

  /** Standard output is a terminal that moves its cursor. */
  get isLive(): boolean {
    return this.streams.stdout.isTTY === true && !this.options.isDumb;
  }

  /** A person can be asked. */
  get isInteractive(): boolean {
    return this.streams.stdin.isTTY === true && this.streams.stderr.isTTY === true;
  }

  /** Columns; unlimited in a pipe. */
  get width(): number {
    if (this.streams.stdout.isTTY !== true) return Number.POSITIVE_INFINITY;
    return this.streams.stdout.columns || USUAL_WIDTH;
  }

  get height(): number {
    return this.streams.stdout.rows || 24;
  }

  /** A result: whole lines. */
  print(text: string): void {
    this.streams.stdout.write(text.endsWith("\n") || text === "" ? text : `${text}\n`);
  }

  printJson(value: unknown): void {
    this.print(JSON.stringify(value, null, 2) ?? "null");
  }

  /** One of a stream of JSON values. */
  printJsonLine(value: unknown): void {
    this.print(JSON.stringify(value) ?? "null");
  }

  /** Anything that is no result. */
  note(text: string): void {
    this.streams.stderr.write(`${text}\n`);
  }

  paint(style: Style, text: string): string {
    return this.options.mayColour && this.streams.stdout.isTTY === true ? styleText(style, text) : text;
  }

  /** The whole standard input. Throws Failure for a terminal, where it would wait for somebody who does not know. */
  async readInput(purpose: string): Promise<string> {
    if (this.streams.stdin.isTTY === true)
      throw new Failure(`${purpose} is read from standard input, which is a terminal: pipe it in, or name a file`);
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of this.streams.stdin) {
      bytes += (chunk as Buffer).length;
      if (bytes > MOST_INPUT_BYTES)
        throw new Failure(`${purpose} on standard input is larger than ${MOST_INPUT_BYTES / 1024 / 1024} MiB`);
      chunks.push(chunk as Buffer);
    }
    return Buffer.concat(chunks)
      .toString("utf8")
      .replace(/^\uFEFF/, "");
  }

  /** A line that a person types. `secret`: it is not shown. Throws Failure with 130 at Ctrl-C. */
  async ask(question: string, { secret = false } = {}): Promise<string> {
    const { stdin } = this.streams;
    // Before the question: the terminal would show what is typed until then, a secret, too, and keep it to itself.
    stdin.setRawMode(true);
    stdin.setEncoding("utf8");
    stdin.resume();
    this.streams.stderr.write(question);
    try {
      return await new Promise<string>((resolve, reject) => {
        let line = "";
        const take = (text: string) => {
          for (const char of text) {
            if (char === "\r" || char === "\n" || char === "\u0004") {
              stdin.off("data", take);
              return resolve(line);
            }
            if (char === "\u0003") {
              stdin.off("data", take);
              return reject(new Failure("interrupted", EXIT.interrupted));
            }
            line = edited(line, char, (shown) => secret || this.streams.stderr.write(shown));
          }
        };
        stdin.on("data", take);
      });
    } finally {
      stdin.setRawMode(false);
      stdin.pause();
      this.streams.stderr.write("\n");
    }
  }
}

/** Backspace takes a character, Ctrl-U all of them; other control characters are nothing. */
function edited(line: string, char: string, show: (text: string) => void): string {
  if (char === "\u0008" || char === "\u007f") {
    if (line !== "") show("\b \b");
    return [...line].slice(0, -1).join("");
  }
  if (char === "\u0015") {
    show("\b \b".repeat([...line].length));
    return "";
  }
  if (char < " ") return line;
  show(char);
  return line + char;
}
