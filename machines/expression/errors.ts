// The two ways an expression fails: it does not compile, or it does not evaluate. Not for payloads: no message here ever
// carries a value of the scope, because messages reach logs and audit rows.

/** The source is no expression (or too large a one). `position` is a 0-based offset into the compiled text. */
export class ExpressionSyntaxError extends Error {
  override readonly name = "ExpressionSyntaxError";
  readonly position?: number;

  constructor(message: string, position?: number) {
    super(message);
    if (position !== undefined) this.position = position;
  }
}

/** The expression compiled, but not with this scope: a missing key, a wrong type, the step budget, no JSON result. */
export class ExpressionError extends Error {
  override readonly name = "ExpressionError";
}

const PLAIN =
  /^(found no matching overload for |type mismatch: |unsupported key type$|invalid argument of |int overflow|uint overflow)|(divide|modulus) by zero$|^(timestamp|duration) out of range$/;

/**
 * Words for an error of the CEL library. Only messages known to be made of types and operators pass as they are; a key
 * is named if the source itself names it, since a computed key may be a secret.
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
