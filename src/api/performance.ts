// How a workflow does: what ended in each part of the last hours, and how long runs and steps took. The figures of one moment are its stats
// (workflows.ts).
import { workflowPerformance } from "../store/statistics/performance.js";
import type { ApiDeps } from "./deps.js";
import { Id, Int, path, query, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { one, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { workflows } from "./workflows.js";

const DAY_HOURS = 24;
const WEEK_HOURS = 168;

export function performanceRoutes(app: Api, { readPool }: Pick<ApiDeps, "readPool">): void {
  const schema = {
    tags: ["workflows"],
    "x-saga-role": "viewer" as const,
    summary: "Get what ended in each part of the last hours, and how long runs and steps took",
    params: path({ wf_id: Id }),
    querystring: query({ version: Version, hours: Int(1, WEEK_HOURS) }),
    response: responses({ 200: one("Root runs; dry runs do not count.", "Performance") }, 400, 404),
  };
  app.get("/api/v1/workflows/:wf_id/performance", { schema }, async (request, reply) => {
    const { wf_id: workflowId } = request.params;
    const { version, hours = DAY_HOURS } = request.query;
    return readPool.run(readerOf(request, reply), async (sql, reach) => {
      if (version === undefined) await workflows.mustExist(sql, reach, workflowId);
      else await workflows.find(sql, reach, workflowId, version);
      return workflowPerformance(sql, reach, { workflowId, version, hours });
    });
  });
}
