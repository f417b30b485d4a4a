// The pause before a lost commit is tried again.

const FIRST_MS = 5;
const LONGEST_MS = 500;

/** Before replay `nth`, with jitter: long enough for a competing commit to finish, or for the store to come back. */
export function backOff(nth: number): Promise<void> {
  return new Promise((resolve) =>
    setTimeout(resolve, Math.min(FIRST_MS * 2 ** nth, LONGEST_MS) * (0.5 + Math.random() / 2)),
  );
}
