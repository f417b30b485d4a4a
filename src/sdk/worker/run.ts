// Runs a worker as a process of its own: starts it, and drains it on SIGTERM or SIGINT.
import type { Worker } from "./worker.js";

/**
 * Starts the worker and resolves when it has stopped after SIGTERM or SIGINT. Rejects with an Error if the worker
 * cannot start. A second signal ends the process at once.
 */
export async function runWorker(worker: Pick<Worker, "start" | "stop">): Promise<void> {
  let onSignal: () => void = () => {};
  const signalled = new Promise<void>((resolve) => {
    onSignal = resolve;
  });
  process.once("SIGTERM", onSignal);
  process.once("SIGINT", onSignal);
  try {
    await Promise.race([worker.start().then(() => signalled), signalled]);
  } finally {
    process.off("SIGTERM", onSignal);
    process.off("SIGINT", onSignal);
    await worker.stop();
  }
}
