// For how long runs are kept: what the definitions of their workflows say, within the bounds of the settings, and the setting for those that say
// nothing. The newest published version speaks for all runs of its workflow, also for those that ended under an older one.
import type { Sql } from "postgres";
import { type Json, retentionBounds, retentionDays } from "../../../machines/index.js";

export interface RunRetention {
  /** For workflows that say nothing. Absent: they are kept without a limit. */
  readonly runDays?: number;
  /** What definitions say is raised to the one, and lowered to the other. */
  readonly minDays?: number;
  readonly maxDays?: number;
}

export class Policies {
  private constructor(
    private readonly settings: RunRetention,
    /** `retention` of the documents that have it. */
    private readonly said: ReadonlyMap<string, Json>,
  ) {}

  /** In order: the newest published version; and if none is published any more, the newest that ever was. */
  static async read(sql: Sql, settings: RunRetention): Promise<Policies> {
    const rows = await sql<{ workflowId: string; retention: Json }[]>`
      select d.workflow_id as "workflowId", d.document->'retention' as retention
      from (
        select distinct on (workflow_id) definition_id from definitions where ever_published
        order by workflow_id, published desc, version desc
      ) latest join definitions d on d.definition_id = latest.definition_id
      where d.document->'retention' is not null`;
    return new Policies(settings, new Map(rows.map(({ workflowId, retention }) => [workflowId, retention])));
  }

  /** Days from the end of a run. Undefined: it is kept without a limit. */
  daysOf(workflowId: string, endedAs: string): number | undefined {
    const said = retentionDays(this.said.get(workflowId), endedAs);
    return said === undefined ? this.settings.runDays : this.bounded(said);
  }

  /** The longest that any run is kept. Infinity: some have no limit. */
  get longest(): number {
    return Math.max(this.settings.runDays ?? Number.POSITIVE_INFINITY, ...this.bounds().map(({ most }) => most));
  }

  /** The shortest. Undefined: all runs are kept without a limit. */
  get shortest(): number | undefined {
    const days = [this.settings.runDays ?? [], ...this.bounds().map(({ least }) => least)].flat();
    return days.length === 0 ? undefined : Math.min(...days);
  }

  private bounds(): readonly { readonly least: number; readonly most: number }[] {
    return [...this.said.values()].flatMap((stored) => {
      const bounds = retentionBounds(stored);
      return bounds ? [{ least: this.bounded(bounds.least), most: this.bounded(bounds.most) }] : [];
    });
  }

  private bounded(days: number): number {
    const { minDays = 1, maxDays = Number.POSITIVE_INFINITY } = this.settings;
    return Math.min(maxDays, Math.max(minDays, days));
  }
}
