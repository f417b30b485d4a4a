// The program of the trial process. It reports when each trial begins and ends, so that its node knows which one it did not survive.
// It is killed without notice, and it ends when its node is gone.

import { Worker } from "node:worker_threads";
import type { Suspect } from "../run/judge.js";
import type { FromTrial, ToTrial } from "./messages.js";
import { TrialRoom } from "./trial.js";

/** The node takes a process without a pulse for hung. */
const PULSE_MS = 100;

const send = (message: FromTrial) => process.send?.(message, undefined, undefined, () => {});
const heap = () => process.memoryUsage().heapUsed;

let room: TrialRoom | undefined;

async function receive(message: ToTrial): Promise<void> {
  if (message.type === "try") return tryAll(message.suspects);
  room = new TrialRoom(message.settings);
  await room.open();
  send({ type: "ready" });
}

/** One after the other: if the process ends, the one that had begun is the likely cause. */
async function tryAll(suspects: readonly Suspect[]): Promise<void> {
  // Without the store there is nothing to try, and that is no run's doing.
  const ready = await room?.refresh().then(
    () => room,
    () => undefined,
  );
  for (const [nth, suspect] of suspects.entries()) {
    send({ type: "began", nth, heap: heap() });
    const outcome = await ready?.try(suspect);
    send({ type: "ended", nth, outcome: outcome ?? "undecided" });
  }
}

/**
 * A decision that never ends holds the event loop, so that the end of the node would go unnoticed: a thread watches for it. The node gives
 * its process id, because it may end while this process starts: then no `disconnect` is heard, and the parent is another one already.
 */
function endWithNode(): void {
  const node = Number(process.argv[2]);
  if (process.ppid !== node) process.exit(0);
  process.once("disconnect", () => process.exit(0));
  const watch = `const { workerData: node } = require("node:worker_threads");
    setInterval(() => process.ppid === node || process.kill(process.pid, "SIGKILL"), 500);`;
  new Worker(watch, { eval: true, execArgv: [], env: {}, workerData: node }).unref();
}

endWithNode();
// A terminal sends its signals to all processes at once, and the end of this one must not look like a run's doing.
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
setInterval(() => send({ type: "pulse", heap: heap() }), PULSE_MS);
process.on("message", (message) => void receive(message as ToTrial));
