// What the page of a run asks for: the run, why it stands where it stands, its definition, its children counted, and its story. It asks again
// when something happened, and now and then while children go on, of which the run itself has no events.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef } from "react";
import type { Chart } from "../../../machines/index.js";
import type { ActName } from "../acts/acts.js";
import { get, isRefusal, part } from "../browser/client.js";
import { type Live, useLive } from "../browser/live.js";
import type { ChildCount, Run, Workflow } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import { type GraphChart, graphOf, named, namesOf, type StepDocument, type StepNames } from "../graph/index.js";
import { hasEnded } from "../story/counts.js";
import { Story } from "../story/story.js";

/** What may be done now. A task is submitted on a page of its own. */
export type Possible = ActName | "submit";

export interface Explanation {
  readonly because: string;
  readonly since: string;
  readonly next_at?: string;
  readonly can: readonly Possible[];
  readonly waiting_for: readonly Readonly<Record<string, unknown>>[];
}

export const RUN_KEY = "run";
const ASK_AGAIN_MS = 2_000;
const SETTLE_MS = 250;

export function useRun(id: string) {
  return useQuery({
    queryKey: [RUN_KEY, id, "run"],
    queryFn: ({ signal }) => get<Run>(`/sagas/${part(id)}`, { signal }),
    refetchInterval: ({ state: { data } }) => (data && hasEnded(data) ? false : ASK_AGAIN_MS),
  });
}

/** Reads a part of the run that changes while it goes on. */
export function useOfRun<T>(run: Run, name: string, query: Readonly<Record<string, string | number>> = {}) {
  return useQuery({
    queryKey: [RUN_KEY, run.id, name, query],
    queryFn: ({ signal }) => get<T>(`/sagas/${part(run.id)}/${name}`, { query, signal }),
    refetchInterval: hasEnded(run) ? false : ASK_AGAIN_MS,
    placeholderData: (before) => before,
  });
}

export const useExplanation = (run: Run) => useOfRun<Explanation>(run, "explain");

export const useCounts = (run: Run) =>
  useOfRun<{ readonly items: readonly ChildCount[]; readonly truncated?: boolean }>(run, "children/counts");

export interface Definition {
  readonly workflow: Workflow;
  readonly machine: Chart;
  readonly chart: GraphChart;
  readonly documents: ReadonlyMap<string, StepDocument>;
  /** What every view of the run calls its steps. */
  readonly names: StepNames;
}

/** A published version never changes. */
export function useDefinition({ workflow_id, version }: Run) {
  return useQuery({
    queryKey: ["definition", workflow_id, version],
    queryFn: ({ signal }) => definitionOf(workflow_id, version, signal),
    staleTime: Number.POSITIVE_INFINITY,
    retry: (failures, error) => !isRefusal(error) && failures < 20,
  });
}

async function definitionOf(id: string, version: number, signal: AbortSignal): Promise<Definition> {
  const request = { query: { version }, signal };
  const [workflow, machine] = await Promise.all([
    get<Workflow>(`/workflows/${part(id)}`, request),
    get<Chart>(`/workflows/${part(id)}/machine`, request),
  ]);
  const steps = workflow.steps as readonly StepDocument[];
  const documents = new Map(steps.map((step) => [String(step.id), step]));
  const chart = graphOf(machine, steps, STEP_BOOK);
  return { workflow, machine, chart, documents, names: namesOf(chart) };
}

/** The definition with the names that its steps have in this run. */
export function useNamed(definition: Definition | undefined, { inputs, variables }: Run): Definition | undefined {
  return useMemo(() => {
    const chart = definition && named(definition.chart, { inputs, variables });
    return definition && chart && { ...definition, chart, names: namesOf(chart) };
  }, [definition, inputs, variables]);
}

export interface ReadStory {
  readonly live: Live;
  /** It grows in place with `live.count`. */
  readonly story: Story;
}

/** The events of the run as a story. Without a definition it has no edges. */
export function useStory(runId: string, machine: Chart | undefined): ReadStory {
  const live = useLive(runId);
  const story = useMemo(() => new Story(machine), [machine]);
  story.append(story.rows.length === 0 ? live.events : live.events.slice(story.rows.length));
  useAskingAgain(runId, live.count);
  return { live, story };
}

/** What the run is asked for follows its events. Many at once are one question. */
function useAskingAgain(runId: string, count: number): void {
  const queries = useQueryClient();
  const timer = useRef(0);
  useEffect(() => {
    if (count === 0 || timer.current !== 0) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      void queries.invalidateQueries({ queryKey: [RUN_KEY, runId] });
    }, SETTLE_MS);
  }, [queries, runId, count]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
}
