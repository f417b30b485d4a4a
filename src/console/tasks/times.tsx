// The times of a task in words: how long it waits, and when it is due. It reads the browser's clock, and is drawn anew with each refresh.
import type { UserTask } from "../browser/resources.js";
import { fullTime } from "../parts/clock.js";
import { duration, When } from "../parts/values.js";

const since = (time: string) => Math.max(0, Date.now() - Date.parse(time));

export function Age({
  task: { status, opened_at: opened, submitted_at: submitted, submitted_by: by },
}: {
  task: UserTask;
}) {
  if (submitted !== undefined)
    return (
      <>
        submitted {by !== undefined && `by ${by} `}
        <When at={submitted} />
      </>
    );
  return (
    <>
      {status}, since{" "}
      <time dateTime={opened} title={fullTime(opened)}>
        {duration(since(opened))}
      </time>
    </>
  );
}

export function Due({ task: { status, due_at: due } }: { task: UserTask }) {
  if (due === undefined || status === "submitted") return null;
  const left = Date.parse(due) - Date.now();
  return (
    <>
      {" · "}
      <time dateTime={due} title={fullTime(due)} className={left < 0 ? "overdue" : undefined}>
        {left < 0 ? `overdue by ${duration(-left)}` : `due in ${duration(left)}`}
      </time>
    </>
  );
}
