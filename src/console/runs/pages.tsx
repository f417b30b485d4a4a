// The way through the pages of the list: how many runs there are, on to the next page and back. The API knows only the way on, so the
// way back is kept in the browser's history.
import { Link } from "wouter";
import { useHistoryState } from "wouter/use-browser-location";
import type { List, Run } from "../browser/resources.js";
import { counted } from "../parts/plural.js";

/** The cursors of the pages before this one; that of the first is empty. */
interface Trail {
  readonly trail: readonly string[];
}

const MAX_TRAIL = 1_000;

export function Pages({ page, search }: { page: List<Run>; search: URLSearchParams }) {
  const cursor = search.get("cursor") ?? "";
  const { trail = [] } = useHistoryState<Trail | null>() ?? {};
  const before = cursor === "" ? undefined : (trail.at(-1) ?? "");
  const next = page.next_cursor;
  return (
    <nav className="row pages" aria-label="Pages of runs">
      <p role="status">{said(page)}</p>
      {cursor !== "" && <PageLink name="First page" search={search} cursor="" trail={[]} />}
      {trail.length > 0 && before !== undefined && (
        <PageLink name="Previous page" search={search} cursor={before} trail={trail.slice(0, -1)} />
      )}
      {next !== undefined && (
        <PageLink name="Next page" search={search} cursor={next} trail={[...trail, cursor].slice(-MAX_TRAIL)} />
      )}
    </nav>
  );
}

function said({ total, total_is_lower_bound: isLowerBound }: List<Run>): string {
  if (total === 0) return "There are no such runs";
  return isLowerBound ? `${total.toLocaleString()} or more runs` : counted(total, "run");
}

interface PageLinkProps {
  readonly name: string;
  readonly search: URLSearchParams;
  readonly cursor: string;
  readonly trail: readonly string[];
}

function PageLink({ name, search, cursor, trail }: PageLinkProps) {
  const next = new URLSearchParams(search);
  if (cursor === "") next.delete("cursor");
  else next.set("cursor", cursor);
  return (
    <Link href={`/runs${next.size > 0 ? `?${next}` : ""}`} state={{ trail } satisfies Trail} className="button">
      {name}
    </Link>
  );
}
