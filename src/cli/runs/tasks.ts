// `saga tasks` and `saga submit`: what waits for a person, and the answer. Forms are filled in as JSON.
import { randomUUID } from "node:crypto";
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, objectGiven } from "../frame/input.js";
import type { Page } from "../frame/service.js";
import { ago, type Column, safe, table } from "../frame/text.js";

interface Task {
  readonly id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly assignee: string;
  readonly title?: string;
  readonly status: string;
  readonly opened_at: string;
  readonly due_at?: string;
  readonly form_schema?: JsonObject;
}

const COLUMNS: readonly Column[] = [
  { title: "TASK" },
  { title: "RUN" },
  { title: "ASSIGNEE", least: 8 },
  { title: "TITLE", least: 8 },
  { title: "STATUS" },
  { title: "OPEN" },
];

export async function tasks(context: Context): Promise<ExitCode | undefined> {
  const limit = context.integer("limit", { min: 1, max: 500 }) ?? 20;
  const status = context.text("status") ?? "open";
  const service = await context.service();
  const query = { assignee: context.text("assignee"), run_id: context.text("run"), status, limit };
  const page = await service.get<Page<Task>>("/user_tasks", query);
  const { terminal } = context;
  if (context.json) {
    terminal.printJson(page);
    return EXIT.succeeded;
  }
  if (page.items.length === 0) {
    terminal.note(`saga: no task is ${status}`);
    return EXIT.succeeded;
  }
  const now = Date.now();
  const rows = page.items.map((task) => [
    { text: task.id },
    { text: task.run_id },
    { text: safe(task.assignee) },
    { text: safe(task.title ?? task.step_id) },
    { text: task.status },
    { text: ago(task.opened_at, now) },
  ]);
  terminal.print(table(COLUMNS, rows, terminal.width).join("\n"));
  if (page.total > page.items.length) terminal.note(`${page.items.length} of ${page.total}: --limit shows more`);
  return EXIT.succeeded;
}

export async function submit(context: Context): Promise<ExitCode | undefined> {
  const [runId, taskId] = [context.argument(0), context.argument(1)];
  const { terminal } = context;
  const given = context.text("result");
  const yes = context.flag("approve");
  const no = context.flag("reject");
  if ([given !== undefined, yes, no].filter(Boolean).length !== 1)
    throw context.wrong("one of --result, --approve and --reject is needed");
  const result = given === undefined ? { approved: yes } : await objectGiven("--result", given, terminal);
  const by = context.text("by");
  const service = await context.service();
  const path = `/sagas/${encodeURIComponent(runId)}/user_task/${encodeURIComponent(taskId)}/submit`;
  const body = { result, ...(by !== undefined && { submitted_by: by }) };
  const answer = await service.post<{ matched: boolean }>(path, body, { key: randomUUID() });
  if (context.json) terminal.printJson(answer);
  else
    terminal.print(
      answer.matched
        ? `task ${taskId} is submitted`
        : `task ${taskId} is submitted: its run stands still and takes it later`,
    );
  return EXIT.succeeded;
}
