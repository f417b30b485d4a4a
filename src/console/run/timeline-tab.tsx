// The timeline of a run: a lane for each step, with its waits for workers, attempts, backoffs, waits, children and undos. It zooms by
// buttons, by keyboard and by the wheel with a key held.
import "./timeline.css";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { useWidth } from "../browser/width.js";
import { reasonWord } from "../parts/state-words.js";
import { duration } from "../parts/values.js";
import { hasEnded } from "../story/counts.js";
import { type Bar, barsOf, type Lane, lanesOf, marksOf, moved, type Window, zoomed } from "../story/lanes.js";
import { timeOf } from "../story/rows.js";
import { type Span, Spans } from "../story/spans.js";
import type { Story } from "../story/story.js";
import { END_WORDS, type Names, nameIn, UNDO_WORDS } from "../story/words.js";
import type { Shown, TabProps } from "./moment.js";

const LANE_HEIGHT = 34;
const TICK_MS = 1_000;

export function TimelineTab({ run, read: { story, live }, shown, definition }: TabProps) {
  const now = useNow(!hasEnded(run));
  const spans = useMemo(() => spansFor(story), [story]);
  spans.append(story.rows);
  // biome-ignore lint/correctness/useExhaustiveDependencies: spans grow in place, by live.count
  const lanes = useMemo(() => lanesOf(spans.all), [spans, live.count]);
  const [first, last] = [story.rows[0], story.rows.at(-1)];
  if (!first || !last || lanes.length === 0) return <p className="quiet">Nothing has taken time yet.</p>;
  const whole = { from: timeOf(first), to: Math.max(timeOf(first) + 10, hasEnded(run) ? timeOf(last) : now) };
  const row = story.rows[shown.count - 1];
  const names = definition?.names;
  return <Timeline {...{ lanes, whole, now, shown, names }} at={row && timeOf(row)} />;
}

function spansFor({ rows }: Story): Spans {
  const spans = new Spans();
  spans.append(rows);
  return spans;
}

/** Spans that go on grow with the clock. */
function useNow(isOn: boolean): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = isOn ? window.setInterval(() => setNow(Date.now()), TICK_MS) : 0;
    return () => window.clearInterval(timer);
  }, [isOn]);
  return now;
}

interface Props {
  readonly lanes: readonly Lane[];
  readonly whole: Window;
  readonly now: number;
  readonly shown: Shown;
  readonly at: number | undefined;
  readonly names: Names;
}

function Timeline({ lanes, whole, now, shown, at, names }: Props) {
  const [zoom, setZoom] = useState<Window>();
  const view = zoom ?? whole;
  const change = (window: Window) => setZoom(window.to - window.from >= whole.to - whole.from ? undefined : window);
  const keys = (event: KeyboardEvent) => {
    const next = byKey(event.key, view, whole);
    if (!next) return;
    event.preventDefault();
    change(next);
  };
  return (
    <>
      <Zoom view={view} whole={whole} onChange={change} />
      <Lanes
        {...{ lanes, view, now, shown, at, names, keys }}
        start={whole.from}
        onWheel={(f, x) => change(zoomed(view, f, whole, x))}
      />
      <Legend />
    </>
  );
}

function byKey(key: string, view: Window, whole: Window): Window | undefined {
  if (key === "+" || key === "=") return zoomed(view, 0.5, whole);
  if (key === "-") return zoomed(view, 2, whole);
  if (key === "0") return whole;
  if (key === "ArrowLeft") return moved(view, -0.2, whole);
  return key === "ArrowRight" ? moved(view, 0.2, whole) : undefined;
}

function Zoom({ view, whole, onChange }: { view: Window; whole: Window; onChange: (window: Window) => void }) {
  const isAll = view.to - view.from >= whole.to - whole.from;
  return (
    <div className="row zoom">
      <button type="button" onClick={() => onChange(zoomed(view, 0.5, whole))}>
        Zoom in
      </button>
      <button type="button" disabled={isAll} onClick={() => onChange(zoomed(view, 2, whole))}>
        Zoom out
      </button>
      <button type="button" disabled={isAll} onClick={() => onChange(moved(view, -0.4, whole))}>
        Earlier
      </button>
      <button type="button" disabled={isAll} onClick={() => onChange(moved(view, 0.4, whole))}>
        Later
      </button>
      <button type="button" disabled={isAll} onClick={() => onChange(whole)}>
        All
      </button>
      <span className="quiet" role="status">
        {isAll ? "all" : duration(view.to - view.from)} of {duration(whole.to - whole.from)}
      </span>
    </div>
  );
}

interface LanesProps extends Omit<Props, "whole"> {
  readonly view: Window;
  readonly start: number;
  readonly keys: (event: KeyboardEvent) => void;
  readonly onWheel: (factor: number, at: number) => void;
}

function Lanes({ lanes, view, now, shown, at, names, start, keys, onWheel }: LanesProps) {
  const scroll = useRef<HTMLElement>(null);
  useWheel(scroll, onWheel);
  const virtual = useVirtualizer({
    count: lanes.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => LANE_HEIGHT,
    overscan: 5,
  });
  return (
    <section
      className="rows lanes"
      ref={scroll}
      aria-label="Timeline. Keys: plus and minus zoom, arrows move, 0 shows all."
      onKeyDown={keys}
      {...SCROLLS}
    >
      <Axis view={view} start={start} />
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map(({ index, start }) => (
          <LaneRow key={index} lane={lanes[index]} top={start} {...{ view, now, shown, at, names }} />
        ))}
      </div>
    </section>
  );
}

/** What scrolls must be reachable by keyboard. */
const SCROLLS = { tabIndex: 0 };

/** React's own listener may not keep the page from scrolling. */
function useWheel(
  scroll: { readonly current: HTMLElement | null },
  onWheel: (factor: number, at: number) => void,
): void {
  const latest = useRef(onWheel);
  latest.current = onWheel;
  useEffect(() => {
    const element = scroll.current;
    const zoom = (event: WheelEvent) => {
      if (!element || !(event.ctrlKey || event.metaKey || event.shiftKey)) return;
      event.preventDefault();
      const { left, width } = element.getBoundingClientRect();
      latest.current(
        (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8,
        Math.min(1, Math.max(0, (event.clientX - left) / width)),
      );
    };
    element?.addEventListener("wheel", zoom, { passive: false });
    return () => element?.removeEventListener("wheel", zoom);
  }, [scroll]);
}

const share = (at: number, { from, to }: Window): string => `${((at - from) / Math.max(1, to - from)) * 100}%`;

/** Pixels for the words of two marks: those of the last one are before it. */
const MARK_WIDTH = 96;
const MAX_MARKS = 8;

function Axis({ view, start }: { view: Window; start: number }) {
  const track = useRef<HTMLDivElement>(null);
  const most = Math.min(MAX_MARKS, Math.max(1, Math.floor(useWidth(track) / MARK_WIDTH)));
  return (
    <div className="axis" aria-hidden="true">
      <span />
      <div className="track" ref={track}>
        {marksOf(view, start, most).map((mark) => (
          <span key={mark} className={isLast(mark, view) ? "mark last" : "mark"} style={{ left: share(mark, view) }}>
            {duration(mark - start)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** Its words would be cut off at the end of the track. */
const isLast = (mark: number, { from, to }: Window) => mark - from > (to - from) * 0.85;

interface LaneProps extends Pick<Props, "now" | "shown" | "at" | "names"> {
  readonly lane: Lane | undefined;
  readonly top: number;
  readonly view: Window;
}

function LaneRow({ lane, top, view, now, shown, at, names }: LaneProps) {
  if (!lane) return null;
  const { bars, left } = barsOf(lane, view, now);
  return (
    <div className="lane" style={{ transform: `translateY(${top}px)`, height: LANE_HEIGHT }}>
      <span className="lane-name" title={lane.step}>
        {nameIn(names, lane.step)}
      </span>
      <div className="track">
        {bars.map((bar) => (
          <BarButton key={`${bar.span.seq} ${bar.span.kind}`} {...{ bar, now, shown, names }} />
        ))}
        {left > 0 && <span className="unseen quiet">and {left} more: zoom in</span>}
        {at !== undefined && at >= view.from && at <= view.to && (
          <span className="here" style={{ left: share(at, view) }} />
        )}
      </div>
    </div>
  );
}

function BarButton({
  bar: { span, left, width },
  now,
  shown,
  names,
}: { bar: Bar } & Pick<Props, "now" | "shown" | "names">) {
  const words = wordsOf(span, now, names);
  return (
    <button
      type="button"
      className={`span ${span.kind} ${span.ended ?? ""}`}
      style={{ left: `${left * 100}%`, width: `max(3px, ${width * 100}%)` }}
      aria-label={words}
      title={words}
      onClick={() => shown.show(span.seq)}
    />
  );
}

function wordsOf({ kind, step, words, from, to, ended }: Span, now: number, names: Names): string {
  const name = nameIn(names, step);
  const what = kind === "step" ? name : kind === "undo" ? `undo of ${name}` : `${name}: ${words}`;
  const end = ended && (kind === "undo" ? UNDO_ENDS : END_WORDS)[ended];
  return `${what}, ${duration((to ?? now) - from)}${to === undefined ? " so far" : end === undefined ? "" : `, ${end}`}`;
}

const UNDO_ENDS = { done: UNDO_WORDS.undone, failed: UNDO_WORDS.failed, skipped: UNDO_WORDS.passed };

const KINDS = ["step", "queue", "attempt", "retry", "wait", "children", "incident", "halt", "undo"] as const;
const KIND_WORDS = {
  step: "step",
  queue: "waits for a worker",
  attempt: "attempt",
  retry: "waits to try again",
  wait: "waits",
  children: "waits for child runs",
  incident: `${reasonWord("incident")}, or ${reasonWord("quarantine")}`,
  halt: reasonWord("operator"),
  undo: "undo",
};

const Legend = () => (
  <p className="quiet lane-legend">
    {KINDS.map((kind) => (
      <span key={kind}>
        <span className={`span sample ${kind}`} aria-hidden="true" /> {KIND_WORDS[kind]}
      </span>
    ))}
    <span>The wheel zooms while Ctrl or Shift is held.</span>
  </p>
);
