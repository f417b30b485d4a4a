// The times of a task as its words say them. It reads the browser's clock, and is drawn anew with each refresh.
import type { UserTask } from "../browser/resources.js";
import { fullTime } from "../parts/clock.js";
import { When } from "../parts/values.js";
import { ageWords, dueWords, type Told } from "./age-words.js";

export const Age = ({ task }: { task: UserTask }) => <Time told={ageWords(task, Date.now())} />;

export function Due({ task }: { task: UserTask }) {
  const told = dueWords(task, Date.now());
  return (
    told && (
      <>
        {" · "}
        <Time told={told} />
      </>
    )
  );
}

const Time = ({ told: { words, at, showsTime, isLate } }: { told: Told }) =>
  showsTime ? (
    <>
      {words} <When at={at} />
    </>
  ) : (
    <time dateTime={at} title={fullTime(at)} className={isLate && "overdue"}>
      {words}
    </time>
  );
