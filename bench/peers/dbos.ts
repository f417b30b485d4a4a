// DBOS Transact as a system: its application (apps/dbos.ts) on the same Postgres as ours, and the HTTP server of the remote steps.
import { randomUUID } from "node:crypto";
import { ask } from "./http.js";
import { expectEnd } from "./ours.js";
import { installed, peerApp } from "./packages.js";
import { startNode } from "./program.js";
import { type Calls, INPUTS, type Setting, type System } from "./system.js";

interface Outcome {
  readonly id: string;
  readonly state: string;
}

export async function startDbos({ database }: Setting): Promise<System> {
  const remote = await startNode(new URL("remote.js", import.meta.url).pathname, {});
  const app = await startNode(peerApp("dbos"), {
    ...{ DATABASE_URL: database.serviceUrl, REMOTE_URL: `http://127.0.0.1:${remote.ready.http}` },
  });
  const base = `http://127.0.0.1:${app.ready.http}`;
  return {
    version: installed("@dbos-inc/dbos-sdk"),
    processes: {
      service: [app.pid],
      worker: [remote.pid],
      postgres: database.processes,
    },
    newId: randomUUID,
    async run(name, id = "") {
      expectEnd(name, (await ask<Outcome>("POST", `${base}/run/${name}/${id}`, INPUTS)).state);
    },
    begin: async () => (await ask<Outcome>("POST", `${base}/begin/signalled`, INPUTS)).id,
    signal: async (id) => void (await ask("POST", `${base}/signal/${id}`, INPUTS)),
    end: async (id) => expectEnd("signalled", (await ask<Outcome>("GET", `${base}/end/${id}`)).state),
    // A wait has stored its deadline before it begins.
    countParked: () => database.count("select count(*) from dbos.operation_outputs where function_name = 'DBOS.sleep'"),
    countEnded: () => database.count("select count(*) from dbos.workflow_status where status = 'SUCCESS'"),
    async stop() {
      await app.stop();
      return (await remote.stop()).calls as Calls;
    },
  };
}
