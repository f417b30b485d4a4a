// Reads what a decision must know of the world outside its run (machines/facts.ts: a need). It reads committed rows only, after
// the run's own last commit, and changes nothing.
import type { Sql } from "postgres";
import {
  entryStep,
  type Fetched,
  type Need,
  type RunIdentity,
  type RunLimits,
  type WorkflowFact,
} from "../../machines/index.js";
import { eventsFor, newestEvent } from "../store/events.js";
import { endedChildren, keyedRun, livingChildren, namedRun, nextWaiter, unmatchedSignals } from "../store/family.js";
import { newestOwed, oldestSignal } from "../store/load.js";
import { startKey } from "./birth.js";
import type { Catalog } from "./ports.js";

/** A character of an output is at most this many bytes in the store. */
const BYTES_PER_CHARACTER = 6;

export class Reader {
  constructor(
    private readonly sql: Sql,
    private readonly catalog: Pick<Catalog, "published">,
    private readonly limits: RunLimits,
  ) {}

  async fetch(run: RunIdentity, need: Need): Promise<Fetched> {
    const { sql } = this;
    switch (need.kind) {
      case "signal":
        return { signal: await oldestSignal(sql, [run.id, ...(run.family ?? [])], need.name) };
      case "events":
        return { events: await eventsFor(sql, run, need) };
      case "newest_event":
        return { newestEvent: await newestEvent(sql, need.topic) };
      case "undo":
        return { undo: await newestOwed(sql, run.id, need.since) };
      case "ended":
        return { ended: await endedChildren(sql, run.id, need, this.limits.output * BYTES_PER_CHARACTER) };
      case "living":
        return { living: await livingChildren(sql, run.id, need.from) };
      case "workflow":
        return { workflow: await this.workflow(run, need) };
      case "target":
        return { target: await namedRun(sql, need.runId, run.tenantId) };
      case "waiter":
        return { waiter: await nextWaiter(sql, run, need.name) };
      case "unmatched":
        return { unmatched: await unmatchedSignals(sql, run, need.name) };
      case "keyed": {
        const { scope, key } = startKey({ ...run, workflowId: need.workflowId }, need.key) ?? { scope: "", key: "" };
        return { keyed: await keyedRun(sql, scope, key) };
      }
    }
  }

  /** Published, and for this tenant. */
  private async workflow(
    { tenantId }: RunIdentity,
    { workflowId, version }: Extract<Need, { kind: "workflow" }>,
  ): Promise<WorkflowFact | null> {
    const found = await this.catalog.published(workflowId, version);
    if (!found || (found.program.tenantId !== undefined && found.program.tenantId !== tenantId)) return null;
    const { program, definitionId } = found;
    return {
      workflowId,
      definitionId,
      version: program.version,
      timeoutMs: program.timeoutMs,
      inputSchema: program.inputSchema,
      enters: (entrypoint) => entryStep(program, entrypoint) !== undefined,
    };
  }
}
