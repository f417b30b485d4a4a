// How long steps took: a table of percentiles, each with a bar as long as its share of the longest. The bars repeat the numbers.
import type { Performance } from "../browser/resources.js";
import type { StepNames } from "../graph/names.js";
import { Scroll } from "../parts/scroll.js";
import { duration } from "../parts/values.js";

type Step = Performance["steps"][number];

export function StepDurations({ steps, names }: { steps: readonly Step[]; names: StepNames }) {
  if (steps.length === 0) return <p className="quiet">No step ended in this time.</p>;
  const longest = Math.max(1, ...steps.map(({ p99_ms = 0 }) => p99_ms));
  return (
    <section aria-labelledby="durations">
      <h2 id="durations">Durations of steps</h2>
      <Scroll label="Durations">
        <table className="durations">
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col">Ended</th>
              <th scope="col">Failed</th>
              <th scope="col">50% within</th>
              <th scope="col">90% within</th>
              <th scope="col">99% within</th>
              <th scope="col" className="bars">
                Compared
              </th>
            </tr>
          </thead>
          <tbody>
            {steps.map((step) => (
              <Row key={step.step_id} step={step} name={names.get(step.step_id) ?? step.step_id} longest={longest} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Row({ step, name, longest }: { step: Step; name: string; longest: number }) {
  const { count, failed, p50_ms, p90_ms, p99_ms } = step;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{count.toLocaleString()}</td>
      <td className={failed > 0 ? "fault" : undefined}>{failed.toLocaleString()}</td>
      <td>{duration(p50_ms)}</td>
      <td>{duration(p90_ms)}</td>
      <td>{duration(p99_ms)}</td>
      <td className="bars">
        <Bars of={[p99_ms, p90_ms, p50_ms]} longest={longest} />
      </td>
    </tr>
  );
}

/** The longest lies behind the others. */
const Bars = ({ of, longest }: { of: readonly (number | undefined)[]; longest: number }) => (
  <span className="bar" aria-hidden="true">
    {of.map((ms = 0, nth) => (
      <span key={PERCENTILES[nth]} className={PERCENTILES[nth]} style={{ width: `${(100 * ms) / longest}%` }} />
    ))}
  </span>
);

const PERCENTILES = ["p99", "p90", "p50"];
