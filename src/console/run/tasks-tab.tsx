// The user tasks of a run and of its branches and items. They are submitted on the page of tasks.
import { Link } from "wouter";
import type { List, UserTask } from "../browser/resources.js";
import { Answer } from "../parts/notes.js";
import { Pager, useOffset } from "../parts/pager.js";
import { Scroll } from "../parts/scroll.js";
import { When } from "../parts/values.js";
import { type Names, nameIn } from "../story/words.js";
import { useOfRun } from "./data.js";
import type { TabProps } from "./moment.js";

export function TasksTab({ run, definition }: TabProps) {
  const tasks = useOfRun<List<UserTask>>(run, "user_tasks", { limit: 50, offset: useOffset("page") });
  return (
    <Answer of={tasks}>
      {(list) =>
        list.total === 0 ? (
          <p className="quiet">The run has opened no task.</p>
        ) : (
          <>
            <p>
              <Link href={`/tasks?run_id=${run.id}`}>Open these tasks in the inbox</Link>
            </p>
            <Tasks tasks={list.items} names={definition?.names} />
            <Pager of={list} name="page" label="tasks" />
          </>
        )
      }
    </Answer>
  );
}

function Tasks({ tasks, names }: { tasks: readonly UserTask[]; names: Names }) {
  return (
    <Scroll label="Tasks of the run">
      <table>
        <thead>
          <tr>
            <th scope="col">Task</th>
            <th scope="col">Step</th>
            <th scope="col">Assignee</th>
            <th scope="col">Status</th>
            <th scope="col">Opened</th>
            <th scope="col">Due</th>
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <tr key={task.id}>
              <td>
                <Link href={`/tasks?run_id=${task.run_id}&task=${task.id}&status=any`}>{task.title ?? task.id}</Link>
              </td>
              <td title={task.step_id}>{nameIn(names, task.step_id)}</td>
              <td>{task.assignee}</td>
              <td>
                {task.status}
                {task.submitted_by !== undefined && ` by ${task.submitted_by}`}
              </td>
              <td>
                <When at={task.opened_at} />
              </td>
              <td>
                <When at={task.due_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
