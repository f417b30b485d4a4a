// Runs on their way to clients. Where an action waits for a worker, the reason is added here: it is in no row, because it follows from
// the workers that are connected now.
import { isObject, type JsonObject, parseActionName, type RunId } from "../../machines/index.js";
import type { CalledAction, Workers } from "../dispatch/workers.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { ReadPool } from "../store/lists/read-pool.js";
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

  /** `closed`: aborted when the client is gone. */
  async read(runId: RunId, closed: AbortSignal): Promise<RunView | undefined> {
    const view = await this.lookups.run(runId, closed);
    if (!view) return undefined;
    const [run = view.run] = await this.withReasons([view.run]);
    return { ...view, run };
  }

  async list(
    filter: RunFilter,
    { page, newestFirst }: { readonly page: PageQuery; readonly newestFirst: boolean },
    closed: AbortSignal,
  ): Promise<Page<JsonObject>> {
    const found = await this.readPool.run(closed, (sql) => listRuns(sql, filter, page, newestFirst));
    return { ...found, items: await this.withReasons(found.items) };
  }

  private async withReasons(runs: readonly JsonObject[]): Promise<readonly JsonObject[]> {
    const queued = runs.flatMap(({ queued_action: action }) => (isObject(action) ? calledAction(action) : []));
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

function calledAction({ action, transport }: JsonObject): CalledAction {
  const { service = String(action), name = "", version = 0 } = parseActionName(String(action)) ?? {};
  return { service, action: name, version, transport: transport as CalledAction["transport"] };
}
