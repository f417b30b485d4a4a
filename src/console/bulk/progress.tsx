// How far a job is: a bar, and the numbers in words.
import type { BulkJob } from "../browser/resources.js";
import { counted } from "../parts/plural.js";

const LOOKS: Readonly<Record<BulkJob["state"], string>> = {
  running: "tone-running",
  done: "tone-succeeded",
  stopped: "tone-paused",
};

export function Progress({ job }: { job: BulkJob }) {
  const { state, matched, done, refused } = job;
  return (
    <div className="progress">
      <span className={`state ${LOOKS[state]}`}>{state}</span>
      <progress max={Math.max(1, matched)} value={matched === 0 ? 1 : done + refused} aria-label="Runs acted on" />
      <span>
        {(done + refused).toLocaleString()} of {counted(matched, "run")}
        {refused > 0 && <b className="refusals">, {refused.toLocaleString()} refused</b>}
      </span>
    </div>
  );
}
