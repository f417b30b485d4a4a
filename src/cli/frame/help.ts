// The help of `saga` and of each command, made of the table. It neither parses nor prints.
import { type CommandEntry, GROUPS } from "../command.js";
import { EXIT } from "../exit.js";
import type { OptionEntry } from "./option.js";

export const OUTPUT: OptionEntry = {
  flags: "-o, --output <format>",
  says: "text, or json for programs",
  choices: ["text", "json"],
};
export const PROFILE: OptionEntry = { flags: "--profile <name>", says: "the service of this profile" };

/** Its own options, and those that its kind has. */
export const optionsOf = (entry: CommandEntry): readonly OptionEntry[] => [
  ...(entry.options ?? []),
  ...(entry.prints ? [OUTPUT] : []),
  ...(entry.asks ? [PROFILE] : []),
];

export const lineOf = ({ name, parameters }: { readonly name: string; readonly parameters: string }) =>
  `${name} ${parameters}`.trim();

const WIDEST = 34;

function rows(pairs: readonly (readonly [left: string, right: string])[]): string[] {
  const width = Math.min(WIDEST, Math.max(...pairs.map(([left]) => left.length)));
  return pairs.flatMap(([left, right]) =>
    left.length > width ? [`  ${left}`, `  ${" ".repeat(width)}  ${right}`] : [`  ${left.padEnd(width)}  ${right}`],
  );
}

type Listed = Pick<CommandEntry, "name" | "parameters" | "summary" | "group">;

export function help(commands: readonly Listed[], paint: (text: string) => string): string {
  const width = Math.min(WIDEST, Math.max(...commands.map((command) => lineOf(command).length)));
  const groups = GROUPS.flatMap((group) => {
    const own = commands.filter((command) => command.group === group);
    if (own.length === 0) return [];
    const lines = own.flatMap((command) => {
      const left = lineOf(command);
      if (left.length <= width) return [`  ${left.padEnd(width)}  ${command.summary}`];
      return [`  ${left}`, `  ${" ".repeat(width)}  ${command.summary}`];
    });
    return ["", paint(`${group}:`), ...lines];
  });
  return [
    "Usage: saga <command>",
    ...groups,
    "",
    "saga <command> --help says more about one. The service is that of SAGA_URL and SAGA_TOKEN, or of a profile.",
    `Exit codes: ${EXITS}.`,
  ].join("\n");
}

export const EXITS = `${EXIT.succeeded} succeeded, ${EXIT.failed} failed, ${EXIT.usage} wrong use, ${EXIT.cancelled} cancelled, ${EXIT.late} not ended in time, ${EXIT.refused} refused, ${EXIT.unreachable} unreachable, ${EXIT.interrupted} interrupted`;

export function helpOf(entry: CommandEntry, paint: (text: string) => string): string {
  const options = optionsOf(entry).map(({ flags, says, choices }) => {
    const among = choices && !says.includes(choices[0] ?? "") ? ` (${choices.join(", ")})` : "";
    return [flags, says + among] as const;
  });
  return [
    `Usage: saga ${lineOf(entry)}`,
    "",
    `${entry.summary}.`,
    ...(entry.details ? ["", entry.details] : []),
    ...(options.length > 0 ? ["", paint("Options:"), ...rows(options)] : []),
    ...(entry.examples ? ["", paint("Examples:"), ...entry.examples.map((line) => `  ${line}`)] : []),
  ].join("\n");
}
