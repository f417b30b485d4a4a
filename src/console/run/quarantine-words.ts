// What a run was quarantined on, in a sentence. Pure.
import { counted } from "../parts/plural.js";
import { durationWords } from "../story/words.js";

/** As the API answers it. */
interface Quarantine {
  readonly trials: number;
  readonly end: string;
  readonly signal?: string;
  readonly exit_code?: number;
  readonly out_of_memory?: boolean;
  readonly heap_mb: number;
  readonly ms: number;
}

/** `step`: what the next step is called. */
export function quarantineWords({ trials, ...last }: Quarantine, step: string | undefined): string {
  const what = step === undefined ? "the next step of the run" : `the step “${step}”`;
  return `The service tried ${what} ${counted(trials, "time")}, each time alone in a process, and each process died. The last one ${deathOf(last)}.`;
}

function deathOf({ end, signal, exit_code, out_of_memory, heap_mb, ms }: Omit<Quarantine, "trials">): string {
  const after = `after ${durationWords(ms)}`;
  if (out_of_memory) return `ran out of memory ${after}, with a heap of ${heap_mb} MB`;
  if (end === "hung") return `did not react any more and was killed ${after}, with a heap of ${heap_mb} MB`;
  const how = signal !== undefined ? ` with ${signal}` : exit_code !== undefined ? ` with exit code ${exit_code}` : "";
  return `ended${how} ${after}, with a heap of ${heap_mb} MB`;
}
