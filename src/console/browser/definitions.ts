// The definitions of runs that are shown together, for what people call their workflows and steps. A version never changes once it is published,
// so each is read once.
import { useQueries } from "@tanstack/react-query";
import { stepName } from "../graph/names.js";
import { get, part } from "./client.js";
import type { Run, Workflow } from "./resources.js";

type OfVersion = Pick<Run, "workflow_id" | "version">;
type Named = OfVersion & Pick<Run, "inputs" | "variables">;

export interface DefinitionNames {
  /** Its id while it is not read, or where the run is of a tenant that cannot read it. */
  readonly workflow: (run: OfVersion) => string;
  readonly step: (run: Named, id: string) => string;
}

const keyOf = ({ workflow_id, version }: OfVersion) => `${workflow_id} ${version}`;

/** The definition of a run by its version, for one page that needs no other part of it. */
export const definitionQuery = (id: string, version: number) => ({
  queryKey: ["workflow", id, version],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    get<Workflow>(`/workflows/${part(id)}`, { query: { version }, signal }),
  staleTime: Number.POSITIVE_INFINITY,
});

export function useDefinitionNames(runs: readonly OfVersion[]): DefinitionNames {
  const distinct = [...new Map(runs.map((run) => [keyOf(run), run])).values()];
  const answers = useQueries({ queries: distinct.map(({ workflow_id: id, version }) => definitionQuery(id, version)) });
  const known = new Map(distinct.map((run, nth) => [keyOf(run), answers[nth]?.data]));
  return {
    workflow: (run) => known.get(keyOf(run))?.name ?? run.workflow_id,
    step: (run, id) => stepName(known.get(keyOf(run))?.steps ?? [], id, run),
  };
}
