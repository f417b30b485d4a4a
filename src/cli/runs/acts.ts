// What a person may do to a run: cancel, pause, resume, retry, skip, fail, terminate, release, rerun, fork. Each is one request; whether it makes sense now
// is the run's decision.
import { randomUUID } from "node:crypto";
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { jsonGiven, objectGiven } from "../frame/input.js";
import type { Service } from "../frame/service.js";
import { exitOf, pathOf, type Run } from "./run.js";
import { runLines } from "./show.js";
import { ended } from "./wait.js";

interface Acted {
  readonly run_id: string;
  readonly state: string;
  readonly changed?: boolean;
  readonly already_terminal?: boolean;
}

type Body = Readonly<Record<string, unknown>>;

/** One request, and its answer in a sentence. */
async function act(context: Context, route: string, body: Body, done: string): Promise<ExitCode> {
  const service = await context.service();
  const id = context.argument(0);
  const acted = await service.post<Acted>(pathOf(id, route), body, { key: context.text("key") ?? randomUUID() });
  return told(context, service, acted, done);
}

async function told(context: Context, service: Service, acted: Acted, done: string): Promise<ExitCode> {
  const { terminal, json } = context;
  if (context.flag("wait")) {
    const run = await ended(service, acted.run_id, context.duration("timeout"));
    if (json) terminal.printJson(run);
    else terminal.print(runLines(run, terminal).join("\n"));
    return exitOf(run);
  }
  if (json) terminal.printJson(acted);
  else if (acted.already_terminal === true || acted.changed === false)
    terminal.print(`run ${acted.run_id} is ${acted.state}: nothing had to be done`);
  else terminal.print(`run ${acted.run_id} is ${acted.state}: ${done}`);
  return EXIT.succeeded;
}

const reasonIn = (context: Context): Body => {
  const reason = context.text("reason");
  return reason === undefined ? {} : { reason };
};

export const cancel = (context: Context) => {
  const body = { ...reasonIn(context), ...(context.flag("withoutUndo") && { compensate: false }) };
  const done = context.flag("withoutUndo")
    ? "it is cancelled without undoing anything"
    : "it undoes its steps, then it is cancelled";
  return act(context, "/cancel", body, done);
};

export const pause = (context: Context) =>
  act(context, "/pause", reasonIn(context), "it takes no new step until saga resume");

export const resume = (context: Context) => act(context, "/resume", reasonIn(context), "it goes on");

export const fail = (context: Context) =>
  act(context, "/fail", reasonIn(context), "the error takes the course that it would have taken");

export const release = (context: Context) => act(context, "/release", {}, "it has left the quarantine");

export const terminate = (context: Context) => {
  const reason = context.text("reason");
  if (reason === undefined) throw context.wrong("--reason is needed: it stays in the audit log");
  return act(context, "/terminate", { reason }, "it has ended, and what it owed is abandoned");
};

/** `saga retry`: the step at the incident, or the undo. */
export async function retry(context: Context): Promise<ExitCode> {
  const service = await context.service();
  const { incident } = await service.get<Run>(pathOf(context.argument(0)));
  const text = context.text("variables");
  const isUndo = incident?.phase === "compensation";
  if (isUndo && text !== undefined) throw context.wrong("an undo takes no --variables");
  const variables = text === undefined ? {} : { variables: await objectGiven("--variables", text, context.terminal) };
  if (isUndo) return act(context, "/compensations/retry", {}, "the undo begins anew");
  return act(context, "/retry_step", variables, "the step begins anew");
}

/** `saga skip`: the step counts as succeeded with an output, the undo as failed. */
export async function skip(context: Context): Promise<ExitCode> {
  const service = await context.service();
  const { incident } = await service.get<Run>(pathOf(context.argument(0)));
  const text = context.text("stepOutput");
  const isUndo = incident?.phase === "compensation";
  if (isUndo && text !== undefined) throw context.wrong("an undo has no output");
  if (isUndo) return act(context, "/compensations/skip", {}, "the undo counts as failed, and the rollback goes on");
  const output = text === undefined ? {} : { output: await jsonGiven("--step-output", text, context.terminal) };
  return act(context, "/skip_step", output, "the step counts as succeeded");
}

/** `saga rerun`: prints the id of the new run, as `start` does. */
export async function rerun(context: Context): Promise<ExitCode> {
  const service = await context.service();
  const id = context.argument(0);
  const text = context.text("inputs");
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const body = {
    ...(version !== undefined && { version }),
    ...(text !== undefined && { inputs: await objectGiven("--inputs", text, context.terminal) }),
    ...(context.pairs("label") && { labels: context.pairs("label") }),
  };
  const key = context.text("key") ?? randomUUID();
  const acted = await service.post<Acted>(pathOf(id, "/rerun"), body, { key });
  if (context.json) context.terminal.printJson(acted);
  else context.terminal.print(acted.run_id);
  return EXIT.succeeded;
}

/** `saga fork`: prints the id of the new run. */
export async function fork(context: Context): Promise<ExitCode> {
  const service = await context.service();
  const [id, step] = [context.argument(0), context.argument(1)];
  const given = async (name: "variables" | "inputs") => {
    const text = context.text(name);
    return text === undefined ? {} : { [name]: await objectGiven(`--${name}`, text, context.terminal) };
  };
  const most = { min: 1, max: 2_147_483_647 };
  const [entry, version] = [context.integer("entry", most), context.integer("version", most)];
  const body = {
    step,
    ...(entry !== undefined && { entry }),
    ...(version !== undefined && { version }),
    ...(await given("variables")),
    ...(await given("inputs")),
    ...(context.flag("assumeEffects") && { effects: "assume" }),
  };
  const acted = await service.post<Acted>(pathOf(id, "/fork"), body, { key: context.text("key") ?? randomUUID() });
  if (context.json) context.terminal.printJson(acted);
  else context.terminal.print(acted.run_id);
  return EXIT.succeeded;
}
