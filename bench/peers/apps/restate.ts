// The workloads on Restate, as its SDK serves them: services whose steps are `ctx.run`, compensations as its guide to sagas has them, and
// for signals a workflow whose handler `signal` resolves a promise of the workflow. With REMOTE_STEPS=calls the remote steps are durable calls of
// the service in apps/restate-steps.ts.
import {
  type Context,
  serve,
  service,
  TerminalError,
  type WorkflowContext,
  type WorkflowSharedContext,
  workflow,
} from "@restatedev/restate-sdk";
import { call, Refused } from "./remote.js";
import type { Action, Steps } from "./restate-steps.js";

interface Inputs {
  readonly amount: number;
}

const PORT = Number(process.env.PORT);
const CALLS = process.env.REMOTE_STEPS === "calls";

/** A refusal is final; every other error is tried again. */
async function terminal(action: string, inputs: Inputs): Promise<unknown> {
  try {
    return await call(action, inputs);
  } catch (error) {
    throw error instanceof Refused ? new TerminalError(error.message) : error;
  }
}

/** A remote step, which is in the journal of the run. */
async function remote(ctx: Context, name: string, action: Action, inputs: Inputs): Promise<unknown> {
  if (CALLS) return ctx.serviceClient<Steps>({ name: "steps" })[action](inputs);
  return ctx.run(name, () => terminal(action, inputs));
}

const tenSteps = service({
  name: "ten-steps",
  handlers: {
    run: async (ctx: Context, { amount }: Inputs) => {
      let last = 0;
      for (let nth = 0; nth < 10; nth++) last = await ctx.run(`s${nth}`, () => amount * nth + 1);
      return last;
    },
  },
});

const threeSteps = service({
  name: "three-steps",
  handlers: {
    run: async (ctx: Context, inputs: Inputs) => {
      let last: unknown;
      for (const name of ["a", "b", "c"]) last = await remote(ctx, name, "echo", inputs);
      return last;
    },
  },
});

const rollback = service({
  name: "rollback",
  handlers: {
    run: async (ctx: Context, inputs: Inputs) => {
      const compensations: (() => Promise<unknown>)[] = [];
      try {
        for (const name of ["a", "b", "c"]) {
          compensations.push(() => remote(ctx, `undo ${name}`, "release", inputs));
          await remote(ctx, name, "reserve", inputs);
        }
        return await remote(ctx, "d", "refuse", inputs);
      } catch (error) {
        if (error instanceof TerminalError) for (const undo of compensations.reverse()) await undo();
        throw error;
      }
    },
  },
});

const signalled = workflow({
  name: "signalled",
  handlers: {
    run: async (ctx: WorkflowContext) => ctx.promise<unknown>("go"),
    signal: async (ctx: WorkflowSharedContext, payload: object) => ctx.promise<unknown>("go").resolve(payload),
  },
});

await serve({ services: [tenSteps, threeSteps, rollback, signalled], port: PORT });
console.log(JSON.stringify({ msg: "ready", http: PORT }));
process.once("SIGTERM", () => process.exit());
