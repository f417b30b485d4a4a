// Whether a file that holds secrets is open to others on its machine.
import { statSync } from "node:fs";

/** Bits of a file's mode: others may read or write it. */
const OTHERS = 0o006;

/** Windows has no such bits. Throws if there is no such file. */
export function isOpenToOthers(file: string): boolean {
  return process.platform !== "win32" && (statSync(file).mode & OTHERS) !== 0;
}
