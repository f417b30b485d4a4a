// The way through the pages of the list: how many runs there are, on to the next page and back. The API knows only the way on, so the
// way back is kept in the browser's history.
import { Link } from "wouter";
import { useHistoryState } from "wouter/use-browser-location";
import type { List, Run } from "../browser/resources.js";
import { counted } from "../parts/plural.js";
import { isFiltered } from "./filters.js";

/** The cursors of the pages before this one; that of the first is empty. */
interface Trail {
  readonly trail: readonly string[];
}

const MAX_TRAIL = 1_000;

interface PagesProps {
  readonly page: List<Run>;
  readonly search: URLSearchParams;
  /** Below the list: its length is said above, and another page begins there. */
  readonly isBelow?: boolean;
}

export function Pages({ page, search, isBelow = false }: PagesProps) {
  const cursor = search.get("cursor") ?? "";
  const { trail = [] } = useHistoryState<Trail | null>() ?? {};
  const before = cursor === "" ? undefined : (trail.at(-1) ?? "");
  const next = page.next_cursor;
  const link = { search, isBelow };
  if (isBelow && cursor === "" && next === undefined) return null;
  return (
    <nav className="row pages" aria-label={isBelow ? "Pages of runs, below the list" : "Pages of runs"}>
      {!isBelow && <p role="status">{said(page, isFiltered(search))}</p>}
      {cursor !== "" && <PageLink {...link} name="First page" cursor="" trail={[]} />}
      {trail.length > 0 && before !== undefined && (
        <PageLink {...link} name="Previous page" cursor={before} trail={trail.slice(0, -1)} />
      )}
      {next !== undefined && (
        <PageLink {...link} name="Next page" cursor={next} trail={[...trail, cursor].slice(-MAX_TRAIL)} />
      )}
    </nav>
  );
}

const NONE = "There are no runs. Start one with the button above, or let a trigger start them.";

function said({ total, total_is_lower_bound: isLowerBound }: List<Run>, isFiltered: boolean): string {
  if (total === 0) return isFiltered ? "There are no such runs" : NONE;
  return isLowerBound ? `${total.toLocaleString()} or more runs` : counted(total, "run");
}

interface PageLinkProps {
  readonly name: string;
  readonly search: URLSearchParams;
  readonly cursor: string;
  readonly trail: readonly string[];
  readonly isBelow: boolean;
}

function PageLink({ name, search, cursor, trail, isBelow }: PageLinkProps) {
  const next = new URLSearchParams(search);
  if (cursor === "") next.delete("cursor");
  else next.set("cursor", cursor);
  return (
    <Link
      href={`/runs${next.size > 0 ? `?${next}` : ""}`}
      state={{ trail } satisfies Trail}
      className="button"
      onClick={() => isBelow && window.scrollTo(0, 0)}
    >
      {name}
    </Link>
  );
}
