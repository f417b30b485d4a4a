// Workflow definitions over HTTP. Beyond the routes of every versioned document they can be validated, and have a machine and stats.

import * as Type from "typebox";
import { type CompileOptions, isObject, type JsonObject, mermaidOf, type Program } from "../../machines/index.js";
import { workflowSlots } from "../store/engine/slots.js";
import { type WorkflowDraft, workflowStats, workflowVersions } from "../store/lists/definitions.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject } from "./http/body.js";
import { closeSignal } from "./http/close-signal.js";
import { Id, OneOf, path, query, Version } from "./http/parameters.js";
import { responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { type Compiling, type Report, storageOf, VersionedResource } from "./versioned.js";

export const workflows = new VersionedResource<WorkflowDraft>({
  noun: "workflow",
  collection: "workflows",
  parameter: "wf_id",
  use: "started",
  resource: "WorkflowDefinition",
  description: "A WorkflowDefinition. Unknown fields and step attributes are refused.",
  store: workflowVersions,
  check,
});

const Format = OneOf("json", "mermaid");

const workflowPath = path({ wf_id: Id });

export function workflowRoutes(app: Api, deps: ApiDeps): void {
  workflows.routes(app, deps);
  workflows.validateRoute(app, deps);
  machineRoute(app, deps);
  statsRoute(app, deps);
}

async function check(document: unknown, { compile, catalog }: Compiling): Promise<Report<WorkflowDraft>> {
  const { program, problems, warnings } = await compile.compileWorkflow(document, known(catalog));
  const valid = program && problems.length === 0 && isObject(document);
  return { ...(valid && { draft: draftOf(program, document) }), problems, warnings };
}

/** Registered actions and published rules. A document that names an unknown one gets a warning. */
function known(catalog: Compiling["catalog"]): CompileOptions {
  return {
    action: (service, name, version) => catalog.action(service, name, version),
    actions: () => catalog.actionNames(),
    rule: (ruleId) => catalog.rule(ruleId),
  };
}

function draftOf({ workflowId: key, tenantId, name }: Program, document: JsonObject): WorkflowDraft {
  return { key, tenantId, name, document, ...storageOf(document) };
}

function machineRoute(app: Api, { readPool, catalog, compile }: ApiDeps): void {
  const description =
    "An XState v5 machine configuration: one state for each step, and the edges that a run can take with their conditions in words.";
  const content = { "application/json": { schema: AnyObject() }, "text/plain": { schema: { type: "string" } } };
  const schema = {
    tags: ["workflows"],
    summary: "Get the state chart of a workflow; it opens in Stately Studio, or as a Mermaid diagram",
    params: workflowPath,
    querystring: query({ version: Version, format: Format }),
    response: responses({ 200: { description, content } }, 400, 404),
  };
  app.get("/api/v1/workflows/:wf_id/machine", { schema }, async ({ params, query }, reply) => {
    const { id } = await readPool.look(closeSignal(reply), (sql) => workflows.find(sql, params.wf_id, query.version));
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
});

function statsRoute(app: Api, { readPool }: ApiDeps): void {
  const response = responses({ 200: { description: "Over all versions.", ...Stats } }, 400, 404);
  const summary = "Get aggregate stats of a workflow";
  const schema = { tags: ["workflows"], summary, params: workflowPath, response };
  app.get("/api/v1/workflows/:wf_id/stats", { schema }, async ({ params: { wf_id: workflowId } }, reply) =>
    readPool.run(closeSignal(reply), async (sql) => {
      await workflows.mustExist(sql, workflowId);
      const concurrency = await workflowSlots(sql, workflowId);
      return { ...(await workflowStats(sql, workflowId)), ...(concurrency && { concurrency }) };
    }),
  );
}
