// Starts a run again, over HTTP: the answer names the new run. What may be started again is decided in operate/.
import { asRunId } from "../../machines/index.js";
import { derivedUuid, newRunId } from "../ids.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, refuseNames } from "./http/body.js";
import { IdempotencyHeader, idempotencyKey } from "./http/idempotency.js";
import { path, RunIdText, Version } from "./http/parameters.js";
import { object, responses } from "./http/responses.js";
import { Type } from "./http/type.js";
import type { Api } from "./http/validation.js";
import { Labels } from "./sagas.js";

export const Rerun = Type.Object(
  {
    version: Type.Optional(Version),
    inputs: Type.Optional(AnyObject({ description: "Those of the first run if absent." })),
    labels: Type.Optional(Labels),
  },
  { default: {} },
);

const RERUN = {
  run_id: { type: "string", format: "uuid", description: "The new run." },
  state: { type: "string" },
  changed: { type: "boolean" },
};

export function rerunRoutes(app: Api, { reruns }: ApiDeps): void {
  const schema = {
    tags: ["operating"],
    summary: "Start a run that has ended again, with the same inputs unless others are given",
    params: path({ id: RunIdText }),
    body: Rerun,
    headers: IdempotencyHeader,
    response: responses({ 202: object("The new run is durable.", RERUN) }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/:id/rerun", { schema }, async (request, reply) => {
    const { id } = request.params;
    refuseNames(request.body.labels ?? {}, "$.labels");
    const key = idempotencyKey(request);
    const runId = key === undefined ? newRunId() : rerunId(id, key);
    await reruns.rerun(id, request.body, { runId, actor: "api" });
    reply.status(202).header("Location", `/api/v1/sagas/${runId}`);
    return { run_id: runId, state: "pending", changed: true };
  });
}

/** A storage format: it must never change. */
function rerunId(first: string, key: string) {
  return asRunId(derivedUuid(`rerun/${first}/${key}`));
}
