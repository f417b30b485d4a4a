// Workflow definitions over HTTP. Beyond the routes of every versioned document they can be validated, and have a machine and stats.

import * as Type from "typebox";
import {
  type CompileOptions,
  isObject,
  type JsonObject,
  mermaidOf,
  type Program,
  rightsNeeded,
} from "../../machines/index.js";
import { isWorkflowWithin } from "../access/index.js";
import { workflowSlots } from "../store/engine/slots.js";
import { workflowTurns } from "../store/engine/turns.js";
import { type WorkflowDraft, workflowStats, workflowVersions } from "../store/lists/definitions.js";
import type { Tenants } from "../store/owners.js";
import { refuseBeyondRights } from "./authoring.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject } from "./http/body.js";
import { Id, OneOf, path, query, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { type Compiling, onWire, type Report, storageOf, VersionedResource } from "./versioned.js";

export const workflows = new VersionedResource<WorkflowDraft>({
  noun: "workflow",
  collection: "workflows",
  parameter: "wf_id",
  use: "started",
  resource: "WorkflowDefinition",
  description: "A WorkflowDefinition. Unknown fields and step attributes are refused.",
  store: workflowVersions,
  check,
  authorize: ({ principal, ...authored }, { secrets }) => refuseBeyondRights(principal, authored, secrets),
  exists: (reach, { tenantId, key }) => isWorkflowWithin(reach, tenantId, key),
});

const Format = OneOf("json", "mermaid");

const workflowPath = path({ wf_id: Id });

export function workflowRoutes(app: Api, deps: ApiDeps): void {
  workflows.routes(app, deps);
  workflows.validateRoute(app, deps);
  machineRoute(app, deps);
  statsRoute(app, deps);
}

async function check(
  document: unknown,
  { compile, catalog }: Compiling,
  tenants: Tenants,
): Promise<Report<WorkflowDraft>> {
  const { program, problems, warnings } = await compile.compileWorkflow(document, known(catalog, tenants));
  const valid = program && problems.length === 0 && isObject(document);
  const found = valid && { draft: draftOf(program, document), needs: rightsNeeded(program) };
  return { ...found, problems, warnings: onWire(warnings) };
}

/** Registered actions and published rules, as far as they exist for who asks. A document that names an unknown one gets a warning. */
function known(catalog: Compiling["catalog"], tenants: Tenants): CompileOptions {
  return {
    action: (service, name, version) => catalog.action(service, name, version, tenants),
    actions: () => catalog.actionNames(tenants),
    rule: (ruleId) => catalog.rule(ruleId, tenants),
  };
}

function draftOf({ workflowId: key, tenantId: forTenant, name }: Program, document: JsonObject): WorkflowDraft {
  return { key, forTenant, name, document, ...storageOf(document) };
}

function machineRoute(app: Api, { readPool, catalog, compile }: ApiDeps): void {
  const description =
    "An XState v5 machine configuration: one state for each step, and the edges that a run can take with their conditions in words.";
  const content = { "application/json": { schema: AnyObject() }, "text/plain": { schema: { type: "string" } } };
  const schema = {
    tags: ["workflows"],
    "x-saga-role": "viewer" as const,
    summary: "Get the state chart of a workflow; it opens in Stately Studio, or as a Mermaid diagram",
    params: workflowPath,
    querystring: query({ version: Version, format: Format }),
    response: responses({ 200: { description, content } }, 400, 404),
  };
  app.get("/api/v1/workflows/:wf_id/machine", { schema }, async (request, reply) => {
    const { params, query } = request;
    const { id } = await readPool.look(readerOf(request, reply), (sql, reach) =>
      workflows.find(sql, reach, params.wf_id, query.version),
    );
    const chart = compile.machineConfig(await catalog.program(id));
    if (query.format !== "mermaid") return chart;
    return reply.header("content-type", "text/plain; charset=utf-8").serializer(String).send(mermaidOf(chart));
  });
}

const Stats = Type.Object({
  success_rate_24h: Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()]),
  last_run_at: Type.Union([Type.String({ format: "date-time" }), Type.Null()]),
  in_flight: Type.Integer(),
  concurrency: Type.Optional(
    Type.Object(
      { held: Type.Integer(), waiting: Type.Integer() },
      { description: "Slots that its runs hold, and runs that wait for one, over all keys. Absent: neither." },
    ),
  ),
  rate_limit: Type.Optional(
    Type.Object(
      { waiting: Type.Integer() },
      { description: "Runs that wait for their turn under its rate limit, over all keys. Absent: none." },
    ),
  ),
});

function statsRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: { description: "Over all versions.", ...Stats } }, 400, 404);
  const summary = "Get aggregate stats of a workflow";
  const schema = { tags: ["workflows"], "x-saga-role": "viewer" as const, summary, params: workflowPath, response };
  app.get("/api/v1/workflows/:wf_id/stats", { schema }, async (request, reply) => {
    const { wf_id: workflowId } = request.params;
    return readPool.run(readerOf(request, reply), async (sql, reach) => {
      await workflows.mustExist(sql, reach, workflowId);
      const concurrency = await workflowSlots(sql, reach, workflowId);
      const waiting = await workflowTurns(sql, reach, workflowId);
      return {
        ...(await workflowStats(sql, reach, workflowId)),
        ...(concurrency && { concurrency }),
        ...(waiting > 0 && { rate_limit: { waiting } }),
      };
    });
  });
}
