// `fromDocument`: a workflow document as a value, as one from the service or a file has to be. It keeps every member as it is and checks the form
// alone; what the members mean is checked by the service.
import type { Saga, SagaDocument } from "./definition.js";
import { WrittenSaga } from "./saga.js";
import { type Json, plainOf } from "./value.js";

/**
 * Reads a document: `fromDocument<Input, Output>(JSON.parse(text))`. The value serialises to the same JSON, in the same order. Throws TypeError,
 * with the path, if it is no workflow document: no id, name, start or steps, a step without an id or a type, or what JSON cannot say.
 */
export function fromDocument<Input = unknown, Output = unknown>(json: unknown): Saga<Input, Output> {
  const document = plainOf(json, "$") as { readonly [member: string]: Json };
  if (typeof document !== "object" || document === null || Array.isArray(document))
    throw new TypeError("$ must be an object: a workflow document");
  for (const member of ["id", "name", "start"]) needText(document[member], `$.${member}`);
  if (!Array.isArray(document.steps)) throw new TypeError("$.steps must be a list of steps");
  for (const [index, step] of (document.steps as readonly Json[]).entries()) {
    const path = `$.steps[${index}]`;
    if (typeof step !== "object" || step === null || Array.isArray(step))
      throw new TypeError(`${path} must be an object`);
    for (const member of ["id", "type"]) needText((step as Record<string, Json>)[member], `${path}.${member}`);
  }
  return new WrittenSaga(document as unknown as SagaDocument) as unknown as Saga<Input, Output>;
}

function needText(value: Json | undefined, path: string): void {
  if (typeof value !== "string") throw new TypeError(`${path} must be a string`);
}
