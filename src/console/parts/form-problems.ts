// The problems of a refusal, by the field that each is about. It reads the paths of the API's `details`; it judges no value itself.
import { type FieldPath, fieldPathOf } from "../../../machines/values/json-path.js";
import type { Misfit } from "./form-validator.js";

/** A problem as the API has it. */
interface Problem {
  readonly path: string;
  readonly message: string;
}

/** `$.inputs.items[0]["a b"]` as its keys. */
export function keysOf(path: string): FieldPath {
  const parts = path.matchAll(/\.([^.[\]]+)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g);
  return [...parts].map(([, name, index, quoted]) =>
    index !== undefined ? Number(index) : (name ?? JSON.parse(quoted ?? '""')),
  );
}

/**
 * What is about the value at `root`, by its place within it. Where a check of the service names the place by a JSON pointer at the
 * beginning of the message, that pointer leads on. Undefined: it is about something else in the request.
 */
function misfitAt(root: FieldPath, { path, message }: Problem): Misfit | undefined {
  const keys = keysOf(path);
  if (!root.every((key, i) => keys[i] === key)) return undefined;
  const pointer = /^\/\S*(?= )/.exec(message)?.[0] ?? "";
  const within = pointer.length > 1 ? fieldPathOf(pointer) : [];
  return { place: [...keys.slice(root.length), ...within], message: message.slice(pointer.length).trim() };
}

/** Those that are about a part of the value that the request has at `at`, such as `$.inputs`. */
export function misfitsAt(at: string, problems: readonly Problem[]): Misfit[] {
  const root = keysOf(at);
  return problems.flatMap((problem) => misfitAt(root, problem) ?? []).filter(({ place }) => place.length > 0);
}
