// A workflow tried out over HTTP: its machine alone, on a virtual clock, with mocks in the place of the outside. Nothing is
// stored and nothing is sent. It moves step by step, so that other requests go on in between.
import { setImmediate } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";
import { Rehearsal, type Rehearsed, RUN_STATES, readMocks, type WantedWorkflow } from "../../machines/index.js";
import { badRequest, notFound, overloaded, unprocessable } from "../errors.js";
import { readDefinition } from "../store/definitions.js";
import { AnyObject, readBody } from "./body.js";
import type { ApiDeps } from "./index.js";
import * as q from "./query.js";
import { responses } from "./schemas.js";

/** Other work gets its turn at least this often. */
const SLICE_MS = 10;
/** Of the machine's own time. Most workflows take a few milliseconds. */
const MOST_MS = 5_000;
/** Rehearsals of a process at once: each may keep 64 MiB. */
const MOST_AT_ONCE = 4;
const MOST_PROBLEMS = 100;

const path = q.pathReader({ wf_id: q.id });

const MOCKS = "Step id to a list of {output} or {error: {code, message?, retryable?, outcome_unknown?}}.";

const Text = Type.String();
const Body = Type.Object({
  inputs: Type.Optional(AnyObject()),
  version: Type.Optional(Type.Integer({ minimum: 1, maximum: q.MAX_INT32 })),
  mocks: AnyObject({ description: MOCKS }),
});
const Event = Type.Object({
  seq: Type.Integer(),
  run_id: Text,
  workflow_id: Text,
  step_id: Type.Optional(Text),
  attempt: Type.Integer(),
  event_type: Text,
  from_state: Text,
  to_state: Text,
  actor: Text,
  metadata: Type.Optional(AnyObject()),
  recorded_at: Type.String({ format: "date-time" }),
});
const Outcome = Type.Object({
  state: Type.String({ enum: [...RUN_STATES] }),
  output: Type.Optional(Type.Unknown()),
  variables: AnyObject(),
  error: Type.Optional(Type.Object({ code: Text, message: Text, step_id: Type.Optional(Text) })),
  requires_manual_review: Type.Boolean(),
  events: Type.Array(Event, { description: "Of the run and its children, in the order in which they happened." }),
  left: Type.Optional(Type.String({ description: "Why it was left before its end." })),
});

export function rehearsalRoutes(app: FastifyInstance, deps: ApiDeps): void {
  const schema = {
    tags: ["workflows"],
    summary: "Try a workflow out, with mocks; nothing is stored or sent",
    params: path.schema,
    body: Body,
    response: responses({ 200: { description: "How it ended.", ...Outcome } }, 400, 404, 413, 415, 422),
  };
  let open = 0;
  app.post("/api/v1/workflows/:wf_id/test", { schema }, async (request, reply): Promise<Rehearsed> => {
    const { wf_id: workflowId } = path.read(request.params);
    const body = readBody(request, reply, Body);
    if (open >= MOST_AT_ONCE) throw overloaded(`${MOST_AT_ONCE} rehearsals are under way; try again`);
    open++;
    try {
      return await perform(await prepare(deps, workflowId, body), deps);
    } finally {
      open--;
    }
  });
}

/** Throws SagaError: 404 no such version, 400 the mocks, 422 the inputs. */
async function prepare(
  { sql, catalog, schemas }: ApiDeps,
  workflowId: string,
  { inputs = {}, version, mocks: raw }: Static<typeof Body>,
): Promise<Rehearsal> {
  const definition = await readDefinition(sql, workflowId, version);
  if (!definition) throw notFound(`there is no such version of workflow ${workflowId}, or none is published`);
  const program = await catalog.program(definition.definitionId);
  const { mocks, problems } = readMocks(raw, program);
  if (problems.length > 0) throw badRequest("the mocks are not valid", problems.slice(0, MOST_PROBLEMS));
  const unfit = program.inputSchema ? schemas.conforms(program.inputSchema, inputs) : [];
  if (unfit.length > 0)
    throw unprocessable(
      "the inputs do not conform to the input_schema",
      unfit.map((message) => ({ path: "$.inputs", message })),
    );
  return new Rehearsal(program, {
    ...{ inputs, mocks, tenantId: program.tenantId, startAt: Date.now() },
    action: (service, name, number) => catalog.action(service, name, number),
    rule: (ruleId) => catalog.rule(ruleId),
    conforms: (form, value) => schemas.conforms(form, value),
  });
}

async function perform(rehearsal: Rehearsal, { catalog }: ApiDeps): Promise<Rehearsed> {
  let spent = 0;
  for (;;) {
    const since = performance.now();
    const lacking = slice(rehearsal, since + SLICE_MS);
    spent += performance.now() - since;
    if (lacking === "over") return rehearsal.result;
    if (spent > MOST_MS) return { ...rehearsal.result, left: `it did not end within ${MOST_MS} ms of computing` };
    if (lacking) rehearsal.provide(lacking, (await published(catalog, lacking)) ?? null);
    else await setImmediate();
  }
}

/** Moves until the time is over. */
function slice(rehearsal: Rehearsal, until: number): WantedWorkflow | "over" | undefined {
  do {
    const move = rehearsal.move();
    if (move === "over") return move;
    if (move !== "moved") return move.lacks;
  } while (performance.now() < until);
  return undefined;
}

async function published(catalog: ApiDeps["catalog"], { workflowId, version }: WantedWorkflow) {
  return (await catalog.published(workflowId, version))?.program;
}
