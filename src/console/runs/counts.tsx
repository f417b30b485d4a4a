// How many runs there are in each state, live: what a person clicks to see only those. It counts what the other filters let through.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { get } from "../browser/client.js";
import type { RunCount } from "../browser/resources.js";
import { reasonWord, stateWord } from "../parts/state-words.js";
import {
  isRootOnly,
  listOf,
  queryOf,
  type RunQuery,
  toggled,
  withChildren,
  withFilter,
  withoutStates,
} from "./filters.js";

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
        word="all"
        of={data?.items}
        isChosen={chosen.length === 0}
        onClick={() => onSearch(withFilter(search, "state", ""))}
      />
      {STATES.map((state) => (
        <Count
          key={state}
          name={state}
          word={stateWord(state)}
          of={data?.items.filter((item) => item.state === state)}
          isChosen={chosen.includes(state)}
          onClick={() => onSearch(toggled(search, "state", state))}
        />
      ))}
      <Reasons search={search} onSearch={onSearch} />
    </fieldset>
  );
}

interface CountProps {
  readonly name: string;
  readonly word: string;
  /** Undefined: it is not known yet. */
  readonly of: readonly RunCount[] | undefined;
  readonly isChosen: boolean;
  readonly onClick: () => void;
}

const Count = ({ name, word, of, isChosen, onClick }: CountProps) => (
  <button type="button" className={`count ${name}`} aria-pressed={isChosen} onClick={onClick}>
    <span>{word}</span> <b>{of === undefined ? "…" : words(sum(of))}</b>
  </button>
);

/** Runs that have ended neither work nor wait. */
const UNDER_WAY = ["running", "paused", "compensating"];

/** Which runs work, and what the others wait for: of all runs, as a branch works or waits by itself while its root waits for it. An incident comes first. */
function Reasons({ search, onSearch }: SearchProps) {
  const { root_only: _, ...filters } = withoutStates(queryOf(search));
  const { data } = useCounts({ ...filters, state: UNDER_WAY });
  const items = data?.items ?? [];
  const chosen = listOf(search, "paused_reason");
  const found = items.flatMap(({ paused_reason }) => paused_reason ?? []);
  const reasons = [...new Set([...found, ...chosen])].sort(byUrgency);
  const working = items.filter(({ state }) => state === "running");
  if (reasons.length === 0 && working.length === 0) return null;
  return (
    <div className="reasons">
      <span className="quiet">branches, items and sub-sagas too:</span>
      {working.length > 0 && (
        <Count
          name="running"
          word={stateWord("running")}
          of={working}
          isChosen={!isRootOnly(search) && listOf(search, "state").join() === "running"}
          onClick={() => onSearch(withChildren(withFilter(search, "state", "running"), true))}
        />
      )}
      {reasons.map((reason) => (
        <Count
          key={reason}
          name={reason}
          word={reasonWord(reason)}
          of={items.filter((item) => item.paused_reason === reason)}
          isChosen={chosen.includes(reason)}
          onClick={() => onSearch(toggled(search, "paused_reason", reason))}
        />
      ))}
    </div>
  );
}

const FIRST = ["incident", "quarantine", "operator"];
const urgency = (reason: string) => (FIRST.includes(reason) ? FIRST.indexOf(reason) : FIRST.length);
const byUrgency = (left: string, right: string) => urgency(left) - urgency(right) || left.localeCompare(right);
