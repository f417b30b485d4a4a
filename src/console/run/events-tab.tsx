// The audit log as a table that draws what is in sight, and the event that is selected in full.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { useAddress } from "../browser/address.js";
import { useInView } from "../browser/in-view.js";
import { useIsNarrow } from "../browser/width.js";
import { fineTime, fullTime } from "../parts/clock.js";
import { counted } from "../parts/plural.js";
import { Json } from "../parts/values.js";
import { type Row, textIn } from "../story/rows.js";
import { type Names, nameIn, rowParts, rowWords } from "../story/words.js";
import type { Shown, TabProps } from "./moment.js";

const ROW_HEIGHT = 32;
/** On a phone a row is as high as its words: the time, the name of the step, and what happened are below each other. */
const HIGH_ROW = 76;

export function EventsTab({ read: { story, live }, shown, definition }: TabProps) {
  const names = definition?.names;
  const [parameters, change] = useAddress();
  const step = parameters.get("step") ?? undefined;
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<number>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows grow in place, by live.count
  const rows = useMemo(() => matching(story.rows, words, step, names), [story, words, step, names, live.count]);
  const selected = rows.find(({ seq }) => seq === open);
  return (
    <>
      <div className="row">
        <label>
          Find in events
          <input type="search" value={words} onChange={({ target }) => setWords(target.value)} />
        </label>
        {step !== undefined && (
          <button type="button" onClick={() => change({ step: undefined })}>
            Of step {nameIn(names, step)} ×
          </button>
        )}
        <span className="quiet" role="status">
          {counted(rows.length, "event")}
        </span>
      </div>
      <div className={selected ? "events with-event" : "events"}>
        <Table {...{ rows, shown, names, open }} onOpen={(seq) => setOpen(seq === open ? undefined : seq)} />
        {selected ? (
          <Details row={selected} names={names} onShow={shown.show} onClose={() => setOpen(undefined)} />
        ) : (
          <p className="quiet">Select an event for its metadata.</p>
        )}
      </div>
    </>
  );
}

function matching(rows: readonly Row[], words: string, step: string | undefined, names: Names): readonly Row[] {
  const sought = words.trim().toLowerCase();
  return rows.filter(
    (row) =>
      (step === undefined || row.step_id === step) &&
      (sought === "" ||
        `${row.event_type} ${row.step_id} ${rowWords(row, names)} ${row.actor}`.toLowerCase().includes(sought)),
  );
}

interface TableProps {
  readonly names: Names;
  readonly rows: readonly Row[];
  readonly shown: Shown;
  readonly open: number | undefined;
  readonly onOpen: (seq: number) => void;
}

function Table({ rows, shown, names, open, onOpen }: TableProps) {
  const scroll = useRef<HTMLElement>(null);
  const isNarrow = useIsNarrow();
  const height = isNarrow ? HIGH_ROW : ROW_HEIGHT;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => height,
    overscan: 12,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: it keeps what it has measured
  useEffect(() => virtual.measure(), [height]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className="rows" ref={scroll} aria-label="The audit log" tabIndex={0}>
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = rows[index];
          return (
            row && (
              <Line
                key={row.seq}
                {...{ row, index, start, shown, names, onOpen }}
                measure={isNarrow ? virtual.measureElement : undefined}
                isOpen={row.seq === open}
              />
            )
          );
        })}
      </div>
    </section>
  );
}

interface LineProps extends Pick<TableProps, "shown" | "names" | "onOpen"> {
  readonly row: Row;
  readonly index: number;
  readonly start: number;
  /** Absent: all rows have one height. */
  readonly measure: ((row: HTMLElement | null) => void) | undefined;
  readonly isOpen: boolean;
}

function Line({ row, index, start, measure, shown, names, isOpen, onOpen }: LineProps) {
  const { step, said } = rowParts(row, names);
  const isLater = shown.at !== undefined && row.seq > shown.at;
  return (
    <button
      ref={measure}
      data-index={index}
      type="button"
      className={`event-row ${isLater ? "later" : ""}`}
      aria-pressed={isOpen}
      style={{ transform: `translateY(${start}px)`, ...(measure === undefined && { height: ROW_HEIGHT }) }}
      onClick={() => onOpen(row.seq)}
    >
      <span className="quiet">{row.seq}</span>
      <time className="quiet" dateTime={row.recorded_at} title={fullTime(row.recorded_at)}>
        {fineTime(row.recorded_at)}
      </time>
      <span className="event-words">
        {step !== undefined && (
          <span className="event-step" title={row.step_id}>
            {`${step}: `}
          </span>
        )}
        <span className="event-said" title={said}>
          {said}
        </span>
      </span>
      <span className="quiet">{row.event_type}</span>
      <span className="quiet">{row.actor}</span>
    </button>
  );
}

interface DetailsProps {
  readonly row: Row;
  readonly names: Names;
  readonly onShow: (seq: number) => void;
  readonly onClose: () => void;
}

function Details({ row, names, onShow, onClose }: DetailsProps) {
  const seen = useInView<HTMLElement>(row.seq);
  const child = textIn(row, "child_run_id");
  return (
    <section ref={seen} className="card event" aria-label={`Event ${row.seq}`}>
      <div className="step-head">
        <strong>
          {row.seq}: {rowWords(row, names)}
        </strong>
        <button type="button" aria-label="Close the event" onClick={onClose}>
          ×
        </button>
      </div>
      <div className="row">
        <button type="button" onClick={() => onShow(row.seq)}>
          Show the run at this moment
        </button>
        {child !== undefined && <Link href={`/runs/${child}`}>The child run {child}</Link>}
      </div>
      <Json value={row} label={`Event ${row.seq} as JSON`} />
    </section>
  );
}
