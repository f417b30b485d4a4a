// Restate as a system: its server with a fresh folder, the service that it calls (apps/restate.ts), and what executes the remote steps: an HTTP
// server, or a second service (apps/restate-steps.ts).
// At its start the server asks public hosts for its newest release, so the turn must run in a network namespace with loopback only.
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { ask, send } from "./http.js";
import { installed, peerApp, restateServer } from "./packages.js";
import { startChild, startNode } from "./program.js";
import { type Calls, INPUTS, type Setting, type System } from "./system.js";

/** The ports of its defaults: the namespace is the turn's own. */
const INGRESS = "http://127.0.0.1:8080";
const ADMIN = "http://127.0.0.1:9070";
const SERVICE_PORT = 9080;
const STEPS_PORT = 9081;

/** Everything else is the default: durable, with fsync of its log. */
const SETTINGS = { RESTATE_DEFAULT_NUM_PARTITIONS: "2", RESTATE_DISABLE_TELEMETRY: "true" };
/**
 * For parked runs only. The default of 1,000 runs at once lets the others wait until these have been idle for a minute, and resumes 5,000
 * in 140 s instead of 13.
 */
const MANY_PARKED = { RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT: "100000" };

export async function startRestate({ folder, kind, remoteSteps }: Setting): Promise<System> {
  const calls = remoteSteps === "calls";
  const remote = await (calls
    ? startNode(peerApp("restate-steps"), { PORT: String(STEPS_PORT), RESTATE_LOGGING: "ERROR" })
    : startNode(new URL("remote.js", import.meta.url).pathname, {}));
  const service = await startNode(peerApp("restate"), {
    ...{ PORT: String(SERVICE_PORT), REMOTE_URL: `http://127.0.0.1:${remote.ready.http}`, RESTATE_LOGGING: "ERROR" },
    REMOTE_STEPS: remoteSteps,
  });
  const settings = { ...SETTINGS, ...(kind === "park" && MANY_PARKED) };
  const server = startChild(restateServer(), ["--base-dir", folder, "--no-logo"], settings);
  server.output.resume();
  for (const port of calls ? [SERVICE_PORT, STEPS_PORT] : [SERVICE_PORT]) await registered(port);
  const workflow = (id: string) => ({ target: "workflow", workflowName: "signalled", workflowKey: id });
  return {
    version: installed("@restatedev/restate-server"),
    processes: { service: [server.pid, service.pid], worker: [remote.pid] },
    newId: randomUUID,
    async run(name, id) {
      const url = `${INGRESS}/restate/call/${name}${id === undefined ? "" : `/${id}`}/run`;
      expectAnswer(name, (await send("POST", url, INPUTS)).status);
    },
    async begin() {
      const id = randomUUID();
      await ask("POST", `${INGRESS}/restate/send/signalled/${id}/run`, INPUTS);
      return id;
    },
    signal: async (id) => void (await ask("POST", `${INGRESS}/restate/call/signalled/${id}/signal`, INPUTS)),
    end: async (id) =>
      expectAnswer("signalled", (await send("POST", `${INGRESS}/restate/attach`, workflow(id))).status),
    countParked: () => countRuns("status in ('running', 'suspended')"),
    countEnded: () => countRuns("status = 'completed'"),
    async stop() {
      await server.stop();
      await service.stop();
      return (await remote.stop()).calls as Calls;
    },
  };
}

/** A terminal error is answered as 500. */
function expectAnswer(workflow: string, status: number): void {
  if (status !== (workflow === "rollback" ? 500 : 200)) throw new Error(`${workflow} was answered ${status}`);
}

/** Resolves when the server knows the service. It serves its admin API a few seconds after it has started. */
async function registered(port: number): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    const answer = await send("POST", `${ADMIN}/deployments`, { uri: `http://127.0.0.1:${port}` }).catch(() => {});
    if (answer !== undefined && answer.status < 300) return;
    await delay(100);
  }
  throw new Error("the Restate server did not accept the service within 30 seconds");
}

async function countRuns(where: string): Promise<number> {
  const query = `select count(*) as count from sys_invocation where target_handler_name = 'run' and ${where}`;
  const { rows } = await ask<{ rows: { count: number }[] }>("POST", `${ADMIN}/query`, { query });
  return rows[0]?.count ?? 0;
}
