// Why a run stands where it stands: `explain`. What a wait means is said in machines/explain; this file reads what it needs, of the run
// and of the children that it waits for. Any node can explain any run.
import type { Sql } from "postgres";
import {
  type About,
  type ExplainedChild,
  type Explanation,
  explain,
  formatInstant,
  type JsonObject,
  type RunContext,
  type RunId,
  UnreadableRecord,
} from "../../machines/index.js";
import type { Workers } from "../dispatch/workers.js";
import { overloaded } from "../errors.js";
import { slotQueue } from "../store/engine/slots.js";
import { turnQueue } from "../store/engine/turns.js";
import {
  livingChildren,
  newestEventAt,
  type RunToExplain,
  runToExplain,
  taskWords,
} from "../store/lists/explained-run.js";
import type { Reach } from "../store/lists/reach.js";
import type { ApiDeps } from "./deps.js";
import { path, RunIdText } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { object, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import { noSuchRun } from "./sagas.js";

/** Children that are explained of one run, and runs in one answer. */
const CHILDREN = 10;
const RUNS = 50;

const TIME = { type: "string", format: "date-time" };
const ANSWER = {
  run_id: { type: "string", format: "uuid" },
  state: { type: "string" },
  because: { type: "string", description: "One sentence about the run, without its subject." },
  waiting_for: {
    type: "array",
    description: "Empty: the run has ended, or is stepping.",
    items: { type: "object", properties: { kind: { type: "string" } }, required: ["kind"], additionalProperties: true },
  },
  since: TIME,
  next_at: { ...TIME, description: "When time alone makes the run, or a child that it waits for, go on." },
  can: { type: "array", items: { type: "string" }, description: "What an operator may do now, named like the routes." },
};

export function explainRoutes(app: Api, deps: ApiDeps): void {
  const schema = {
    tags: ["sagas"],
    "x-saga-role": "viewer" as const,
    summary: "Explain what a run waits for, and what would make it go on",
    params: path({ id: RunIdText }),
    response: responses({ 200: object("The run, and the children that it waits for.", ANSWER, ["next_at"]) }, 400, 404),
  };
  app.get("/api/v1/sagas/:id/explain", { schema }, async (request, reply) => {
    const { id } = request.params;
    return deps.readPool.look(readerOf(request, reply), async (sql, reach) => {
      const run = await readable(runToExplain(sql, reach, id));
      if (!run) throw noSuchRun(id);
      return { run_id: id, ...bodyOf(await new Explainer(sql, reach, deps.workers).explain(run)) };
    });
  });
}

async function readable<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof UnreadableRecord)
      throw overloaded("a newer node of the cluster has to explain this run: ask again");
    throw error;
  }
}

class Explainer {
  private left = RUNS;

  constructor(
    private readonly sql: Sql,
    private readonly reach: Reach,
    private readonly workers: Workers,
  ) {}

  async explain(run: RunToExplain): Promise<Explanation> {
    this.left--;
    const { context, lastEventAt } = run;
    const since = await this.sinceOf(context);
    return explain(context, { ...(await this.about(context)), lastEventAt, ...(since !== undefined && { since }) });
  }

  private async about({ wait, call, run, quarantined }: RunContext): Promise<About> {
    if (quarantined) return {};
    // With access on, not every worker serves the run's tenant.
    const called = call && (run.tenantId === undefined ? call : { ...call, tenantId: run.tenantId });
    if (wait?.kind === "queued" && called) {
      const [obstacle] = await this.workers.obstacles([called]);
      return obstacle ? { obstacle } : {};
    }
    if (wait?.kind === "dispatched" && called) {
      const holder = await this.workers.holder(wait.dispatchId);
      const [obstacle] = holder?.goneSince === undefined ? [] : await this.workers.obstacles([called]);
      return { ...(holder && { holder }), ...(obstacle && { obstacle }) };
    }
    if (wait?.kind === "user_task") {
      const task = await taskWords(this.sql, wait.taskId);
      return task ? { task } : {};
    }
    if (wait?.kind === "concurrency") {
      const queue = await slotQueue(this.sql, this.reach, run.id, wait.entry);
      return queue ? { queue } : {};
    }
    if (wait?.kind === "rate_limit") {
      const turns = await turnQueue(this.sql, this.reach, run.id, wait.entry);
      return turns ? { turns } : {};
    }
    return wait?.kind === "children" ? { children: await this.childrenOf(run.id) } : {};
  }

  private async sinceOf({ run: { id }, quarantined, ending }: RunContext): Promise<number | undefined> {
    if (quarantined) return newestEventAt(this.sql, id, "log", "quarantine");
    return ending ? newestEventAt(this.sql, id, "compensation.started") : undefined;
  }

  private async childrenOf(runId: RunId): Promise<readonly ExplainedChild[]> {
    const rows = await livingChildren(this.sql, this.reach, runId, Math.min(CHILDREN, this.left));
    const children: ExplainedChild[] = [];
    for (const row of rows) if (this.left > 0) children.push(asChild(row, await this.explain(row)));
    return children;
  }
}

function asChild({ context: { run } }: RunToExplain, explanation: Explanation): ExplainedChild {
  const { because, nextAt } = explanation;
  const { can: _, ...shown } = bodyOf(explanation);
  const branch = run.parentBranchId;
  const named = { run_id: run.id, workflow_id: run.workflowId, ...(branch !== undefined && { branch_id: branch }) };
  return {
    ...{ runId: run.id, because, data: { ...named, ...shown } },
    ...(branch !== undefined && { branch }),
    ...(nextAt !== undefined && { nextAt }),
  };
}

function bodyOf({ state, because, waitingFor, since, nextAt, can }: Explanation): JsonObject {
  const times = { since: formatInstant(since), ...(nextAt !== undefined && { next_at: formatInstant(nextAt) }) };
  return { state, because, waiting_for: waitingFor, ...times, can };
}
