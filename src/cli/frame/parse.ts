// Arguments of one command, read by commander: strictly, and with its suggestions as sentences of ours. Which command it is has been decided before.
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import type { CommandEntry } from "../command.js";
import { Failure } from "../exit.js";
import type { Given } from "./context.js";
import { optionsOf } from "./help.js";
import type { OptionEntry } from "./option.js";

/** Throws Failure. */
export function parseArguments(entry: CommandEntry, args: readonly string[]): Given {
  const command = new Command(entry.name)
    .exitOverride()
    .helpOption(false)
    .configureOutput({ writeOut: () => {}, writeErr: () => {}, outputError: () => {} });
  for (const option of optionsOf(entry)) command.addOption(optionIn(option));
  if (entry.parameters !== "") command.arguments(argumentsIn(entry.parameters));
  try {
    command.parse([...args], { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError) throw new Failure(`${entry.name}: ${sentenceOf(entry, error)}`);
    throw error;
  }
  return { command: entry.name, positionals: command.processedArgs, options: command.opts() };
}

function optionIn({ flags, says, choices, many = false }: OptionEntry): Option {
  const option = new Option(flags, says);
  if (choices && !many) option.choices(choices);
  if (many)
    option.argParser((value: string, before: readonly string[] | undefined) => {
      // A parser of arguments takes the place of commander's check.
      for (const each of choices ? value.split(",") : [])
        if (!choices?.includes(each)) throw new InvalidArgumentError(`Allowed choices are ${choices?.join(", ")}.`);
      return [...(before ?? []), value];
    });
  return option;
}

/** `<id>` as the table has it; what a parameter may be (`<a|b>`) is for people. */
const argumentsIn = (parameters: string) =>
  parameters
    .split(" ")
    .filter((word) => /^[<[]/.test(word))
    .join(" ");

/** Commander writes "error: unknown option '--x'\n(Did you mean --y?)". */
function sentenceOf({ name }: CommandEntry, { message }: CommanderError): string {
  const text = message.replace(/^error: /, "").replace(/\s*\n\s*/g, " ");
  return `${text.replace(/\.$/, "")}: see saga ${name} --help`;
}
