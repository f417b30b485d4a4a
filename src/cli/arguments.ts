// The options of commands, read strictly: an unknown or incomplete one is a wrong use, which the command says in its own words.
import { type ParseArgsConfig, parseArgs } from "node:util";
import { Failure } from "./exit.js";

type Options = NonNullable<ParseArgsConfig["options"]>;

export interface Arguments<Name extends string> {
  /** Absent: the option was not given. */
  readonly options: Readonly<Partial<Record<Name, string>>>;
  readonly positionals: readonly string[];
}

/** Options by their long name; those with one letter, too. All have a text. Throws Failure. */
export function readArguments<Name extends string>(
  command: string,
  args: readonly string[],
  names: Readonly<Record<Name, { readonly short?: string }>>,
): Arguments<Name> {
  const options: Options = {};
  for (const [name, { short }] of Object.entries<{ readonly short?: string }>(names))
    options[name] = { type: "string", ...(short !== undefined && { short }) };
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true });
    return { options: values as Arguments<Name>["options"], positionals };
  } catch {
    // Node's sentences quote the arguments and explain the parser.
    throw new Failure(`${command} has an option that is unknown or without a value: see saga ${command} --help`);
  }
}

export type Output = "text" | "json";

export function outputIn(command: string, text: string | undefined): Output {
  if (text === undefined || text === "text") return "text";
  if (text === "json") return "json";
  throw new Failure(`${command} writes text or json: -o must be one of them`);
}

/** By commas. An empty text is an empty list. */
export const listIn = (text: string | undefined): readonly string[] | undefined =>
  text === undefined ? undefined : text === "" ? [] : text.split(",").map((item) => item.trim());
