// The worker's log: any logger of pino's shape, or JSON lines on stderr.

type Line = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** A pino logger fits. */
export interface Log {
  debug: Line;
  info: Line;
  warn: Line;
  error: Line;
}

/** JSON lines on stderr, without debug lines. */
export function stderrLog(): Log {
  const line =
    (level: string): Line =>
    (fields, message) => {
      const { err, ...rest } = fields;
      const error = err instanceof Error ? { error: err.message } : {};
      process.stderr.write(
        `${JSON.stringify({ time: new Date().toISOString(), level, message, ...error, ...rest })}\n`,
      );
    };
  return { debug: () => {}, info: line("info"), warn: line("warn"), error: line("error") };
}

/** The same log with these fields in every line. */
export function withFields(log: Log, fields: Readonly<Record<string, unknown>>): Log {
  return {
    debug: (more, message) => log.debug({ ...fields, ...more }, message),
    info: (more, message) => log.info({ ...fields, ...more }, message),
    warn: (more, message) => log.warn({ ...fields, ...more }, message),
    error: (more, message) => log.error({ ...fields, ...more }, message),
  };
}

/** Why a request got no answer. Where a name has several addresses, the error of them all has a code and no message. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.message || String((error as { code?: unknown }).code);
}
