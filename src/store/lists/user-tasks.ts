// Reads of user tasks: lists of them as clients see them, and the run that a task belongs to. Nothing here writes: tasks are opened and
// closed by the commits of their runs.
import { and, eq, isNotNull, isNull, not, type SQL, sql } from "drizzle-orm";
import type { Sql } from "postgres";
import type { JsonObject, RunId } from "../../../machines/index.js";
import { query } from "../engine/query.js";
import { runs, userTasks } from "../schema.js";
import { present } from "./item.js";
import { inRange, type Page, type PageQuery, readPage } from "./page.js";
import { ofRun, type Reach } from "./reach.js";

export const TASK_STATUSES = ["open", "submitted", "expired"] as const;
type TaskStatus = (typeof TASK_STATUSES)[number];

export interface TaskFilter {
  /** The run with its branches and items. */
  readonly runId?: RunId;
  readonly assignee?: string;
  readonly status?: TaskStatus;
}

/** Closed, or past its time where its run has not seen that yet: a submit would be refused. */
const lapsed = sql`(${userTasks.closedAt} is not null or coalesce(${userTasks.dueAt} <= now(), false))`;

const columns = {
  id: userTasks.id,
  run_id: userTasks.runId,
  tenant_id: sql<string | null>`(select ${runs.tenantId} from ${runs} where ${runs.id} = ${userTasks.runId})`.as(
    "tenant_id",
  ),
  step_id: userTasks.stepId,
  assignee: userTasks.assignee,
  title: userTasks.title,
  status: sql<TaskStatus>`
    case when ${userTasks.submittedAt} is not null then 'submitted' when ${lapsed} then 'expired' else 'open' end`.as(
    "status",
  ),
  opened_at: userTasks.openedAt,
  due_at: userTasks.dueAt,
  form_schema: userTasks.formSchema,
  submitted_at: userTasks.submittedAt,
  submitted_by: userTasks.submittedBy,
  result: userTasks.result,
};

/** The oldest first: the task that has waited longest is at the top. */
export function listUserTasks(
  database: Sql,
  reach: Reach,
  filter: TaskFilter,
  page: PageQuery,
): Promise<Page<JsonObject>> {
  const where = and(conditions(filter), ofRun(reach, sql`${userTasks.runId}`));
  return readPage(
    database,
    {
      name: "user_tasks",
      reach,
      key: [
        { column: userTasks.openedAt, kind: "time" },
        { column: userTasks.id, kind: "uuid" },
      ],
      rows: (range) => inRange(query(database).select(columns).from(userTasks).$dynamic(), where, range),
      matching: { from: userTasks, where },
      item: (task) => present(task),
      position: ({ opened_at, id }) => [opened_at.toISOString(), id],
    },
    page,
  );
}

function conditions({ runId, assignee, status }: TaskFilter): SQL | undefined {
  return and(
    assignee === undefined ? undefined : eq(userTasks.assignee, assignee),
    runId === undefined ? undefined : sql`${userTasks.runId} in (${family(runId)})`,
    status && STATUS[status],
  );
}

const STATUS: Readonly<Record<TaskStatus, SQL | undefined>> = {
  submitted: isNotNull(userTasks.submittedAt),
  expired: and(isNull(userTasks.submittedAt), lapsed),
  open: and(isNull(userTasks.closedAt), not(lapsed)),
};

/** The run with its branches and items, not its sub-sagas: those are addressed by their own ids. */
function family(runId: RunId): SQL {
  return sql`
    with recursive family(id) as (
      select ${runId}::uuid
      union all
      select child.id from runs child join family on child.parent_run_id = family.id where child.parent_branch_id is not null
    ) select id from family`;
}

export interface TaskOwner {
  readonly runId: RunId;
  readonly tenantId: string | null;
  readonly workflowId: string;
}

/** The run that waits for the task, if that is `runId` or a branch or item below it. */
export async function taskOwner(database: Sql, taskId: string, runId: RunId): Promise<TaskOwner | undefined> {
  const [row] = await database<TaskOwner[]>`
    with recursive upward(id) as (
      select run_id from user_tasks where id = ${taskId}
      union all
      select r.parent_run_id from runs r join upward on r.id = upward.id where r.parent_branch_id is not null
    )
    select owner.id as "runId", owner.tenant_id as "tenantId", owner.workflow_id as "workflowId"
    from user_tasks t join runs owner on owner.id = t.run_id where t.id = ${taskId} and ${runId} in (select id from upward)`;
  return row;
}
