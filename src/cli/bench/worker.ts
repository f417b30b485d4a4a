// The worker of `saga bench`: it answers each step with its input, at once, in the process of the command.
import { within } from "../../sdk/timer.js";
import { createWorker, defineAction, type Worker } from "../../sdk/worker/index.js";
import { EXIT, Failure } from "../exit.js";
import type { Place } from "../frame/service.js";

export const WORKER_SERVICE = "saga-bench";

/** It is there, or the address is wrong. */
const CONNECT_WITHIN_MS = 15_000;
const ANY = { type: "object" } as const;

export interface BenchWorkerOptions extends Place {
  /** `host:port` of the service's gRPC. */
  readonly grpc: string;
  readonly maxInFlight: number;
  readonly signal: AbortSignal;
  onTrouble(message: string): void;
}

/** Throws Failure if no service answers there. */
export async function startBenchWorker(options: BenchWorkerOptions): Promise<Pick<Worker, "stop">> {
  const { url, token, grpc, maxInFlight, signal, onTrouble } = options;
  const trouble = (_fields: unknown, message: string) => onTrouble(message);
  const worker = createWorker({
    ...{ service: WORKER_SERVICE, api: url, grpc, maxInFlight, drainTimeoutMs: 5_000 },
    ...(token !== undefined && { token }),
    ...(url.startsWith("https:") && { tls: {} }),
    log: { debug: () => {}, info: () => {}, warn: trouble, error: trouble },
  });
  worker.handle(defineAction({ service: WORKER_SERVICE, name: "echo", input: ANY, output: ANY }), (input) => input);
  const enough = within(signal, CONNECT_WITHIN_MS);
  const stop = () => void worker.stop();
  enough.addEventListener("abort", stop, { once: true });
  try {
    await worker.start();
  } catch (error) {
    await worker.stop();
    throw new Failure(`no worker can connect to ${grpc}: ${(error as Error).message}`, EXIT.unreachable);
  } finally {
    enough.removeEventListener("abort", stop);
  }
  return worker;
}
