// What the pages of workflows read: stats, performance, the chart as a graph. It draws nothing.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Chart } from "../../../machines/index.js";
import { get, part } from "../browser/client.js";
import type { Performance, Workflow } from "../browser/resources.js";
import { STEP_BOOK } from "../browser/step-book.js";
import type { StepDocument } from "../graph/blocks.js";
import { type GraphChart, graphOf } from "../graph/chart.js";
import { named } from "../graph/names.js";

export interface Stats {
  readonly success_rate_24h: number | null;
  readonly last_run_at: string | null;
  readonly in_flight: number;
  readonly concurrency?: { readonly held: number; readonly waiting: number };
  readonly rate_limit?: { readonly waiting: number };
}

export function useStats(id: string, enabled = true) {
  return useQuery({
    queryKey: ["stats", id],
    queryFn: ({ signal }) => get<Stats>(`/workflows/${part(id)}/stats`, { signal }),
    staleTime: 10_000,
    enabled,
  });
}

export function usePerformance(id: string, query: { version?: number | undefined; hours: number }) {
  return useQuery({
    queryKey: ["performance", id, query],
    queryFn: ({ signal }) => get<Performance>(`/workflows/${part(id)}/performance`, { query, signal }),
    refetchInterval: 30_000,
  });
}

/** The graph of a stored version, as the service compiled it. */
export function useGraph(workflow: Workflow) {
  const { id, version } = workflow;
  const { data, error } = useQuery({
    queryKey: ["workflows", id, "machine", version],
    queryFn: ({ signal }) => get<Chart>(`/workflows/${part(id)}/machine`, { query: { version }, signal }),
    staleTime: 60_000,
  });
  const graph = useMemo(
    (): GraphChart | undefined =>
      data && named(graphOf(data, workflow.steps as readonly StepDocument[], STEP_BOOK), {}),
    [data, workflow.steps],
  );
  return { data: graph, error };
}

export const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
