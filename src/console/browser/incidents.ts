// The incidents of whole families: the runs, branches, items and sub-sagas below some roots that stand at an incident. One request for all.
import { useQuery } from "@tanstack/react-query";
import { get } from "./client.js";
import type { List, Run } from "./resources.js";

const REFRESH_MS = 3_000;

/** Roots that have ended have none, and need not be asked for. */
export function useIncidents(roots: readonly Run[], limit: number) {
  const living = roots.filter(({ terminal_at }) => terminal_at === undefined).map(({ id }) => id);
  const query = { incident_in: living, limit };
  return useQuery({
    queryKey: ["sagas", "incidents", query],
    queryFn: ({ signal }) => get<List<Run>>("/sagas", { query, signal }),
    enabled: living.length > 0,
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
