// A bound on how long a door waits for the store: a statement that hangs holds up what asked for it, and nothing that comes later.
import { clearTimeout, setTimeout } from "../ambient.js";
import { overloaded } from "../errors.js";

/** Rejects with 503 when it takes longer. */
export async function inTime<T>(ms: number, answer: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(overloaded(what)), ms);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}
