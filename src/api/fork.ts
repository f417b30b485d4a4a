// Forks a run, over HTTP: the answer names the new run. It is one command to the original, whose commit makes the fork; whether it may be made is
// decided in machines/decide/fork.ts.

import type { Static } from "typebox";
import * as Type from "typebox";
import { asRunId, type Command, type Forked, type Refused, type RunId } from "../../machines/index.js";
import { conflict, historyMissing, unprocessable } from "../errors.js";
import { derivedUuid, newRunId, shardOf } from "../ids.js";
import { actSchema } from "./acts.js";
import { accepted } from "./commands.js";
import type { ApiDeps } from "./deps.js";
import { withoutDefaults } from "./http/absent.js";
import { AnyObject, refuseLargePayload, refuseNames } from "./http/body.js";
import { commandOptions, idempotencyKey } from "./http/idempotency.js";
import { Id, Version } from "./http/parameters.js";
import type { Api } from "./http/validation.js";

const MOST_ENTRIES = 2_147_483_647;

const Fork = Type.Object({
  step: Id,
  entry: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MOST_ENTRIES,
      description: "Which entry of the step; the last one if absent.",
    }),
  ),
  variables: Type.Optional(
    AnyObject({ description: "All that the new run begins with; those at the entry if absent." }),
  ),
  inputs: Type.Optional(AnyObject({ description: "Those of the original if absent." })),
  version: Type.Optional(Version),
  effects: Type.Optional(
    Type.Unsafe<"inherit" | "assume">({
      type: "string",
      enum: ["inherit", "assume"],
      default: "inherit",
      description: "`inherit`: the new run owes the undo of what was done before the step. `assume`: it inherits none.",
    }),
  ),
});

export function forkRoutes(app: Api, deps: ApiDeps): void {
  const summary = "Start a new run that begins at a step of this one; one that waits ends with it";
  const schema = actSchema(summary, Fork, { done: "The new run is durable: `run_id` is its id.", also: [503] });
  app.post("/api/v1/sagas/:id/fork", { schema }, async (request, reply) => {
    const { principal, body } = request;
    const { id } = request.params;
    refuseNames(body.variables ?? {}, "$.variables");
    refuseLargePayload(body.inputs ?? {}, deps.config.limits.outputBytes);
    const key = idempotencyKey(request);
    const asks = { principal, runId: id, target: ["fork", id], body: withoutDefaults(Fork, body) };
    const asked = commandOf(body, forkId(id, key), principal.actor);
    const { runId } = forked(await deps.runs.command(id, asked, commandOptions(key, asks)));
    reply.status(202).header("Location", `/api/v1/sagas/${runId}`);
    return { run_id: runId, state: "pending", changed: true };
  });
}

/** It is in the shard of the original. A storage format: it must never change. */
function forkId(original: RunId, key: string | undefined): RunId {
  const shard = shardOf(original);
  return key === undefined ? newRunId(shard) : asRunId(derivedUuid(`fork/${original}/${key}`, shard));
}

function commandOf({ effects, ...given }: Static<typeof Fork>, runId: RunId, actor: string): Command<"fork"> {
  return { type: "fork", runId, ...given, inherits: effects !== "assume", actor };
}

function forked(answer: Forked | Refused): Forked {
  if (answer.type === "forked") return answer;
  const { reason, reasons, unfit, historyMissing: isMissing, runId } = answer;
  const details = reasons?.map(({ path = "$", message }) => ({ path, message }));
  if (unfit) throw unprocessable(reason, details);
  if (isMissing) throw historyMissing(reason);
  if (runId !== undefined) throw conflict(reason, { run_id: runId });
  return accepted<Forked>(answer);
}
