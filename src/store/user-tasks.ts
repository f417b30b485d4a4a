// Reads of user tasks: lists of them as clients see them, and whose task one is. Nothing here writes: tasks are opened and
// closed by the commits of their runs.
import type { Fragment, Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { type Page, type PageQuery, parsedText, present, readPage, timeText } from "./page.js";

export const TASK_STATUSES = ["open", "submitted", "expired"] as const;
type TaskStatus = (typeof TASK_STATUSES)[number];

export interface TaskFilter {
  /** The run with its branches and items. */
  readonly runId?: string;
  readonly assignee?: string;
  readonly status?: TaskStatus;
}

interface TaskRow {
  readonly id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly assignee: string;
  readonly title: string | null;
  readonly status: TaskStatus;
  readonly opened_at: string;
  readonly due_at: string | null;
  readonly form_schema: string | null;
  readonly submitted_at: string | null;
  readonly submitted_by: string | null;
  readonly result: string | null;
}

/** The oldest first: who works through the list takes what has waited longest. */
export function listUserTasks(sql: Sql, filter: TaskFilter, page: PageQuery): Promise<Page<JsonObject>> {
  const where = sql`from user_tasks t where ${conditions(sql, filter)}`;
  return readPage<TaskRow, JsonObject>(
    sql,
    {
      name: "user_tasks",
      key: [
        { column: "opened_at", kind: "time" },
        { column: "id", kind: "uuid" },
      ],
      // The page is picked before its times become text: as columns of the page they are compared, and found by an index.
      rows: ({ after, order, window }) => sql`
        select t.id, t.run_id, t.step_id, t.assignee, t.title, ${timeText(sql, "t.opened_at")}, ${timeText(sql, "t.due_at")},
          t.form_schema::text as form_schema, ${timeText(sql, "t.submitted_at")}, t.submitted_by, t.result::text as result,
          case when t.submitted_at is not null then 'submitted' when ${lapsed(sql)} then 'expired' else 'open' end as status
        from (select t.* ${where} and ${after} order by ${order} ${window}) t`,
      matching: where,
      item: taskItem,
      position: (row) => [row.opened_at, row.id],
    },
    page,
  );
}

function taskItem({ id, run_id, step_id, assignee, title, status, ...row }: TaskRow): JsonObject {
  const { opened_at, due_at, submitted_at, submitted_by } = row;
  const [form_schema, result] = [parsedText(row.form_schema), parsedText(row.result)];
  const described = { id, run_id, step_id, assignee, title, status, opened_at, due_at, form_schema };
  return present({ ...described, submitted_at, submitted_by, result });
}

function conditions(sql: Sql, { runId, assignee, status }: TaskFilter): Fragment {
  const all: Fragment[] = [];
  if (assignee !== undefined) all.push(sql`t.assignee = ${assignee}`);
  if (runId !== undefined) all.push(sql`t.run_id in (${family(sql, runId)})`);
  if (status === "submitted") all.push(sql`t.submitted_at is not null`);
  if (status === "expired") all.push(sql`t.submitted_at is null and ${lapsed(sql)}`);
  if (status === "open") all.push(sql`t.closed_at is null and not ${lapsed(sql)}`);
  return all.reduce((left, right) => sql`${left} and ${right}`, sql`true`);
}

/** Closed, or past its time where its run has not looked at it yet: a submit would be refused. */
const lapsed = (sql: Sql) => sql`(t.closed_at is not null or coalesce(t.due_at <= now(), false))`;

/** The run with its branches and items, not its sub-sagas: those are addressed by their own ids. */
function family(sql: Sql, runId: string): Fragment {
  return sql`
    with recursive family(id) as (
      select ${runId}::uuid
      union all
      select child.id from runs child join family on child.parent_run_id = family.id where child.parent_branch_id is not null
    ) select id from family`;
}

/** The run that waits for the task, if that is `runId` or a branch or item below it. */
export async function taskOwner(sql: Sql, taskId: string, runId: string): Promise<string | undefined> {
  const [row] = await sql<{ run_id: string }[]>`
    with recursive upward(id) as (
      select run_id from user_tasks where id = ${taskId}
      union all
      select r.parent_run_id from runs r join upward on r.id = upward.id where r.parent_branch_id is not null
    )
    select run_id from user_tasks where id = ${taskId} and ${runId} in (select id from upward)`;
  return row?.run_id;
}
