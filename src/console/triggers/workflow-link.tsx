// The workflow of a trigger by its name. A trigger has its id alone, so the names come from the list of workflows, as far as one page of it goes.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { get } from "../browser/client.js";
import type { List, Workflow } from "../browser/resources.js";

const MOST = 100;

/** The latest version of each. */
export function useWorkflows(): readonly Workflow[] {
  const { data } = useQuery({
    queryKey: ["workflows", "suggested"],
    queryFn: ({ signal }) => get<List<Workflow>>("/workflows", { query: { limit: MOST }, signal }),
    staleTime: 60_000,
  });
  return data?.items ?? [];
}

export const useWorkflowName = (id: string): string =>
  useWorkflows().find((workflow) => workflow.id === id)?.name ?? id;

export function WorkflowLink({ id }: { id: string }) {
  return <Link href={`/workflows/${id}`}>{useWorkflowName(id)}</Link>;
}
