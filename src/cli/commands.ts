// The commands of `saga`, and which of them the arguments mean. What a command does is its own file's business.
import { ConfigError } from "../config/index.js";
import { adoptAll } from "./adopt.js";
import { type Command, Failure } from "./command.js";
import { createKey, listKeys, revokeKey } from "./keys.js";
import { signingSecret } from "./signing-secret.js";

/** In the order of the help. */
export const COMMANDS: readonly Command[] = [createKey, listKeys, revokeKey, signingSecret, adoptAll];

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Settings or arguments are wrong. */
const WRONG_USE = 2;

/** Any other error than a wrong use is thrown: it is a fault of the command. */
export async function execute(args: readonly string[]): Promise<Outcome> {
  try {
    return { code: 0, stdout: `${await outputOf(args)}\n`, stderr: "" };
  } catch (error) {
    return { code: WRONG_USE, stdout: "", stderr: `saga: ${sentenceOf(error)}\n` };
  }
}

async function outputOf(args: readonly string[]): Promise<string> {
  const command = COMMANDS.find(({ name }) => name === args.slice(0, name.split(" ").length).join(" "));
  if (args.some((arg) => arg === "--help" || arg === "-h")) return command ? helpOf(command) : help();
  if (command) return command.run(args.slice(command.name.split(" ").length));
  const [first] = args;
  throw new Failure(
    `${first === undefined ? "a command is missing" : `there is no command "${first}"`}: see saga --help`,
  );
}

function sentenceOf(error: unknown): string {
  if (error instanceof ConfigError) return error.problems.join("; ");
  if (error instanceof Failure) return error.message;
  throw error;
}

const lineOf = ({ name, parameters }: Command) => `${name} ${parameters}`.trim();

function help(): string {
  const width = Math.max(...COMMANDS.map((command) => lineOf(command).length));
  const lines = COMMANDS.map((command) => `  ${lineOf(command).padEnd(width)}  ${command.summary}`);
  return ["Usage: saga <command>", "", "Commands:", ...lines, "", "saga <command> --help says more about one."].join(
    "\n",
  );
}

function helpOf(command: Command): string {
  return [`Usage: saga ${lineOf(command)}`, "", `${command.summary}.`, command.details].join("\n");
}
