// What a command of `saga` is, and how it fails. The commands themselves are files of their own, listed in commands.ts.

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

/** The command was called wrongly, or its settings are wrong: it says so in one sentence and exits with 2. */
export class Failure extends Error {
  override readonly name = "Failure";
}
