// The log: JSON lines, one logger made from the configuration and passed by hand (rooms take a child with their name). It is
// not the audit log of runs; payloads and secrets do not belong in it.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from "pino";

export type { Logger };

/** In depth: nobody should log these, and if somebody does they are not shown. One level below the line's own members too. */
const SECRET_MEMBERS = ["authorization", "Authorization", "token", "access_token", "password", "secret", "cookie"];
const REDACTED_PATHS = [...SECRET_MEMBERS, ...SECRET_MEMBERS.flatMap((name) => [`*.${name}`, `*.headers.${name}`])];

/** `destination` is for tests; standard output otherwise. */
export function createLogger(config: { readonly logLevel: string }, destination?: DestinationStream): Logger {
  const options = {
    level: config.logLevel,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: REDACTED_PATHS, censor: "[redacted]" },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}
