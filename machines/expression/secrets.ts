// Secret values in expressions. An expression that reads one has a secret result; one that only copies an object or a list around it copies the mark
// inside. Encrypted values are copied and never read.

import type { Json, JsonObject } from "../values/json.js";
import { ENCRYPTED, isEncrypted, isSecret, SECRET, secret } from "../values/secret.js";
import { ExpressionError } from "./errors.js";

/** An encrypted value in an expression. It has no type of CEL, so every function refuses it. */
export class Encrypted {
  constructor(readonly source: JsonObject) {}
}

/** Of the evaluation under way: evaluations are synchronous. */
let hasRead = false;
let hasEncrypted = false;

/** The value behind a mark, or the encrypted value; undefined for any other object. Called for each object that an expression reads. */
export function marked(value: JsonObject): Encrypted | { readonly inner: Json } | undefined {
  if (value[SECRET] !== undefined && isSecret(value)) {
    hasRead = true;
    return { inner: value[SECRET] };
  }
  if (value[ENCRYPTED] === undefined || !isEncrypted(value)) return undefined;
  hasEncrypted = true;
  return new Encrypted(value);
}

/** Errors of evaluations that had read a secret value: whether one fails may depend on that. */
const failures = new WeakSet<object>();

/** The result, which is secret if the evaluation has read a secret value. */
export function tainted(evaluate: () => Json): Json {
  hasRead = false;
  hasEncrypted = false;
  try {
    const result = evaluate();
    return hasRead ? secret(result) : result;
  } catch (error) {
    if (hasRead && error instanceof ExpressionError) failures.add(error);
    throw error;
  }
}

export const failedOnSecret = (error: ExpressionError): boolean => failures.has(error);

/** Whether the evaluation under way has read a secret value. */
export const readsSecret = (): boolean => hasRead;

/** Before an evaluation whose result is not kept. */
export function forgetReads(): void {
  hasRead = false;
  hasEncrypted = false;
}

/** Throws if one of the values is encrypted. */
export function refuseEncrypted(values: readonly unknown[]): void {
  if (hasEncrypted && values.some((value) => value instanceof Encrypted)) throw encryptedRead();
}

export function encryptedRead(): ExpressionError {
  return new ExpressionError(`a value is encrypted (${ENCRYPTED}): an expression may copy it, and cannot read it`);
}
