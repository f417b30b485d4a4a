// The audit log as a table that draws what is in sight, and the event that is selected in full.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef, useState } from "react";
import { useAddress } from "../browser/address.js";
import { Json } from "../parts/values.js";
import type { Row } from "../story/rows.js";
import { rowWords } from "../story/words.js";
import type { Shown, TabProps } from "./moment.js";

const ROW_HEIGHT = 32;

export function EventsTab({ told: { story, live }, shown }: TabProps) {
  const [parameters, change] = useAddress();
  const step = parameters.get("step") ?? undefined;
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<number>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the rows grow in place, by live.count
  const rows = useMemo(() => matching(story.rows, words, step), [story, words, step, live.count]);
  return (
    <>
      <div className="row">
        <label>
          Find in events
          <input type="search" value={words} onChange={({ target }) => setWords(target.value)} />
        </label>
        {step !== undefined && (
          <button type="button" onClick={() => change({ step: undefined })}>
            Of step {step} ×
          </button>
        )}
        <span className="quiet" role="status">
          {rows.length.toLocaleString()} events
        </span>
      </div>
      <Table rows={rows} shown={shown} open={open} onOpen={(seq) => setOpen(seq === open ? undefined : seq)} />
      <Details row={rows.find(({ seq }) => seq === open)} shown={shown} />
    </>
  );
}

function matching(rows: readonly Row[], words: string, step: string | undefined): readonly Row[] {
  const sought = words.trim().toLowerCase();
  return rows.filter(
    (row) =>
      (step === undefined || row.step_id === step) &&
      (sought === "" || `${row.event_type} ${rowWords(row)} ${row.actor}`.toLowerCase().includes(sought)),
  );
}

interface TableProps {
  readonly rows: readonly Row[];
  readonly shown: Shown;
  readonly open: number | undefined;
  readonly onOpen: (seq: number) => void;
}

function Table({ rows, shown, open, onOpen }: TableProps) {
  const scroll = useRef<HTMLElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
  });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls
    <section className="rows" ref={scroll} aria-label="The audit log" tabIndex={0}>
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const row = rows[index];
          return row && <Line key={row.seq} {...{ row, start, shown, onOpen }} isOpen={row.seq === open} />;
        })}
      </div>
    </section>
  );
}

function Line(props: { row: Row; start: number; shown: Shown; isOpen: boolean; onOpen: (seq: number) => void }) {
  const { row, start, shown, isOpen, onOpen } = props;
  const isLater = shown.at !== undefined && row.seq > shown.at;
  return (
    <button
      type="button"
      className={`event-row ${isLater ? "later" : ""}`}
      aria-pressed={isOpen}
      style={{ transform: `translateY(${start}px)`, height: ROW_HEIGHT }}
      onClick={() => onOpen(row.seq)}
    >
      <span className="quiet">{row.seq}</span>
      <span className="quiet">{row.recorded_at.slice(11, 23)}</span>
      <span>{rowWords(row)}</span>
      <span className="quiet">{row.event_type}</span>
      <span className="quiet">{row.actor}</span>
    </button>
  );
}

function Details({ row, shown }: { row: Row | undefined; shown: Shown }) {
  if (!row) return <p className="quiet">Select an event for its metadata.</p>;
  return (
    <section className="card" aria-label={`Event ${row.seq}`}>
      <div className="row">
        <strong>
          {row.seq}: {rowWords(row)}
        </strong>
        <button type="button" onClick={() => shown.show(row.seq)}>
          Show the run at this moment
        </button>
      </div>
      <Json value={row} label={`Event ${row.seq} as JSON`} />
    </section>
  );
}
