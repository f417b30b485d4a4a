// Versioned documents, workflows and rules, as a page reads and publishes them. What such a document says is no matter of this file.
import { useQuery } from "@tanstack/react-query";
import { useAct } from "./act.js";
import { ApiError, get, part, post } from "./client.js";
import type { List } from "./resources.js";

export type Collection = "workflows" | "rules";

export interface Versioned {
  readonly version: number;
  readonly name: string;
  readonly published: boolean;
  readonly created_at?: string;
  readonly created_by?: string | null;
}

/** The version; without one the latest published, or the latest draft if none is published. */
export function useDocument<T extends Versioned>(collection: Collection, id: string, version?: number) {
  return useQuery({
    queryKey: [collection, id, "document", version],
    queryFn: ({ signal }) => readDocument<T>(collection, id, version, signal),
  });
}

async function readDocument<T>(
  collection: Collection,
  id: string,
  version: number | undefined,
  signal: AbortSignal,
): Promise<T> {
  const path = `/${collection}/${part(id)}`;
  try {
    return await get<T>(path, { query: { version }, signal });
  } catch (error) {
    if (version !== undefined || !(error instanceof ApiError) || error.status !== 404) throw error;
    const { items } = await get<List<T>>(`${path}/versions`, { query: { limit: 1 }, signal });
    const [draft] = items;
    if (draft === undefined) throw error;
    return draft;
  }
}

const VERSIONS_PER_PAGE = 20;

export function useVersions<T extends Versioned>(
  collection: Collection,
  id: string,
  offset = 0,
  limit = VERSIONS_PER_PAGE,
) {
  return useQuery({
    queryKey: [collection, id, "versions", offset, limit],
    queryFn: ({ signal }) => get<List<T>>(`/${collection}/${part(id)}/versions`, { query: { limit, offset }, signal }),
  });
}

export interface Publishing {
  readonly version: number;
  readonly published: boolean;
}

export function usePublishing(collection: Collection, id: string) {
  return useAct(
    ({ version, published }: Publishing) =>
      post(`/${collection}/${part(id)}/versions/${version}/${published ? "publish" : "unpublish"}`),
    { changes: [collection] },
  );
}
