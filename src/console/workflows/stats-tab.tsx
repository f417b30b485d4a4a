// How a workflow does: ends over time, the share that succeeded, and how long runs and steps took, as plots and as numbers. Hours and version are in the address.
import { useMemo } from "react";
import { numberIn, useAddress } from "../browser/address.js";
import type { Performance, Workflow } from "../browser/resources.js";
import type { StepNames } from "../graph/names.js";
import { stepNames } from "../graph/names.js";
import { Answer } from "../parts/notes.js";
import { type Line, Plot } from "../parts/plot.js";
import { counted } from "../parts/plural.js";
import { duration } from "../parts/values.js";
import { rates, seconds, successRate, sum } from "./figures.js";
import { percent, usePerformance } from "./reading.js";
import { StepDurations } from "./step-durations.js";

const DAY = 24;
const SPANS: readonly (readonly [hours: number, name: string])[] = [
  [1, "the last hour"],
  [6, "the last 6 hours"],
  [DAY, "the last day"],
  [168, "the last week"],
];

export default function StatsTab({ workflow: { id, steps } }: { workflow: Workflow }) {
  const [parameters] = useAddress();
  const version = numberIn(parameters, "version");
  const hours = numberIn(parameters, "hours") ?? DAY;
  const names = useMemo(() => stepNames(steps), [steps]);
  return (
    <>
      <Span hours={hours} version={version} />
      <Answer of={usePerformance(id, { version, hours })}>{(found) => <Figures of={found} names={names} />}</Answer>
    </>
  );
}

function Span({ hours, version }: { hours: number; version: number | undefined }) {
  const [, change] = useAddress();
  return (
    <div className="row">
      <label>
        Over
        <select value={hours} onChange={({ target }) => change({ hours: target.value })}>
          {SPANS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <p className="quiet">
        {version === undefined ? "Of all versions." : `Of version ${version}.`} Dry runs and child runs do not count.
      </p>
      {version !== undefined && (
        <button type="button" onClick={() => change({ version: undefined })}>
          All versions
        </button>
      )}
    </div>
  );
}

function Figures({ of, names }: { of: Performance; names: StepNames }) {
  const lines = useMemo(() => linesOf(of), [of]);
  return (
    <>
      <InWords of={of} />
      <div className="plots">
        <Plot label="Runs that ended, a minute" at={lines.at} lines={lines.ends} />
        <Plot label="Share that succeeded" at={lines.at} lines={lines.success} format={percent.format} />
      </div>
      <StepDurations steps={of.steps} names={names} />
      <p className="quiet">
        Durations and steps are those of {counted(of.runs_read, "run, branch or item", "runs, branches and items")}
        {of.is_sample ? ", the newest of more" : ""}. {of.count_is_lower_bound && "More runs ended than were counted."}
      </p>
    </>
  );
}

function linesOf({ buckets, bucket_ms }: Performance) {
  const line = (name: "succeeded" | "failed" | "cancelled", tone: Line["tone"]): Line => ({
    ...{ name, tone },
    values: rates(buckets, bucket_ms, name),
  });
  return {
    at: seconds(buckets),
    ends: [line("succeeded", "good"), line("failed", "bad"), line("cancelled", "wait")],
    success: [{ name: "succeeded", tone: "good", values: buckets.map(successRate) } satisfies Line],
  };
}

function InWords({ of: { buckets, run_ms: run } }: { of: Performance }) {
  const ended = sum(buckets);
  const rate = successRate(ended);
  return (
    <dl>
      <dt>Succeeded</dt>
      <dd>{ended.succeeded.toLocaleString()}</dd>
      <dt>Failed</dt>
      <dd>{ended.failed.toLocaleString()}</dd>
      <dt>Cancelled</dt>
      <dd>{ended.cancelled.toLocaleString()}</dd>
      <dt>Share that succeeded</dt>
      <dd>{rate === undefined ? "no run ended" : percent.format(rate)}</dd>
      <dt>A run takes</dt>
      <dd>
        {duration(run.p50)} or less in 50% of all runs, {duration(run.p90)} in 90%, {duration(run.p99)} in 99%
      </dd>
    </dl>
  );
}
