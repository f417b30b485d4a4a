// What an error of the store means: whether it is away for now, and nothing can be said of what was asked; or whether it
// answered, and what was asked is at fault. Only the listed ones are worth another try.

/** The five characters that Postgres gives every error, if the error is Postgres's own. No class begins with E: EPIPE is the system's. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  return code !== undefined && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code) ? code : undefined;
}

/** Lost connections, a server that starts or stops, a database that takes no sessions or has none free, a statement cut off, a deadlock's victim. */
export function isStoreAway(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== undefined) return /^(08|40|53|55000|55P03|57)/.test(state);
  const code = codeOf(error);
  return code !== undefined && /^(E[A-Z_]+$|CONNECT)/.test(code);
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}
