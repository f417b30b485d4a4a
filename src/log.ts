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
    formatters: { level: (label: string) => ({ level: label }), log: withShard },
    serializers: { err: describeError },
    redact: { paths: REDACTED_PATHS, censor: "[redacted]" },
  };
  if (destination !== undefined) return pino(options, destination);
  const output = LogOutput.to(STANDARD_OUTPUT);
  const log = pino(options, output);
  output.onRecovery = (lost) => log.warn({ lost }, "log lines lost: they could not be written");
  if (config.logLevel !== "silent") process.once("exit", () => output.flushNow());
  return log;
}

/** A line about a run says in which shard it is, which is the last byte of its id: this file is loaded where machines/ is not. */
function withShard(fields: Record<string, unknown>): Record<string, unknown> {
  const { runId } = fields;
  return typeof runId === "string" ? { ...fields, shard: Number.parseInt(runId.slice(-2), 16) } : fields;
}

/** SQLSTATEs of class 22 are about a value, and Postgres quotes it in the message; its details and contexts quote rows. */
const ABOUT_VALUES = /^22/;

/** An error as it is logged, without what it quotes of data. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name: type, message, stack, cause, code, severity, constraint_name, table_name } = error as PossiblyPostgres;
  const isQuoting = error instanceof SyntaxError || (severity !== undefined && ABOUT_VALUES.test(String(code)));
  return {
    ...{ type, code, severity, constraint_name, table_name },
    ...(isQuoting ? { stack: stack?.replace(message, "") } : { message, stack }),
    ...(error instanceof AggregateError && { errors: error.errors.map(describeError) }),
    ...(cause !== undefined && { cause: describeError(cause) }),
  };
}

/** An error of Postgres has a severity. */
type PossiblyPostgres = Error &
  Readonly<Partial<Record<"code" | "severity" | "constraint_name" | "table_name", unknown>>>;

/** Lines of this log that could not be written. */
export function lostLines(log: Logger): number {
  const { [symbols.streamSym]: output } = log as Logger & { readonly [symbols.streamSym]?: unknown };
  return output instanceof LogOutput ? output.lost : 0;
}
