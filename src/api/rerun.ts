// Starts a run again, over HTTP: the answer names the new run. What may be started again is decided in operate/.

import * as Type from "typebox";
import { asRunId } from "../../machines/index.js";
import { reachOf } from "../access/index.js";
import { derivedUuid, newRunId } from "../ids.js";
import { actSchema } from "./acts.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, refuseNames } from "./http/body.js";
import { idempotencyKey } from "./http/idempotency.js";
import { Version } from "./http/parameters.js";
import type { Api } from "./http/validation.js";
import { Labels } from "./starts.js";

export const Rerun = Type.Object(
  {
    version: Type.Optional(Version),
    inputs: Type.Optional(AnyObject({ description: "Those of the first run if absent." })),
    labels: Type.Optional(Labels),
  },
  { default: {} },
);

export function rerunRoutes(app: Api, { reruns }: ApiDeps): void {
  const summary = "Start a run that has ended again, with the same inputs unless others are given";
  const schema = actSchema(summary, Rerun, {
    done: "The new run is durable: `run_id` is its id.",
    also: [429],
  });
  app.post("/api/v1/sagas/:id/rerun", { schema }, async (request, reply) => {
    const { id } = request.params;
    refuseNames(request.body.labels ?? {}, "$.labels");
    const key = idempotencyKey(request);
    const runId = key === undefined ? newRunId() : rerunId(id, key);
    const { principal } = request;
    await reruns.rerun(id, request.body, { runId, actor: principal.actor, reach: reachOf(principal) });
    reply.status(202).header("Location", `/api/v1/sagas/${runId}`);
    return { run_id: runId, state: "pending", changed: true };
  });
}

/** The first run is of one tenant, and so is the key. A storage format: it must never change. */
function rerunId(first: string, key: string) {
  return asRunId(derivedUuid(`rerun/${first}/${key}`));
}
