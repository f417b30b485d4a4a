// How many runs there are in each state, live: what a person clicks to see only those. It counts what the other filters let through.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "../browser/client.js";
import type { RunCount } from "../browser/resources.js";
import { listOf, queryOf, type RunQuery, toggled, withFilter, withoutStates } from "./filters.js";

const REFRESH_MS = 4_000;
const STATES = ["pending", "running", "paused", "compensating", "succeeded", "failed", "cancelled"] as const;

export interface Total {
  readonly count: number;
  readonly isLowerBound: boolean;
}

export interface Counts {
  readonly items: readonly RunCount[];
  readonly truncated?: boolean;
}

export const useCounts = (query: RunQuery) =>
  useQuery({
    queryKey: ["sagas", "counts", query],
    queryFn: ({ signal }) => get<Counts>("/sagas/counts", { query, signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });

/** Where one count is a lower bound, so is the sum. */
export const sum = (items: readonly RunCount[]): Total => ({
  count: items.reduce((sum, { count }) => sum + count, 0),
  isLowerBound: items.some(({ count_is_lower_bound }) => count_is_lower_bound),
});

export const words = ({ count, isLowerBound }: Total) => `${count.toLocaleString()}${isLowerBound ? "+" : ""}`;

export interface SearchProps {
  readonly search: URLSearchParams;
  readonly onSearch: (next: URLSearchParams) => void;
}

export function StateCounts({ search, onSearch }: SearchProps) {
  const { data } = useCounts(withoutStates(queryOf(search)));
  const chosen = listOf(search, "state");
  return (
    <fieldset className="counts">
      <legend className="hidden">States</legend>
      <Count
        name="all"
        of={data?.items}
        isChosen={chosen.length === 0}
        onClick={() => onSearch(withFilter(search, "state", ""))}
      />
      {STATES.map((state) => (
        <Count
          key={state}
          name={state}
          of={data?.items.filter((item) => item.state === state)}
          isChosen={chosen.includes(state)}
          onClick={() => onSearch(toggled(search, "state", state))}
        />
      ))}
      <Reasons items={data?.items ?? []} search={search} onSearch={onSearch} />
    </fieldset>
  );
}

interface CountProps {
  readonly name: string;
  /** Undefined: it is not known yet. */
  readonly of: readonly RunCount[] | undefined;
  readonly isChosen: boolean;
  readonly onClick: () => void;
}

const Count = ({ name, of, isChosen, onClick }: CountProps) => (
  <button type="button" className={`count ${name}`} aria-pressed={isChosen} onClick={onClick}>
    <span>{name}</span> <b>{of === undefined ? "…" : words(sum(of))}</b>
  </button>
);

/** Why runs wait: the reasons that there are now, and those that are chosen. */
function Reasons({ items, search, onSearch }: SearchProps & { items: readonly RunCount[] }) {
  const chosen = listOf(search, "paused_reason");
  const found = items.flatMap(({ paused_reason }) => paused_reason ?? []);
  const reasons = [...new Set([...found, ...chosen])].sort();
  if (reasons.length === 0) return null;
  return (
    <div className="reasons">
      <span className="quiet">waiting for</span>
      {reasons.map((reason) => (
        <Count
          key={reason}
          name={reason}
          of={items.filter((item) => item.paused_reason === reason)}
          isChosen={chosen.includes(reason)}
          onClick={() => onSearch(toggled(search, "paused_reason", reason))}
        />
      ))}
    </div>
  );
}
