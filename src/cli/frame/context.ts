// What a command is given: its arguments and options, the terminal, the service, and the signal of Ctrl-C. It parses nothing.
import { EXIT, Failure } from "../exit.js";
import type { OptionEntry } from "./option.js";
import type { Service } from "./service.js";
import type { Terminal } from "./terminal.js";

/** What completion knows of a command. */
export interface Completable {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionEntry[];
}

/** As commander has read them: options by their name in camelCase. */
export interface Given {
  readonly command: string;
  readonly positionals: readonly (string | readonly string[] | undefined)[];
  readonly options: Readonly<Record<string, unknown>>;
}

export class Context {
  constructor(
    private readonly given: Given,
    readonly terminal: Terminal,
    private readonly connect: (profile: string | undefined) => Promise<Service>,
    /** Aborted by Ctrl-C. */
    readonly signal: AbortSignal,
    /** All commands, for completion. */
    readonly commands: readonly Completable[],
  ) {}

  /** `-o json`. */
  get json(): boolean {
    return this.text("output") === "json";
  }

  /** Throws Failure if the service or its credential is not known. */
  service(): Promise<Service> {
    return this.connect(this.text("profile"));
  }

  /** A required one: commander has seen that it is there. */
  argument(index: number): string {
    const value = this.given.positionals[index];
    return typeof value === "string" ? value : "";
  }

  optionalArgument(index: number): string | undefined {
    const value = this.given.positionals[index];
    return typeof value === "string" ? value : undefined;
  }

  /** Of `<files...>`. */
  arguments(index: number): readonly string[] {
    const value = this.given.positionals[index];
    return value === undefined ? [] : typeof value === "string" ? [value] : value;
  }

  text(name: string): string | undefined {
    const value = this.given.options[name];
    return typeof value === "string" ? value : undefined;
  }

  flag(name: string): boolean {
    return this.given.options[name] === true;
  }

  list(name: string): readonly string[] {
    const value = this.given.options[name];
    return Array.isArray(value) ? value.map(String) : typeof value === "string" ? [value] : [];
  }

  /** Throws Failure unless it is a whole number within the bounds. */
  integer(name: string, { min, max }: { readonly min: number; readonly max: number }): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^-?\d+$/.test(text) && value >= min && value <= max) return value;
    throw this.wrong(`--${dashed(name)} must be a whole number from ${min} to ${max}`);
  }

  /** Milliseconds of `90`, `90s`, `15m`, `2h`, `1d` or `250ms`. Throws Failure. */
  duration(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const [, digits, unit = "s"] = /^(\d{1,9})(ms|s|m|h|d)?$/.exec(text) ?? [];
    if (digits === undefined) throw this.wrong(`--${dashed(name)} must be a time such as 30s, 15m or 2h`);
    return Number(digits) * (UNITS[unit] ?? 1_000);
  }

  /** `name=value` pairs. Throws Failure. */
  pairs(name: string): Readonly<Record<string, string>> | undefined {
    const list = this.list(name);
    if (list.length === 0) return undefined;
    return Object.fromEntries(
      list.map((text) => {
        const at = text.indexOf("=");
        if (at < 1) throw this.wrong(`--${dashed(name)} must be name=value, and "${text}" is not`);
        return [text.slice(0, at), text.slice(at + 1)];
      }),
    );
  }

  /** A wrong use, with the command's name before and the way to its help behind. */
  wrong(sentence: string): Failure {
    return new Failure(`${this.given.command}: ${sentence}: see saga ${this.given.command} --help`);
  }

  /** Throws Failure after Ctrl-C. */
  goOn(): void {
    if (this.signal.aborted) throw new Failure("interrupted", EXIT.interrupted);
  }
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

const dashed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
