// The workloads on DBOS Transact, as an application that serves them over HTTP: DBOS is a library. Workflows are started directly, not
// through a queue, and results come from the handle of the start, so that nothing polls.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { DBOS, type WorkflowHandle } from "@dbos-inc/dbos-sdk";
import { call } from "./remote.js";

interface Inputs {
  readonly amount: number;
}

const A_DAY_IN_SECONDS = 86_400;

const step = (name: string, work: () => Promise<unknown>) => DBOS.runStep(work, { name });

async function tenSteps({ amount }: Inputs): Promise<unknown> {
  let last: unknown;
  for (let nth = 0; nth < 10; nth++) last = await step(`s${nth}`, async () => amount * nth + 1);
  return last;
}

async function threeSteps(inputs: Inputs): Promise<unknown> {
  let last: unknown;
  for (const name of ["a", "b", "c"]) last = await step(name, () => call("echo", inputs));
  return last;
}

async function rollback(inputs: Inputs): Promise<unknown> {
  const done: string[] = [];
  try {
    for (const name of ["a", "b", "c"]) {
      await step(name, () => call("reserve", inputs));
      done.push(name);
    }
    return await step("d", () => call("refuse", inputs));
  } catch (error) {
    for (const name of done.reverse()) await step(`undo ${name}`, () => call("release", inputs));
    throw error;
  }
}

/** A timeout is recommended, and there is always one. */
async function signalled(): Promise<unknown> {
  return DBOS.recv("go", { timeoutSeconds: A_DAY_IN_SECONDS });
}

const workflows = Object.fromEntries(
  Object.entries({ "ten-steps": tenSteps, "three-steps": threeSteps, rollback, signalled }).map(([name, workflow]) => [
    name,
    DBOS.registerWorkflow(workflow, { name }),
  ]),
);

/** Handles of workflows, until a client asks for the end. */
const handles = new Map<string, WorkflowHandle<unknown>>();

async function begin(name: string, inputs: Inputs, workflowID?: string): Promise<WorkflowHandle<unknown>> {
  const workflow = workflows[name];
  if (!workflow) throw new Error(`there is no workflow ${name}`);
  return DBOS.startWorkflow(workflow, { workflowID })(inputs);
}

async function outcome(handle: WorkflowHandle<unknown>): Promise<object> {
  try {
    return { id: handle.workflowID, state: "succeeded", output: await handle.getResult() };
  } catch (error) {
    return { id: handle.workflowID, state: "failed", error: String(error) };
  }
}

/** `POST /run/<workflow>/[id]`, `POST /begin/<workflow>`, `POST /signal/<id>` and `GET /end/<id>`. */
async function answer(url: string, body: string): Promise<object> {
  const [, verb, name = "", id] = url.split("/");
  if (verb === "run") return outcome(await begin(name, JSON.parse(body), id || undefined));
  if (verb === "signal") return DBOS.send(name, JSON.parse(body), "go").then(() => ({ id: name }));
  if (verb === "begin") {
    const handle = await begin(name, JSON.parse(body));
    handles.set(handle.workflowID, handle);
    return { id: handle.workflowID };
  }
  const handle = handles.get(name);
  if (verb !== "end" || !handle) throw new Error(`there is no ${url}`);
  handles.delete(name);
  return outcome(handle);
}

async function read(request: IncomingMessage): Promise<string> {
  let text = "";
  request.setEncoding("utf8");
  for await (const chunk of request) text += chunk;
  return text;
}

DBOS.setConfig({
  name: "bench",
  applicationVersion: "1",
  systemDatabaseUrl: process.env.DATABASE_URL ?? "",
  logLevel: "error",
});
await DBOS.launch();

const server = createServer(async (request, response) => {
  try {
    const text = JSON.stringify(await answer(request.url ?? "", await read(request)));
    response.setHeader("content-type", "application/json").end(text);
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ msg: "ready", http: (server.address() as AddressInfo).port }));
});
process.once("SIGTERM", async () => {
  await DBOS.shutdown();
  process.exit();
});
