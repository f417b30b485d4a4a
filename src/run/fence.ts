// The random token that every commit writes beside the revision of a run (law 1). It has no order and no meaning: it only tells two
// histories apart that have reached the same revision, after the database has lost commits.
import { randomFillSync } from "node:crypto";

/**
 * Eight bytes: two histories of one run agree by chance once in 1.8e19, and each update costs eight bytes in the hot row. Nothing is
 * guessed, so their secrecy does not matter; they come from the system's generator and not from Math.random() because its state is
 * copied with a snapshot of a virtual machine, and the copy would repeat the tokens of the original. One call fills many: a
 * token costs 0.1 µs.
 */
const TOKENS = new BigInt64Array(512);
let used = TOKENS.length;

/** An int8 as text. */
export function newFence(): string {
  if (used === TOKENS.length) {
    randomFillSync(TOKENS);
    used = 0;
  }
  return String(TOKENS[used++]);
}
