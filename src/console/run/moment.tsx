// The slider through time: after which event the page shows the run. Its place is in the address, so that a link opens at the same moment.
import { useCallback, useEffect, useRef, useState } from "react";
import { numberIn, useAddress } from "../browser/address.js";
import type { Run } from "../browser/resources.js";
import { When } from "../parts/values.js";
import { type Names, rowWords } from "../story/words.js";
import type { Definition, ReadStory } from "./data.js";

const SETTLE_MS = 150;

export interface Shown {
  /** Absent: now. */
  readonly at: number | undefined;
  /** Rows up to there. */
  readonly count: number;
  readonly show: (seq: number | undefined) => void;
}

/** What a tab is given. */
export interface TabProps {
  readonly run: Run;
  readonly read: ReadStory;
  readonly shown: Shown;
  readonly definition: Definition | undefined;
}

/** A browser refuses to change the address sixty times a second: it follows when the slider rests. */
export function useShown({ story }: ReadStory): Shown {
  const [parameters, change] = useAddress();
  const inAddress = numberIn(parameters, "at");
  const [at, setAt] = useState(inAddress);
  const timer = useRef(0);
  useEffect(() => setAt(inAddress), [inAddress]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const show = useCallback(
    (seq: number | undefined) => {
      setAt(seq);
      window.clearTimeout(timer.current);
      timer.current = window.setTimeout(() => change({ at: seq }), SETTLE_MS);
    },
    [change],
  );
  return { at, count: at === undefined ? story.rows.length : story.countAt(at), show };
}

export function Slider({ read, shown, names }: { read: ReadStory; shown: Shown; names: Names }) {
  const { story, live } = read;
  const row = story.rows[shown.count - 1];
  const last = story.rows.at(-1)?.seq ?? 0;
  const words = row ? rowWords(row, names) : "before the first event";
  const to = (seq: number) => shown.show(seq >= last ? undefined : Math.max(0, seq));
  const at = shown.at ?? last;
  return (
    <section className="moment" aria-label="Moment">
      <div className="moment-row">
        <button type="button" aria-label="One event back" disabled={at <= 0} onClick={() => to(at - 1)}>
          ‹
        </button>
        <input
          type="range"
          aria-label="Moment of the run"
          aria-valuetext={`event ${at} of ${last}: ${words}`}
          min={0}
          max={last}
          value={Math.min(at, last)}
          onChange={({ target }) => to(Number(target.value))}
        />
        <button type="button" aria-label="One event on" disabled={at >= last} onClick={() => to(at + 1)}>
          ›
        </button>
        <Follow live={live.status} shown={shown} />
      </div>
      <p className="moment-words">
        <strong>
          {at} of {last}
        </strong>{" "}
        {row && <When at={row.recorded_at} />} <span data-testid="moment">{words}</span>
      </p>
    </section>
  );
}

const STATUS = {
  reading: "reading events …",
  live: "live",
  reconnecting: "connecting again …",
  ended: "ended",
  refused: "refused",
} as const;

function Follow({ live, shown }: { live: keyof typeof STATUS; shown: Shown }) {
  if (shown.at === undefined)
    return (
      <span className={`following ${live}`} role="status">
        {STATUS[live]}
      </span>
    );
  return (
    <button type="button" className="primary" onClick={() => shown.show(undefined)}>
      {live === "ended" ? "To the end" : "Follow live"}
    </button>
  );
}
