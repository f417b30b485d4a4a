// The two errors of expressions: a source that does not compile, and an evaluation that fails. Messages reach logs and audit
// rows, so they never contain a value of the scope.

/** The source is not a valid expression, or is too large. `position` is a 0-based offset into the compiled text. */
export class ExpressionSyntaxError extends Error {
  override readonly name = "ExpressionSyntaxError";
  readonly position?: number;

  constructor(message: string, position?: number) {
    super(message);
    if (position !== undefined) this.position = position;
  }
}

/** The evaluation failed: a missing key, a wrong type, an exhausted step budget, or a result that is not JSON. */
export class ExpressionError extends Error {
  override readonly name = "ExpressionError";

  /** `located`: the message says which expression failed. */
  constructor(
    message: string,
    readonly located = false,
  ) {
    super(message);
  }
}

const MAX_EXCERPT = 120;

/** The error with its expression, and the place of that in its document: `missing key "nights": inputs.nights in steps[3].inputs.nights`. */
export function locate(error: ExpressionError, source: string, place: string): ExpressionError {
  if (error.located) return error;
  const excerpt = source.length <= MAX_EXCERPT ? source : `${[...source].slice(0, MAX_EXCERPT).join("")}…`;
  return new ExpressionError(`${error.message}: ${excerpt} in ${place}`, true);
}

const PLAIN =
  /^(found no matching overload for |type mismatch: |unsupported key type$|invalid argument of |int overflow|uint overflow|unknown name )|(divide|modulus) by zero$|^(timestamp|duration) out of range$|^[a-zA-Z0-9.]+\(\): /;

/**
 * The message for an error of the CEL library. Only messages that consist of types and operators pass unchanged. A key is named
 * only if the source itself names it, since a computed key may be a secret.
 */
export function explain(message: string, source: string): string {
  if (PLAIN.test(message)) return message;
  if (message.startsWith("field not found: ")) {
    const key = message.slice("field not found: ".length);
    return key !== "" && source.includes(key) ? `missing key "${key}"` : "missing key";
  }
  if (message.startsWith("index ")) return "index out of bounds";
  if (message.startsWith("map key conflict")) return "duplicate map key";
  return "evaluation failed";
}

export function isPlain(message: string): boolean {
  return PLAIN.test(message);
}
