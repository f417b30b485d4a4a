// A shop: a real SDK worker whose actions behave as their inputs say, with a ledger of everything that it executed. A receipt is
// derived from the idempotency key, so repeated executions of a step on any shop have one effect.
import { createHash } from "node:crypto";
import { type ActionContext, ActionError, createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { workerToken } from "../harness/access.js";
import { type Action, handleAll } from "../harness/actions.js";

export interface Entry {
  readonly action: string;
  readonly runId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly key: string;
  /** In an undo: the key of the forward step. */
  readonly forwardKey?: string;
  readonly dispatchId: string;
}

export interface Shop {
  readonly ledger: Entry[];
  /** Names of actions that refuse everything until they are repaired. They do nothing then, so the ledger has nothing of it. */
  readonly broken: Set<string>;
  /** Completes the hanging steps of the run. */
  hanging(runId: string): readonly (() => void)[];
  letAllGo(): void;
  of(runId: string, action?: string): Entry[];
  stop(): Promise<void>;
}

export const receiptFor = (key: string) => createHash("sha256").update(key).digest("hex").slice(0, 16);

const TIMING = { resendMs: 100, backoffMs: 50, backoffMaxMs: 500, abortGraceMs: 100, lookAgainMs: 1_000 };
const silent = { debug() {}, info() {}, warn() {}, error() {} };

interface Hanging {
  readonly runId: string;
  readonly letGo: () => void;
}

interface ShopOptions {
  /** Absent: the one of the tests, with access on. */
  readonly token?: string;
  /** Of several machines: all of them. */
  readonly grpc: string | readonly string[];
  readonly api: string;
  readonly service?: string;
}

export async function openShop({ grpc, api, service = "shop", token }: ShopOptions): Promise<Shop> {
  const ledger: Entry[] = [];
  const broken = new Set<string>();
  const hanging = new Set<Hanging>();
  const action = (name: string, execute: Execute, more: { autoHeartbeat?: boolean } = {}): Action => ({
    ...{ name, ...more },
    execute(input: Input, ctx) {
      if (broken.has(name)) throw new ActionError("broken", "the action is broken", { retryable: false });
      ledger.push(entryOf(name, ctx));
      return execute(input, ctx, { hanging });
    },
  });
  const worker: Worker = createWorker({
    ...(token === undefined ? workerToken() : { token }),
    ...{ service, grpc, api, log: silent, timing: TIMING, maxInFlight: 64, drainTimeoutMs: 200 },
  });
  handleAll(worker, service, [
    action("charge", receipt),
    action("refund", receipt),
    action("flaky", flaky),
    action("refuse", refuse),
    action("slow", slow),
    action("hang", hang),
    action("silent", hang, { autoHeartbeat: false }),
  ]);
  await worker.start();
  return {
    ledger,
    broken,
    hanging: (runId) => [...hanging].filter((step) => step.runId === runId).map(({ letGo }) => letGo),
    letAllGo: () => {
      for (const { letGo } of hanging) letGo();
    },
    of: (runId, name) => ledger.filter((entry) => entry.runId === runId && (!name || entry.action === name)),
    stop: () => worker.stop(),
  };
}

interface Input {
  /** What a hanging step does when it is aborted; without it, the step keeps hanging. */
  readonly on_abort?: "complete" | "give_up";
  readonly ms?: number;
}
type Receipt = { receipt: string };
interface World {
  readonly hanging: Set<Hanging>;
}
type Execute = (input: Input, ctx: ActionContext, world: World) => Receipt | Promise<Receipt>;

const receipt = (_: Input, { idempotencyKey }: ActionContext): Receipt => ({ receipt: receiptFor(idempotencyKey) });

const flaky: Execute = (input, ctx) => {
  if (ctx.attempt === 1) throw new ActionError("not_yet", "the first attempt fails");
  return receipt(input, ctx);
};

const refuse: Execute = () => {
  throw new ActionError("refused", "it is refused", { retryable: false });
};

const slow: Execute = (input, ctx) =>
  new Promise((resolve) => setTimeout(() => resolve(receipt(input, ctx)), input.ms ?? 0));

const hang: Execute = (input, ctx, world) =>
  new Promise((resolve, reject) => {
    const step = { runId: ctx.runId, letGo: () => resolve(receipt(input, ctx)) };
    world.hanging.add(step);
    ctx.signal.addEventListener("abort", () => {
      if (input.on_abort === "complete") resolve(receipt(input, ctx));
      if (input.on_abort === "give_up") reject(new ActionError("gave_up", "it did not happen", { retryable: false }));
    });
  });

function entryOf(action: string, ctx: ActionContext): Entry {
  const { runId, stepId, attempt, idempotencyKey: key, forwardIdempotencyKey: forwardKey, dispatchId } = ctx;
  return { action, runId, stepId, attempt, key, ...(forwardKey && { forwardKey }), dispatchId };
}
