// A worker of the SDK with the actions of the conformance, as a process of its own. It is what `saga conformance` calls a worker under test.
import { setTimeout as delay } from "node:timers/promises";
import { Type } from "typebox";
import { ActionError, createWorker, defineAction, runWorker } from "../../src/sdk/worker/index.js";

interface Failing {
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly outcome_unknown: boolean;
}

const begun = new Map<string, number>();
const any = { service: "conformance", input: Type.Any(), output: Type.Any() };

const { SAGA_GRPC: grpc = "", SAGA_API: api = "", SAGA_TOKEN: token } = process.env;
const worker = createWorker({ service: "conformance", grpc, api, token })
  .handle(defineAction({ name: "echo", ...any, compensable: true }), (inputs: object) => inputs)
  .handle(defineAction({ name: "undo_echo", ...any }), (_inputs, { phase, forwardIdempotencyKey = "" }) => ({
    phase: phase.toUpperCase(),
    undone: forwardIdempotencyKey,
  }))
  .handle(defineAction({ name: "fail", ...any }), ({ code, message, retryable, outcome_unknown }: Failing) => {
    throw new ActionError(code, message, { retryable, outcomeUnknown: outcome_unknown });
  })
  .handle(defineAction({ name: "slow", ...any }), async ({ ms }: { ms: number }, { idempotencyKey, signal }) => {
    const executions = (begun.get(idempotencyKey) ?? 0) + 1;
    begun.set(idempotencyKey, executions);
    await delay(ms, undefined, { signal }).catch(() => {
      throw new ActionError("stopped", "a cancel or the deadline stopped it");
    });
    return { executions };
  });
await runWorker(worker);
