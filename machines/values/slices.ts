// Work in slices: a generator that yields wherever its caller may do something else first. The machine reads no clock, so it yields often, and
// the caller decides how many slices it takes at a time.

export type Slices<T> = Generator<void, T>;

/** All slices at once. */
export function inOnePiece<T>(slices: Slices<T>): T {
  for (;;) {
    const slice = slices.next();
    if (slice.done) return slice.value;
  }
}

/** A result that is there, or is worked out. */
export function* inSlices<T extends readonly unknown[]>(result: T | Slices<T>): Slices<T> {
  return "next" in result ? yield* result : result;
}
