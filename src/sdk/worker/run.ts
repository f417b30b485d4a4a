// Runs a worker as a process of its own: starts it, and drains it when the process is asked to end.
import type { Worker } from "./worker.js";

/** Resolves when the worker has stopped after SIGTERM or SIGINT; rejects if it cannot start. A second signal ends the process at once. */
export async function runWorker(worker: Worker): Promise<void> {
  let asked: () => void = () => {};
  const signalled = new Promise<void>((resolve) => {
    asked = resolve;
  });
  process.once("SIGTERM", asked);
  process.once("SIGINT", asked);
  try {
    await Promise.race([worker.start().then(() => signalled), signalled]);
  } finally {
    process.off("SIGTERM", asked);
    process.off("SIGINT", asked);
    await worker.stop();
  }
}
