// Values as people read them: states, times, durations, JSON.
import type { Run, RunState } from "../browser/resources.js";
import { fullTime, timeText } from "./clock.js";
import { stateName } from "./state-words.js";

/** The state in words, and its reason. Colour alone says nothing. */
export function State({ state, reason }: { state: RunState; reason?: Run["paused_reason"] }) {
  const { word, tone, more } = stateName(state, reason);
  return (
    <span className={`state ${state} tone-${tone}`}>
      {word}
      {more !== undefined && <span className="reason"> {more}</span>}
    </span>
  );
}

export function When({ at }: { at: string | undefined }) {
  if (at === undefined) return <span className="quiet">–</span>;
  return (
    <time dateTime={at} title={fullTime(at)}>
      {timeText(at)}
    </time>
  );
}

const UNITS: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
];

export function duration(ms: number | undefined): string {
  if (ms === undefined) return "–";
  const [size, name] = UNITS.find(([size]) => ms >= size) ?? [1, "ms"];
  return `${(ms / size).toLocaleString(undefined, { maximumFractionDigits: size === 1 ? 0 : 1 })}\u00a0${name}`;
}

export const Json = ({ value, label }: { value: unknown; label: string }) => (
  // A region that scrolls must be reachable by keyboard.
  // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
  <section className="json" aria-label={label} tabIndex={0}>
    <pre>{JSON.stringify(value, null, 2)}</pre>
  </section>
);
