// The meaning of an error of the store: either the store is unavailable for now and the outcome is unknown, or it answered, and the
// request is at fault. Only the listed errors are worth a retry.

/** The SQLSTATE of an error of Postgres. No class of Postgres begins with E, unlike the codes of the system: EPIPE. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  return code !== undefined && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code) ? code : undefined;
}

/** The server takes no writes: a standby, or a primary that was demoted. */
export const READ_ONLY = "25006";

/**
 * A lost connection, a server that starts or stops or takes no writes, a database without a free session, a cancelled statement, the
 * victim of a deadlock, a session that an internal error of the server has ended.
 */
export function isStoreAway(error: unknown): boolean {
  const state = sqlStateOf(error);
  if (state !== undefined) return /^(08|25006|40|53|55000|55P03|57)/.test(state) || hasEndedSession(error, state);
  const code = codeOf(error);
  return code !== undefined && /^(E[A-Z_]+$|CONNECT)/.test(code);
}

/** A server that starts again on a full disk opens no session: "could not write init file". What such a session was to do has no known outcome. */
function hasEndedSession(error: unknown, state: string): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return state.startsWith("XX") && (severity === "FATAL" || severity === "PANIC");
}

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : undefined;
}
