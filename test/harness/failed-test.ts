// What is to be printed when a test fails, beside its error: what the processes that its file has started say of themselves. A test that passes prints nothing.
import { atFileEnd } from "./file-end.js";

/** What is new since the last call. */
type Tell = () => readonly string[];

const tellers = new Set<Tell>();

/** Calls `tell` after each failure of a test, until the end of the test file. */
export function atFailure(tell: Tell): void {
  tellers.add(tell);
  atFileEnd(async () => void tellers.delete(tell));
}

/** `setup.ts` calls it after each failed try of a test. */
export function tellOfFailure(test: string): void {
  const lines = [...tellers].flatMap((tell) => tell());
  if (lines.length > 0) console.error([`beside the failure of "${test}":`, ...lines].join("\n"));
}
