// What a command of `saga` is. The commands themselves are files of their own, listed in table.ts.
import type { ExitCode } from "./exit.js";
import type { Context } from "./frame/context.js";
import type { OptionEntry } from "./frame/option.js";

/** A command that reads its arguments itself and gives its whole output back: those that work on the database. */
export interface Command {
  /** The words after `saga`. */
  readonly name: string;
  /** What follows the name, as the help shows it: `<service>`. */
  readonly parameters: string;
  /** One line of the help. */
  readonly summary: string;
  /** The rest of its own help. */
  readonly details: string;
  /** Resolves with what goes to standard output. Throws Failure. */
  run(args: readonly string[]): Promise<string> | string;
}

/** A row of the table of commands. It is data, so that help, completion and the reference are made of it without loading the command. */
export interface CommandEntry {
  readonly name: string;
  readonly group: Group;
  /** As commander reads it: `<required>`, `[optional]`, `<several...>`. */
  readonly parameters: string;
  readonly summary: string;
  /** What more there is to know, as paragraphs. */
  readonly details?: string;
  readonly options?: readonly OptionEntry[];
  /** Whole command lines. */
  readonly examples?: readonly string[];
  /** It talks to the service, so it takes `--profile`. */
  readonly asks?: boolean;
  /** It prints something, so it takes `-o json`. */
  readonly prints?: boolean;
  /** It listens to Ctrl-C itself, because it has others to end: the signal of its context is never aborted. */
  readonly endsItself?: boolean;
  load(): Promise<Run>;
}

export type Run = (context: Context) => Promise<ExitCode | undefined>;

export const GROUPS = ["Runs", "Acts", "People", "Authoring", "Operating", "Access", "This command"] as const;
export type Group = (typeof GROUPS)[number];
