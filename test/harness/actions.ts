// Actions of tests that are about something else than contracts: a name and code, objects in and out. The contract and the code are attached to
// a worker together, as its users do apart.
import { type ActionOptions, defineAction, type RetryOptions } from "../../src/sdk/contract/index.js";
import type { ActionContext, HandleOptions, Handles } from "../../src/sdk/worker/index.js";

export interface Action extends Partial<Omit<ActionOptions, "service" | "retry">>, HandleOptions {
  readonly name: string;
  readonly retry?: RetryOptions;
  /** A method: a test knows more of its inputs than the type says. */
  execute(input: object, ctx: ActionContext): unknown;
}

const ANY = { type: "object" };

/** The worker, which handles the actions. They are of the service that the worker is of. */
export function handleAll<Worker extends Handles>(worker: Worker, service: string, actions: readonly Action[]): Worker {
  for (const { execute, autoHeartbeat = true, ...contract } of actions) {
    const action = defineAction({ input: ANY, output: ANY, ...contract, service });
    worker.handle(action, (input, ctx) => execute(input as object, ctx) as object, { autoHeartbeat });
  }
  return worker;
}
