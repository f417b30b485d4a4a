// Runs on their way to clients. Where an action waits for a worker, the reason is added here: it is in no row, because it follows from
// the workers that are connected now.
import { isObject, type Json, type JsonObject, parseActionName, type RunId } from "../../machines/index.js";
import type { CalledAction, Workers } from "../dispatch/workers.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { Reader, ReadPool } from "../store/lists/read-pool.js";
import { RunLookups } from "../store/lists/run-lookups.js";
import { listRuns, type RunView } from "../store/lists/runs.js";

export class RunReader {
  private readonly lookups: RunLookups;

  constructor(
    private readonly readPool: ReadPool,
    private readonly workers: Pick<Workers, "obstacles">,
  ) {
    this.lookups = new RunLookups(readPool);
  }

  /** Undefined: there is no such run for the reader. */
  async read(runId: RunId, reader: Reader): Promise<RunView | undefined> {
    const view = await this.lookups.run(runId, reader);
    if (!view) return undefined;
    const [run = view.run] = await this.withReasons([view.run]);
    return { ...view, run };
  }

  async list(
    filter: RunFilter,
    { page, newestFirst }: { readonly page: PageQuery; readonly newestFirst: boolean },
    reader: Reader,
  ): Promise<Page<JsonObject>> {
    const found = await this.readPool.run(reader, (sql, reach) => listRuns(sql, reach, filter, page, newestFirst));
    return { ...found, items: await this.withReasons(found.items) };
  }

  private async withReasons(runs: readonly JsonObject[]): Promise<readonly JsonObject[]> {
    const queued = runs.flatMap(({ queued_action: action, tenant_id: tenantId }) =>
      isObject(action) ? calledAction(action, tenantId) : [],
    );
    if (queued.length === 0) return runs;
    const obstacles = await this.workers.obstacles(queued);
    let nth = 0;
    return runs.map((run) =>
      isObject(run.queued_action)
        ? { ...run, queued_action: { ...run.queued_action, reason: obstacles[nth++]?.reason ?? "no_credit" } }
        : run,
    );
  }
}

/** With access on, not every worker serves the run's tenant. */
function calledAction({ action, transport }: JsonObject, tenantId: Json | undefined): CalledAction {
  const { service = String(action), name = "", version = 0 } = parseActionName(String(action)) ?? {};
  const called = { service, action: name, version, transport: transport as CalledAction["transport"] };
  return typeof tenantId === "string" ? { ...called, tenantId } : called;
}
