// The workloads on Restate, as its SDK serves them: services whose steps are `ctx.run`, compensations as its guide to sagas has them, and
// for signals a workflow whose handler `signal` resolves a promise of the workflow.
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

interface Inputs {
  readonly amount: number;
}

const PORT = Number(process.env.PORT);

/** A refusal is final; every other error is tried again. */
async function terminal(action: string, inputs: Inputs): Promise<unknown> {
  try {
    return await call(action, inputs);
  } catch (error) {
    throw error instanceof Refused ? new TerminalError(error.message) : error;
  }
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
      for (const name of ["a", "b", "c"]) last = await ctx.run(name, () => terminal("echo", inputs));
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
          compensations.push(() => ctx.run(`undo ${name}`, () => terminal("release", inputs)));
          await ctx.run(name, () => terminal("reserve", inputs));
        }
        return await ctx.run("d", () => terminal("refuse", inputs));
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
