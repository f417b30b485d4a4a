// This project as a system: the service from dist/, started as `npm start` does with one node, and a gRPC worker as a process of its own.
import { readFileSync } from "node:fs";
import { uuidv7 } from "../../src/ids.js";
import { ROLLBACK, SIGNALLED, TEN_STEPS, THREE_STEPS, type Workload } from "../workloads.js";
import { ask } from "./http.js";
import { startNode } from "./program.js";
import { type Calls, INPUTS, type Setting, type System, type WorkflowName } from "./system.js";

const DIST = new URL("../../", import.meta.url);
const WAIT = "wait_ms=60000";

const WORKFLOWS: Readonly<Record<WorkflowName, Workload>> = {
  "ten-steps": TEN_STEPS,
  "three-steps": THREE_STEPS,
  rollback: ROLLBACK,
  signalled: SIGNALLED,
};

interface Run {
  readonly state: string;
}

export async function startOurs({ workflow, database, folder, stepsPerCommit, nodes }: Setting): Promise<System> {
  const service = await startNode(new URL("service/main.js", DIST).pathname, {
    ...{
      DATABASE_URL: database.serviceUrl,
      SAGA_DATA_DIR: folder,
      HTTP_PORT: "0",
      GRPC_PORT: "0",
      SAGA_WORKERS: String(nodes),
    },
    SAGA_STEPS_PER_COMMIT: String(stepsPerCommit),
  });
  const base = `http://127.0.0.1:${service.ready.http}/api/v1`;
  await ask("POST", `${base}/workflows`, WORKFLOWS[workflow]);
  const worker = await startNode(new URL("bench/peers/worker.js", DIST).pathname, {
    ...{ API: base.replace("/api/v1", ""), GRPC: `127.0.0.1:${service.ready.grpc}` },
  });
  const start = (name: WorkflowName, run_id?: string) => ({ workflow_id: WORKFLOWS[name].id, inputs: INPUTS, run_id });
  const countRuns = (where: string) => database.count(`select count(*) from runs where ${where}`);
  return {
    version: packageVersion(),
    processes: {
      service: [service.pid],
      worker: [worker.pid],
      postgres: database.processes,
    },
    newId: uuidv7,
    async run(name, id) {
      const { state } = await ask<Run>("POST", `${base}/sagas/start?${WAIT}`, start(name, id));
      expectEnd(name, state);
    },
    begin: async () => (await ask<{ run_id: string }>("POST", `${base}/sagas/start`, start("signalled"))).run_id,
    signal: async (id) => void (await ask("POST", `${base}/sagas/${id}/signal/go`, { payload: INPUTS })),
    end: async (id) => expectEnd("signalled", (await ask<Run>("GET", `${base}/sagas/${id}?${WAIT}`)).state),
    countParked: () => countRuns("state = 'paused'"),
    countEnded: () => countRuns("terminal_at is not null"),
    async stop() {
      const { calls } = await worker.stop();
      await service.stop();
      return calls as Calls;
    },
  };
}

/** Every other workflow succeeds. */
export function expectEnd(workflow: WorkflowName, state: string): void {
  if (state !== (workflow === "rollback" ? "failed" : "succeeded")) throw new Error(`${workflow} ended as ${state}`);
}

function packageVersion(): string {
  return JSON.parse(readFileSync(new URL("../package.json", DIST), "utf8")).version;
}
