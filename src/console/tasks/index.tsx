// The inbox of user tasks: what waits for a person, the longest open first, and the task that is being done. What happens to a task after
// its submit is on the page of its run.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { Link, useSearchParams } from "wouter";
import { get } from "../browser/client.js";
import type { List, UserTask } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { FilterChoice, FilterText } from "../parts/form-filter.js";
import { Answer } from "../parts/notes.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { TaskPane } from "./task.js";
import { Age, Due } from "./times.js";
import "./tasks.css";

const REFRESH_MS = 3_000;
const PAGE_SIZE = 100;
const STATUSES = ["open", "submitted", "expired"];

export default function TasksPage() {
  const [search, setSearch] = useSearchParams();
  const filters = filtersOf(search);
  const tasks = useQuery({
    queryKey: ["user_tasks", filters],
    queryFn: ({ signal }) => get<List<UserTask>>("/user_tasks", { query: filters, signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const open = search.get("task");
  const shown = tasks.data?.items.find(({ id }) => id === open);
  useTitle(shown && (shown.title ?? shown.step_id), "Tasks");
  const set = (name: string, value: string) =>
    setSearch((now) => withParameter(now, name, value), { replace: name !== "cursor" });
  return (
    <>
      <h1>Tasks</h1>
      <Filters search={search} onChange={set} />
      <div className={open === null ? "tasks" : "tasks with-task"}>
        <Answer of={tasks}>{(page) => <Inbox page={page} search={search} onNext={(to) => set("cursor", to)} />}</Answer>
        {open !== null && <TaskPane key={open} id={open} listed={tasks.data?.items} runId={search.get("run_id")} />}
      </div>
    </>
  );
}

/** All statuses are asked for by `any`, because an absent one means the open tasks. */
function filtersOf(search: URLSearchParams) {
  const status = search.get("status") ?? "open";
  return {
    assignee: search.get("assignee") ?? undefined,
    run_id: search.get("run_id") ?? undefined,
    cursor: search.get("cursor") ?? undefined,
    ...(STATUSES.includes(status) && { status }),
    limit: PAGE_SIZE,
  };
}

/** Another filter has other pages. */
function withParameter(now: URLSearchParams, name: string, value: string): URLSearchParams {
  const next = new URLSearchParams(now);
  if (name !== "task") next.delete("cursor");
  if (value === "") next.delete(name);
  else next.set(name, value);
  return next;
}

function Filters({ search, onChange }: { search: URLSearchParams; onChange: (name: string, value: string) => void }) {
  const field = (name: string, label: string) => ({
    label,
    value: search.get(name) ?? "",
    onChange: (value: string) => onChange(name, value),
  });
  const status = { ...field("status", "Status"), value: search.get("status") ?? "open" };
  return (
    <search className="row">
      <FilterChoice {...status} options={[...STATUSES, "any"].map((name) => [name, name])} />
      <FilterText {...field("assignee", "Assignee")} />
      <FilterText {...field("run_id", "Run")} />
    </search>
  );
}

interface InboxProps {
  readonly page: List<UserTask>;
  readonly search: URLSearchParams;
  readonly onNext: (cursor: string) => void;
}

function Inbox({ page, search, onNext }: InboxProps) {
  const heading = useId();
  const seesTenants = useSeesTenants(page.items);
  const count = `${page.total.toLocaleString()}${page.total_is_lower_bound ? " or more" : ""}`;
  return (
    <section aria-labelledby={heading} className="inbox">
      <p id={heading} className="quiet" role="status">
        {page.total === 0 ? noneIn(search) : `${count} ${page.total === 1 ? "task" : "tasks"}`}
      </p>
      <ul>
        {page.items.map((task) => (
          <Entry key={task.id} {...{ task, search, seesTenants }} />
        ))}
      </ul>
      {page.next_cursor !== undefined && (
        <button type="button" onClick={() => onNext(page.next_cursor ?? "")}>
          Next page
        </button>
      )}
    </section>
  );
}

/** The address of the whole inbox has no filter. */
const noneIn = (search: URLSearchParams): string =>
  ["status", "assignee", "run_id"].some((name) => search.has(name))
    ? "There are no such tasks"
    : "No task is open. A run that comes to a user task puts it here.";

interface EntryProps extends Pick<InboxProps, "search"> {
  readonly task: UserTask;
  readonly seesTenants: boolean;
}

function Entry({ task, search, seesTenants }: EntryProps) {
  const isOpen = search.get("task") === task.id;
  return (
    <li>
      <Link href={`/tasks?${withParameter(search, "task", task.id)}`} aria-current={isOpen ? "true" : undefined}>
        {task.title ?? task.step_id}
      </Link>
      <p className="quiet">
        {task.assignee} · <Age task={task} />
        <Due task={task} />
      </p>
      {seesTenants && (
        <p className="quiet">
          tenant <Tenant id={task.tenant_id} />
        </p>
      )}
    </li>
  );
}
