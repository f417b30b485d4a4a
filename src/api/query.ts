// A question about a run, in CEL: the value of an expression in the scope that the run's own expressions have. It reads what is committed, and
// changes and records nothing.
import * as Type from "typebox";
import {
  answerTo,
  decodeRun,
  ExpressionError,
  ExpressionSyntaxError,
  isWithin,
  type Json,
  MAX_SOURCE_CHARS,
  measure,
  type StoredRun,
  UnreadableRecord,
} from "../../machines/index.js";
import { reachOf } from "../access/index.js";
import { badRequest, KeyDestroyed, overloaded, unprocessable } from "../errors.js";
import { loadRun } from "../store/engine/load.js";
import type { ApiDeps } from "./deps.js";
import { path, RunIdText } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, responses } from "./http/responses.js";
import { partyOf } from "./http/turns.js";
import type { Api } from "./http/validation.js";
import { noSuchRun } from "./sagas.js";

const Query = Type.Object({
  expression: Type.String({
    minLength: 1,
    maxLength: MAX_SOURCE_CHARS,
    description: "CEL. It sees what the expressions of the run see now, and `output` once there is one.",
  }),
});

const ANSWER = {
  run_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  last_seq: { type: "integer", description: "The number of the run's last audit event: the value is that after it." },
  value: { description: "The value of the expression, as JSON." },
};

export function queryRoutes(app: Api, deps: ApiDeps): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary: "Evaluate a CEL expression about a run; nothing is changed",
    params: path({ id: RunIdText }),
    body: Query,
    response: responses({ 200: object("The value.", ANSWER) }, 400, 404, 409, 413, 415, 422),
  };
  app.post("/api/v1/sagas/:id/query", { schema }, async (request, reply) => {
    const { id } = request.params;
    const found = await deps.readPool.look(readerOf(request, reply), async (sql) => {
      const run = await loadRun(sql, id);
      return run && isWithin(reachOf(request.principal), run.stored.identity) ? run : undefined;
    });
    if (!found) throw noSuchRun(id);
    const { stored, lastSeq, dataLost } = found;
    if (dataLost) throw new KeyDestroyed();
    const asked = { source: request.body.expression, now: deps.now() };
    const value = await deps.scheduler.compute(partyOf(request), () => valueFor(stored, asked));
    refuseLarge(value, deps.config.limits.outputBytes);
    return { run_id: id, state: stored.state, last_seq: lastSeq, value };
  });
}

function refuseLarge(value: Json, most: number): void {
  const size = measure(value);
  // What is no storable JSON was no value of the run, either.
  if (typeof size !== "number") throw unprocessable(`the value ${size.message}`);
  if (size > most) throw unprocessable(`the value has more than ${most} characters of JSON`);
}

/** Messages of expressions name no payload. */
function valueFor(stored: StoredRun, asked: { readonly source: string; readonly now: number }): Json {
  try {
    return answerTo({ context: decodeRun(stored), ...asked });
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) {
      const { message, position } = error;
      const place = position === undefined ? "" : ` at character ${position + 1}`;
      throw badRequest(`the expression is not valid: ${message}`, [
        { path: "$.expression", message: `${message}${place}` },
      ]);
    }
    if (error instanceof ExpressionError) throw unprocessable(`the expression has no value: ${error.message}`);
    if (error instanceof UnreadableRecord)
      throw overloaded("a newer node of the cluster has to answer about this run: ask again");
    throw error;
  }
}
