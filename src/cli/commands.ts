// The commands of `saga`: which one the arguments mean, and how it ends. What a command does is its own file's business.
import { ConfigError, readCommandSettings } from "../config/index.js";
import { adoptAll } from "./adopt.js";
import type { Command, CommandEntry, Group } from "./command.js";
import { EXIT, type ExitCode, Failure } from "./exit.js";
import type { Completable } from "./frame/context.js";
import { help, helpOf, lineOf, OUTPUT, optionsOf } from "./frame/help.js";
import { type Streams, Terminal } from "./frame/terminal.js";
import { createKey, listKeys, revokeKey } from "./keys.js";
import { signingSecret } from "./signing-secret.js";
import { TABLE } from "./table.js";

/** They work on the database or the settings of the service, and read their arguments themselves. */
const OF_THE_SERVICE: readonly (Command & { readonly group: Group })[] = [
  createKey,
  listKeys,
  revokeKey,
  signingSecret,
  adoptAll,
].map((command) => ({ ...command, group: "Access" }));

type Known = CommandEntry | (typeof OF_THE_SERVICE)[number];

/** In the order of the help. */
export const COMMANDS: readonly Known[] = [...TABLE, ...OF_THE_SERVICE];

/** Any other error than a failure is thrown: it is a fault of the command. */
export async function execute(given: readonly string[], streams: Streams = process): Promise<ExitCode> {
  const { settings } = readCommandSettings();
  const terminal = new Terminal(settings, streams);
  try {
    return await ended(withOptionsLast(given), terminal);
  } catch (error) {
    const { sentence, code } = failureIn(error);
    if (code !== EXIT.interrupted || sentence !== "interrupted") terminal.note(`saga: ${sentence}`);
    return code;
  }
}

async function ended(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const command = commandOf(args);
  const bold = (text: string) => terminal.paint("bold", text);
  if (asksForHelp(args) || args[0] === "help") {
    const about = args[0] === "help" ? commandOf(args.slice(1)) : command;
    terminal.print(about ? helpOfAny(about, bold) : help(COMMANDS, bold));
    return EXIT.succeeded;
  }
  if (args[0] === "--version" || args[0] === "-V") {
    const { packageVersion } = await import("../config/package.js");
    terminal.print(packageVersion());
    return EXIT.succeeded;
  }
  if (!command) throw await unknown(args);
  const rest = args.slice(command.name.split(" ").length);
  if ("load" in command) return runEntry(command, rest, terminal);
  terminal.print(`${await command.run(rest)}\n`);
  return EXIT.succeeded;
}

async function runEntry(entry: CommandEntry, args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [{ parseArguments }, { Context }] = await Promise.all([
    import("./frame/parse.js"),
    import("./frame/context.js"),
  ]);
  const given = parseArguments(entry, args);
  const interruption = new AbortController();
  // The first Ctrl-C lets the command tidy up; the second one does not wait for it.
  const interrupt = () => (interruption.signal.aborted ? process.exit(EXIT.interrupted) : interruption.abort());
  if (!entry.endsItself) process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    const connect = async (profile: string | undefined) => {
      const { placeOf, Service } = await import("./frame/service.js");
      const service = new Service(await placeOf(profile), interruption.signal);
      if (service.exposes) terminal.note(`saga: the token goes to ${service.place.url} in clear text: use https`);
      return service;
    };
    const run = await entry.load();
    const code = await run(new Context(given, terminal, connect, interruption.signal, completable()));
    return code ?? EXIT.succeeded;
  } catch (error) {
    // Whatever an interrupted command stumbles over, the interruption is the reason.
    if (interruption.signal.aborted) throw new Failure("interrupted", EXIT.interrupted);
    throw error;
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
  }
}

/** `saga --profile test list` is `saga list --profile test`. */
function withOptionsLast(args: readonly string[]): readonly string[] {
  const [first = "", second] = args;
  if (/^(-o|--output|--profile)$/.test(first) && second !== undefined)
    return [...withOptionsLast(args.slice(2)), first, second];
  if (/^--(output|profile)=/.test(first)) return [...withOptionsLast(args.slice(1)), first];
  return args;
}

/** What stands behind `--` is no option. */
function asksForHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return args.slice(0, end < 0 ? args.length : end).some((arg) => arg === "--help" || arg === "-h");
}

/** The one with the most words. */
function commandOf(args: readonly string[]): Known | undefined {
  const matches = COMMANDS.filter(({ name }) => name === args.slice(0, name.split(" ").length).join(" "));
  return matches.sort((left, right) => right.name.length - left.name.length)[0];
}

async function unknown(args: readonly string[]): Promise<Failure> {
  const [first] = args;
  if (first === undefined) return new Failure("a command is missing: see saga --help");
  const below = COMMANDS.filter(({ name }) => name.startsWith(`${first} `));
  if (below.length > 0)
    return new Failure(`${first} needs one of ${below.map(({ name }) => name.slice(first.length + 1)).join(", ")}`);
  const { Suggestions } = await import("../../machines/attribute/suggestion.js");
  const hint = new Suggestions().for(
    first,
    COMMANDS.map(({ name }) => name.split(" ")[0] ?? ""),
  );
  return new Failure(`there is no command "${first}"${hint}: see saga --help`);
}

function helpOfAny(command: Known, bold: (text: string) => string): string {
  if ("load" in command) return helpOf(command, bold);
  return [`Usage: saga ${lineOf(command)}`, "", `${command.summary}.`, command.details].join("\n");
}

function failureIn(error: unknown): { readonly sentence: string; readonly code: ExitCode } {
  if (error instanceof ConfigError) return { sentence: error.problems.join("; "), code: EXIT.usage };
  if (error instanceof Failure) return { sentence: error.message, code: error.code };
  throw error;
}

/** What completion offers. The options of a command that reads its arguments itself are in its details. */
function completable(): readonly Completable[] {
  return COMMANDS.map((command) => {
    if ("load" in command) return { ...pick(command), options: optionsOf(command) };
    const written = [...command.details.matchAll(/^ {2}(-o json|--[a-z-]+ <[^>]+>)\s+(.*)$/gm)];
    const options = written.map(([, flags = "", says = ""]) => (flags === "-o json" ? OUTPUT : { flags, says }));
    return { ...pick(command), options };
  });
}

const pick = ({ name, summary }: Known) => ({ name, summary });
