// The way through a list that is read by page: where the page begins is in the address. It reads nothing itself.
import { numberIn, useAddress } from "../browser/address.js";
import type { List } from "../browser/resources.js";

export const useOffset = (name = "offset"): number => numberIn(useAddress()[0], name) ?? 0;

type Shown = Pick<List<unknown>, "items" | "total" | "total_is_lower_bound" | "limit" | "offset" | "next_cursor">;

/** `name`: the parameter of the address. A list on one page has no pager. */
export function Pager({ of, name = "offset", label }: { of: Shown; name?: string; label: string }) {
  const [, change] = useAddress();
  const { items, total, limit, offset } = of;
  const hasNext = offset + items.length < total || of.next_cursor !== undefined;
  if (offset === 0 && !hasNext) return null;
  const to = (at: number) => () => change({ [name]: at > 0 ? at : undefined }, "keep");
  return (
    <nav className="row" aria-label={`Pages of ${label}`}>
      <button type="button" disabled={offset === 0} onClick={to(offset - limit)}>
        Previous
      </button>
      <span className="quiet">
        {offset + 1} to {offset + items.length} of {of.total_is_lower_bound ? "at least " : ""}
        {total.toLocaleString()}
      </span>
      <button type="button" disabled={!hasNext} onClick={to(offset + limit)}>
        Next
      </button>
    </nav>
  );
}
