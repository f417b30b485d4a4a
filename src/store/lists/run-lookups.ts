// Lookups of runs by clients. Those that wait for a session when another lookup gets one are read with it, in one statement: under load the
// way of a statement to the server and back costs more than the run that it reads. Two principals never share one. Sessions, bounds and times are
// read-pool.ts.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import type { Reach } from "./reach.js";
import type { Reader, ReadPool } from "./read-pool.js";
import { READ_TOGETHER, type RunView, readRuns } from "./runs.js";

interface Lookup {
  readonly runId: RunId;
  readonly reach: Reach;
  /** The runs of the statement that reads it. Absent: it waits for one. */
  views?: Promise<ReadonlyMap<RunId, RunView>>;
}

export class RunLookups {
  private readonly waiting = new Set<Lookup>();

  constructor(
    private readonly readPool: Pick<ReadPool, "look">,
    private readonly readTogether: typeof readRuns = readRuns,
  ) {}

  /** Undefined: there is no such run. */
  async run(runId: RunId, reader: Reader): Promise<RunView | undefined> {
    const lookup: Lookup = { runId, reach: reader.reach };
    this.waiting.add(lookup);
    try {
      return await this.readPool.look(reader, (sql) => this.read(lookup, sql));
    } finally {
      this.waiting.delete(lookup);
    }
  }

  /** The statement of another lookup may have ended with its client: then this one has its own. */
  private async read(lookup: Lookup, sql: Sql): Promise<RunView | undefined> {
    const shared = await lookup.views?.catch(() => undefined);
    const views = shared ?? (await this.readGroup(lookup, sql));
    return views.get(lookup.runId);
  }

  private readGroup(first: Lookup, sql: Sql): Promise<ReadonlyMap<RunId, RunView>> {
    this.waiting.delete(first);
    // A reach is one object for each principal.
    const others = [...this.waiting].filter(({ reach }) => reach === first.reach);
    const group = [first, ...others.slice(0, READ_TOGETHER - 1)];
    const runIds = group.map(({ runId }) => runId);
    const views = this.readTogether(sql, first.reach, runIds);
    for (const lookup of group) {
      this.waiting.delete(lookup);
      lookup.views = views;
    }
    return views;
  }
}
