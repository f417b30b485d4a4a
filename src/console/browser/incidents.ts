// Incidents below runs: the branches, items and sub-sagas that stand at an incident. One request for all of them.
import { useQuery } from "@tanstack/react-query";
import { get, type Query } from "./client.js";
import type { List, Run } from "./resources.js";

const REFRESH_MS = 3_000;

/** Roots that have ended have none, and need not be asked for. */
export function useIncidents(roots: readonly Run[], limit: number) {
  const living = roots.filter(({ terminal_at }) => terminal_at === undefined).map(({ id }) => id);
  return useIncidentList(["sagas"], { incident_in: living, limit }, living.length > 0);
}

/** The runs of a filter that finds incidents only. They are read again when what `key` names has changed. */
export function useIncidentList(key: readonly string[], query: Query, enabled: boolean) {
  return useQuery({
    queryKey: [...key, "incidents", query],
    queryFn: ({ signal }) => get<List<Run>>("/sagas", { query, signal }),
    enabled,
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
}

/** Incidents by the id of their root. */
export function byRoot(incidents: readonly Run[]): ReadonlyMap<string, readonly Run[]> {
  const roots = new Map<string, Run[]>();
  for (const run of incidents) {
    const root = run.root_run_id ?? run.id;
    roots.set(root, [...(roots.get(root) ?? []), run]);
  }
  return roots;
}
