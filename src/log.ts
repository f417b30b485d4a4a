// The log: JSON lines, written by one logger that is made from the configuration and passed by hand. It is not the audit log of
// runs. Payloads and secrets do not belong in it.
import { type DestinationStream, type Logger, pino, stdTimeFunctions, symbols } from "pino";
import { LogOutput } from "./log-output.js";

export type { Logger };

/** What a room needs of the logger. */
export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

/** A second line of defence: these must not be logged, and are redacted if they are, also one level down. */
const SECRET_MEMBERS = ["authorization", "Authorization", "token", "access_token", "password", "secret", "cookie"];
const REDACTED_PATHS = [...SECRET_MEMBERS, ...SECRET_MEMBERS.flatMap((name) => [`*.${name}`, `*.headers.${name}`])];

const STANDARD_OUTPUT = 1;

/** Writes to standard output; `destination` is for tests. */
export function createLogger(config: { readonly logLevel: string }, destination?: DestinationStream): Logger {
  const options = {
    level: config.logLevel,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED_PATHS, censor: "[redacted]" },
  };
  if (destination !== undefined) return pino(options, destination);
  const output = new LogOutput(STANDARD_OUTPUT);
  const log = pino(options, output);
  output.onRecovery = (lost) => log.warn({ lost }, "log lines lost: they could not be written");
  if (config.logLevel !== "silent") process.once("exit", () => output.flushNow());
  return log;
}

/** Lines of this log that could not be written. */
export function lostLines(log: Logger): number {
  const { [symbols.streamSym]: output } = log as Logger & { readonly [symbols.streamSym]?: unknown };
  return output instanceof LogOutput ? output.lost : 0;
}
