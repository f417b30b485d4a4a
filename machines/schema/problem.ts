// The problems of a value as text: each begins with the JSON pointer of its place, which is `/` for the value itself. A space in a name is
// escaped, so that the pointer ends at the first one.
import { pathOfPointer } from "../values/json-path.js";
import type { Violation } from "./check.js";

export const problemOf = ({ pointer, message }: Violation): string =>
  `${pointer.replaceAll("%", "%25").replaceAll(" ", "%20") || "/"} ${message}`;

/** The JSON path of a problem and what it says, in a request that has the value at `at`. */
export function detailOf(problem: string, at: string): { readonly path: string; readonly message: string } {
  const [pointer = ""] = problem.split(" ", 1);
  const plain = pointer.replaceAll("%20", " ").replaceAll("%25", "%");
  return { path: pathOfPointer(plain === "/" ? "" : plain, at), message: problem.slice(pointer.length + 1) };
}
