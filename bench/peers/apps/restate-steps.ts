// The remote steps as a service of Restate in a process of its own, whose handlers are called durably: what a dispatch of ours is. It answers its
// input at once, and counts.
import { type Context, serve, service, TerminalError } from "@restatedev/restate-sdk";

const ACTIONS = ["echo", "reserve", "release", "refuse"] as const;
export type Action = (typeof ACTIONS)[number];

const PORT = Number(process.env.PORT);
const calls: Partial<Record<Action, number>> = {};

function counted(action: Action) {
  return async (_ctx: Context, input: object): Promise<object> => {
    calls[action] = (calls[action] ?? 0) + 1;
    if (action === "refuse") throw new TerminalError("refused for good");
    return input;
  };
}

const steps = service({
  name: "steps",
  handlers: {
    echo: counted("echo"),
    reserve: counted("reserve"),
    release: counted("release"),
    refuse: counted("refuse"),
  } satisfies Record<Action, unknown>,
});
export type Steps = typeof steps;

await serve({ services: [steps], port: PORT });
console.log(JSON.stringify({ msg: "ready", http: PORT }));
process.once("SIGTERM", () => {
  console.log(JSON.stringify({ calls }));
  process.exit();
});
