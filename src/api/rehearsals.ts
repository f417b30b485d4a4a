// Rehearsals over HTTP: a workflow's machine runs alone, on a virtual clock, with mocks instead of workers. Nothing is stored or
// sent. It runs in short slices, and takes turns with everything else that computes.

import type { Static } from "typebox";
import * as Type from "typebox";
import {
  detailOf,
  type JsonObject,
  type Program,
  Rehearsal,
  type Rehearsed,
  RUN_STATES,
  readMocks,
  type WantedWorkflow,
} from "../../machines/index.js";
import { isWorkflowWithin, type Principal, reachOf, sharerOf, tenantsOf } from "../access/index.js";
import { performance, wallTime } from "../ambient.js";
import { badRequest, overloaded, unprocessable } from "../errors.js";
import { Shares } from "../work/shares.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject } from "./http/body.js";
import { Id, path, Version } from "./http/parameters.js";
import { responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { workflows } from "./workflows.js";

/** A slice of computing. */
const SLICE_MS = 10;
/** Computing time of one rehearsal. Most workflows take a few milliseconds. */
const MAX_COMPUTING_MS = 5_000;
/** Rehearsals of a process at the same time: each may hold 64 MiB. */
const MAX_OPEN = 4;
const MAX_PROBLEMS = 100;
/** Of the scheduler: all rehearsals share its turns. */
const PARTY = "rehearsals";

const MOCKS = "Step id to a list of {output} or {error: {code, message?, retryable?, outcome_unknown?}}.";

const Text = Type.String();
const Body = Type.Object({
  inputs: Type.Optional(AnyObject()),
  version: Type.Optional(Version),
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
  error: Type.Optional(
    Type.Object({
      ...{ code: Text, message: Text, step_id: Type.Optional(Text) },
      cause: Type.Optional(Type.Unknown({ description: "Of a failed sub-saga: the error of the child." })),
    }),
  ),
  requires_manual_review: Type.Boolean(),
  events: Type.Array(Event, {
    description: "The events of the run and its children, in the order in which they happened.",
  }),
  left: Type.Optional(
    Type.String({ description: "Present if the rehearsal stopped before the run ended: the reason." }),
  ),
});

export function rehearsalRoutes(app: Api, deps: ApiDeps): void {
  const schema = {
    tags: ["workflows"],
    "x-saga-role": "operator" as const,
    summary: "Rehearse a workflow with mocks; nothing is stored or sent",
    params: path({ wf_id: Id }),
    body: Body,
    response: responses({ 200: { description: "How the rehearsal ended.", ...Outcome } }, 400, 404, 413, 415, 422),
  };
  const places = new Shares(MAX_OPEN);
  app.post("/api/v1/workflows/:wf_id/test", { schema }, async ({ params, body, principal }): Promise<Rehearsed> => {
    const release = places.take(sharerOf(principal));
    if (release === "share") throw overloaded(`${places.each} rehearsals of yours are in progress; try again`);
    if (release === "full") throw overloaded(`${MAX_OPEN} rehearsals are in progress; try again`);
    try {
      return await perform(await prepare(deps, principal, params.wf_id, body), principal, deps);
    } finally {
      release();
    }
  });
}

/** Throws SagaError: 404 no such version, 400 invalid mocks, 422 invalid inputs. */
async function prepare(
  { sql, catalog, schemas, scheduler }: ApiDeps,
  principal: Principal,
  workflowId: string,
  { inputs = {}, version, mocks: raw }: Static<typeof Body>,
): Promise<Rehearsal> {
  const { id } = await workflows.find(sql, reachOf(principal), workflowId, version);
  const program = await catalog.program(id);
  const { mocks, problems } = readMocks(raw, program);
  if (problems.length > 0) throw badRequest("the mocks are not valid", problems.slice(0, MAX_PROBLEMS));
  for (const schema of schemasOf(program)) await scheduler.computeSlices(PARTY, schemas.readSlices(schema));
  const faults = program.inputSchema ? schemas.conforms(program.inputSchema, inputs) : [];
  if (faults.length > 0) {
    const details = faults.map((fault) => detailOf(fault, "$.inputs"));
    throw unprocessable("the inputs do not conform to the input_schema", details);
  }
  const tenants = tenantsOf(principal);
  return new Rehearsal(program, {
    ...{ inputs, mocks, tenantId: program.tenantId ?? principal.tenantId, startAt: wallTime() },
    action: (service, name, number) => catalog.action(service, name, number, tenants),
    rule: (ruleId) => catalog.rule(ruleId, tenants),
    conforms: (form, value, options) => schemas.conforms(form, value, options),
  });
}

/** What the inputs, and the forms of people, are checked with. */
function schemasOf({ inputSchema, steps }: Program): readonly (JsonObject | undefined)[] {
  const forms = [...steps.values()].map(({ attributes }) => attributes as { readonly form_schema?: JsonObject });
  return [inputSchema, ...forms.map(({ form_schema }) => form_schema)];
}

async function perform(
  rehearsal: Rehearsal,
  principal: Principal,
  { catalog, scheduler }: ApiDeps,
): Promise<Rehearsed> {
  let spent = 0;
  for (;;) {
    const { stopped, ms } = await scheduler.compute(PARTY, () => runFor(rehearsal, SLICE_MS));
    spent += ms;
    if (stopped === "over") return rehearsal.result;
    if (spent > MAX_COMPUTING_MS)
      return { ...rehearsal.result, left: `it did not end within ${MAX_COMPUTING_MS} ms of computing` };
    if (stopped) rehearsal.provide(stopped, (await published(catalog, principal, stopped)) ?? null);
  }
}

function runFor(rehearsal: Rehearsal, ms: number) {
  const since = performance.now();
  const stopped = runUntil(rehearsal, since + ms);
  return { stopped, ms: performance.now() - since };
}

/** Stops at the end of the rehearsal, at a workflow that it needs, or at the deadline (undefined). */
function runUntil(rehearsal: Rehearsal, deadline: number): WantedWorkflow | "over" | undefined {
  do {
    const move = rehearsal.move();
    if (move === "over") return move;
    if (move !== "moved") return move.missing;
  } while (performance.now() < deadline);
  return undefined;
}

/** Another tenant's, or one beyond the narrowing, does not exist. */
async function published(catalog: ApiDeps["catalog"], principal: Principal, { workflowId, version }: WantedWorkflow) {
  const found = await catalog.published(workflowId, version);
  return found && isWorkflowWithin(reachOf(principal), found.owner ?? null, workflowId) ? found.program : undefined;
}
