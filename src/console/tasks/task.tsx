// One task: what it asks for, the run that waits for it, and its form. A task that is no longer open shows what was submitted.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { useMay } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { ApiError, get, part, post } from "../browser/client.js";
import { definitionQuery } from "../browser/definitions.js";
import { useInView } from "../browser/in-view.js";
import type { List, Run, UserTask, Workflow } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import { stepName } from "../graph/names.js";
import { Answer, Refused } from "../parts/notes.js";
import { Json, State, When } from "../parts/values.js";
import { TaskForm } from "./task-form.js";
import { Age, Due } from "./times.js";

const REFRESH_MS = 3_000;
const SEARCHED = 500;

interface PaneProps {
  readonly id: string;
  readonly listed: readonly UserTask[] | undefined;
  readonly runId: string | null;
}

/** A task that is not in the list at hand is looked for among all: it may have been submitted meanwhile. */
export function TaskPane({ id, listed, runId }: PaneProps) {
  const inList = listed?.find((task) => task.id === id);
  const found = useQuery({
    queryKey: ["user_task", id, runId],
    queryFn: ({ signal }) => taskOf(id, runId, signal),
    enabled: listed !== undefined && inList === undefined,
    refetchInterval: REFRESH_MS,
  });
  const task = inList ?? found.data;
  if (task === null) return <p>There is no such task among the first {SEARCHED}. Filter by its run to find it.</p>;
  return <Answer of={{ data: task, error: found.error }}>{(task) => <Task task={task} />}</Answer>;
}

async function taskOf(id: string, runId: string | null, signal: AbortSignal): Promise<UserTask | null> {
  const query = { limit: SEARCHED, run_id: runId ?? undefined };
  const { items } = await get<List<UserTask>>("/user_tasks", { query, signal });
  return items.find((task) => task.id === id) ?? null;
}

function Task({ task }: { task: UserTask }) {
  const run = useQuery({
    queryKey: ["run", task.run_id],
    queryFn: ({ signal }) => get<Run>(`/sagas/${part(task.run_id)}`, { signal }),
    refetchInterval: REFRESH_MS,
  });
  const shown = useInView<HTMLElement>(task.id);
  return (
    <section ref={shown} className="card task" aria-labelledby="task-title">
      <h2 id="task-title">{task.title ?? task.step_id}</h2>
      <p className="quiet">
        For {task.assignee} · <Age task={task} />
        <Due task={task} />
      </p>
      <Answer of={run}>{(run) => <TaskOfRun task={task} run={run} />}</Answer>
    </section>
  );
}

/** Whether it is an approval is in the definition: the task does not say. */
function TaskOfRun({ task, run }: { task: UserTask; run: Run }) {
  const { workflow_id: id, version } = run;
  const workflow = useQuery(definitionQuery(id, version));
  return (
    <>
      <Facts run={run} task={task} workflow={workflow.data} />
      {task.status === "open" ? <Open task={task} workflow={workflow} /> : <Closed task={task} />}
    </>
  );
}

function Open({ task, workflow }: { task: UserTask; workflow: { data: Workflow | undefined; error: Error | null } }) {
  const may = useMay();
  if (!may("submitUserTask")) return <p role="status">The task is open. The role operator may submit it.</p>;
  return (
    <Answer of={workflow}>{(workflow) => <OpenTask task={task} isApproval={isApproval(workflow, task)} />}</Answer>
  );
}

const isApproval = ({ steps }: Workflow, { step_id }: UserTask) =>
  (steps as readonly { id?: string; type?: string }[]).some(
    (step) => step.id === step_id && STEP_BOOK.get(step.type ?? "")?.decides !== undefined,
  );

const Facts = ({ run, task, workflow }: { run: Run; task: UserTask; workflow: Workflow | undefined }) => (
  <dl>
    <dt>Run</dt>
    <dd>
      <Link href={`/runs/${run.id}`}>{run.business_key ?? run.id}</Link>{" "}
      <State state={run.state} reason={run.paused_reason} />
    </dd>
    <dt>Workflow</dt>
    <dd>
      <Link href={`/workflows/${part(run.workflow_id)}`} title={run.workflow_id}>
        {workflow?.name ?? run.workflow_id}
      </Link>{" "}
      <span className="quiet">version {run.version}</span>
    </dd>
    <dt>Step</dt>
    <dd title={task.step_id}>{stepName(workflow?.steps ?? [], task.step_id, run)}</dd>
    <dt>Opened</dt>
    <dd>
      <When at={task.opened_at} />
    </dd>
  </dl>
);

const Closed = ({ task }: { task: UserTask }) => (
  <>
    <p role="status">
      {task.status === "submitted" ? "The task is submitted." : "The task has expired: nobody can submit it."}
    </p>
    {task.result && <Json value={task.result} label="Result" />}
  </>
);

function OpenTask({ task, isApproval }: { task: UserTask; isApproval: boolean }) {
  const [by, setBy] = useState(() => localStorage.getItem(NAME) ?? "");
  const command = useSubmit(task);
  const submit = (result: unknown) => {
    localStorage.setItem(NAME, by);
    command.mutate({ result, ...(by.trim() !== "" && { submitted_by: by.trim() }) });
  };
  const details = command.error instanceof ApiError ? command.error.details : [];
  return (
    <>
      {command.error && details.length === 0 && <Refused error={command.error} />}
      {command.isSuccess && <p role="status">Submitted.</p>}
      <TaskForm task={task} isApproval={isApproval} onSubmit={submit} problems={details} isBusy={command.isPending}>
        <label className="by">
          Submitted by
          <input value={by} maxLength={2 * 256} autoComplete="name" onChange={({ target }) => setBy(target.value)} />
        </label>
      </TaskForm>
    </>
  );
}

const useSubmit = ({ id, run_id }: UserTask) =>
  useAct(
    (body: object, idempotencyKey) =>
      post(`/sagas/${part(run_id)}/user_task/${part(id)}/submit`, body, { idempotencyKey }),
    { changes: ["user_tasks", "user_task", "run"] },
  );

/** The name under which the browser remembers who submits. */
const NAME = "saga.submitted_by";
