// Runs on their way to clients. Where an action waits for a worker, the reason is added here: it is in no row, because it follows from
// the workers that are connected now.
import { isObject, type JsonObject, parseActionName, type RunId } from "../../machines/index.js";
import type { CalledAction, Workers } from "../run/ports.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { Reads } from "../store/lists/reads.js";
import { RunLookups } from "../store/lists/run-lookups.js";
import { listRuns, type RunView } from "../store/lists/runs.js";

export class RunReader {
  private readonly lookups: RunLookups;

  constructor(
    private readonly reads: Reads,
    private readonly workers: Pick<Workers, "obstacles">,
  ) {
    this.lookups = new RunLookups(reads);
  }

  /** `gone`: its client. */
  async read(runId: RunId, gone: AbortSignal): Promise<RunView | undefined> {
    const view = await this.lookups.run(runId, gone);
    if (!view) return undefined;
    const [run = view.run] = await this.withReasons([view.run]);
    return { ...view, run };
  }

  async list(
    filter: RunFilter,
    { page, newestFirst }: { readonly page: PageQuery; readonly newestFirst: boolean },
    gone: AbortSignal,
  ): Promise<Page<JsonObject>> {
    const found = await this.reads.run(gone, (sql) => listRuns(sql, filter, page, newestFirst));
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
