// A signal as a contract: its name and what its payload is. A definition waits for it, a client sends it; neither needs the other.
import type { Static, TSchema } from "typebox";

export interface SignalContract<Name extends string = string, Payload extends TSchema = TSchema> {
  readonly name: Name;
  /** A TypeBox schema or plain JSON Schema of an object. */
  readonly payload: Payload;
  /** Never there at run time: it carries the type to those that do not know TypeBox. */
  readonly "~types"?: { readonly payload: Static<Payload> };
}

const NAME = /^[A-Za-z0-9_.:-]{1,128}$/;

/** Throws TypeError if the name does not match [A-Za-z0-9_.:-]{1,128}, or the schema is missing. */
export function defineSignal<const Name extends string, const Payload extends TSchema>(
  name: Name,
  payload: Payload,
): SignalContract<Name, Payload> {
  if (!NAME.test(name)) throw new TypeError(`signal name ${JSON.stringify(name)} must match ${NAME}`);
  if (typeof payload !== "object" || payload === null) throw new TypeError(`signal ${name} needs a JSON Schema`);
  return Object.freeze({ name, payload });
}
