// How long a piece of work computes. A busy machine inflates wall time, and V8's helper threads inflate processor time: the lesser of the
// two counts.

/** Calls `done` with the milliseconds, also if `work` throws. */
export function computing<T>(work: () => T, done: (ms: number) => void): T {
  const before = process.cpuUsage();
  const began = performance.now();
  try {
    return work();
  } finally {
    const { user, system } = process.cpuUsage(before);
    done(Math.min((user + system) / 1000, performance.now() - began));
  }
}
