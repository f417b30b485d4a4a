// Protocols: how the body of a message that arrives becomes a value of a discriminated union. The bus carries bodies and knows
// none of them; each room that uses it defines its own messages and their decoder.
import type { JsonObject } from "../../machines/index.js";

/** Reads a body from another node. Undefined: it is not a message that this release knows. Must not throw. */
export type Decode<Message> = (body: JsonObject) => Message | undefined;

/** The messages that nodes send to each other. A wire format between nodes of neighbouring releases: members may be added, never changed. */
export interface Protocol<Ask, Tell> {
  readonly ask: Decode<Ask>;
  readonly tell: Decode<Tell>;
}

/** Two rooms on one bus: a body is a message of the first that knows it. */
export function combineProtocols<AskA, TellA, AskB, TellB>(
  a: Protocol<AskA, TellA>,
  b: Protocol<AskB, TellB>,
): Protocol<AskA | AskB, TellA | TellB> {
  return { ask: (body) => a.ask(body) ?? b.ask(body), tell: (body) => a.tell(body) ?? b.tell(body) };
}
