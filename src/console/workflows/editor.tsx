// A definition written as JSON: its graph as far as it says one, its problems at their steps and in a list, and what stores it. The service validates.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState } from "react";
import { post } from "../browser/client.js";
import type { Workflow } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import { Graph } from "../graph/index.js";
import { JsonField } from "../parts/json-field.js";
import { type Parsed, parseObject } from "../parts/json-text.js";
import { Answer } from "../parts/notes.js";
import type { Document } from "./difference.js";
import { Remarks, type Report } from "./remarks.js";
import { remarked, sketch, stepAt } from "./sketch.js";
import { Store } from "./store.js";

interface EditorProps {
  readonly initial: Document;
  readonly onStored: (workflow: Workflow) => void;
}

export function Editor({ initial, onStored }: EditorProps) {
  const [text, setText] = useState(() => JSON.stringify(initial, null, 2));
  const { value, fault } = useMemo(() => parseObject(text), [text]);
  const document = useLast(value as Document | undefined);
  const report = useReport(useSettled(text));
  const field = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState<string>();
  const show = (step: string | undefined) => {
    setSelected(step);
    if (step !== undefined) select(field.current, step);
  };
  return (
    <div className="editor">
      <div ref={field}>
        <JsonField label="Definition (JSON)" text={text} fault={fault} rows={28} onChange={setText} />
        <Store text={text} isValid={fault === undefined && report.data?.valid === true} onStored={onStored} />
      </div>
      <div>
        {fault === undefined && (
          <Answer of={report}>
            {(found) => <Remarks of={found} onSelect={(path) => show(document && stepAt(document, path))} />}
          </Answer>
        )}
        {document && <Drawn document={document} report={report.data} selected={selected} onSelect={show} />}
      </div>
    </div>
  );
}

interface DrawnProps {
  readonly document: Document;
  readonly report: Report | undefined;
  readonly selected: string | undefined;
  readonly onSelect: (step: string) => void;
}

function Drawn({ document, report, selected, onSelect }: DrawnProps) {
  const chart = useMemo(() => sketch(document, STEP_BOOK), [document]);
  const looks = useMemo(() => report && remarked(document, report.errors, report.warnings), [document, report]);
  return (
    <Graph
      chart={chart}
      {...(looks && { looks })}
      selected={selected}
      onSelect={onSelect}
      label="Graph of the definition, with its problems"
    />
  );
}

/** While somebody types, the text is no JSON most of the time: the last that was stays drawn. */
function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}

const PAUSE_MS = 400;

/** The text when nothing was typed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

function useReport(text: string) {
  const { value }: Parsed = useMemo(() => parseObject(text), [text]);
  return useQuery({
    queryKey: ["validate", text],
    queryFn: ({ signal }) => post<Report>("/workflows/validate", value, { signal }),
    enabled: value !== undefined,
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
}

/** Marks where the step begins in the text, and brings it into sight. */
function select(host: HTMLElement | null, step: string): void {
  const area = host?.querySelector("textarea");
  const found = area && new RegExp(`"id"\\s*:\\s*${escaped(JSON.stringify(step))}`).exec(area.value);
  if (!area || !found) return;
  const lines = area.value.slice(0, found.index).split("\n").length;
  const height = area.scrollHeight / Math.max(1, area.value.split("\n").length);
  area.setSelectionRange(found.index, found.index + found[0].length);
  area.scrollTop = Math.max(0, (lines - 4) * height);
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
