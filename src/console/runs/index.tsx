// The list of runs: filters, live counts, pages, and the ways to act on what it shows. One run is on a page of its own.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { useMay } from "../browser/access.js";
import { get } from "../browser/client.js";
import type { List, Run } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { Answer } from "../parts/notes.js";
import { reasonWord, stateWord } from "../parts/state-words.js";
import { BulkDialog } from "./bulk-dialog.js";
import { StateCounts } from "./counts.js";
import { FilterBar } from "./filter-bar.js";
import { listOf, queryOf } from "./filters.js";
import { Pages } from "./pages.js";
import { StartDialog } from "./start-dialog.js";
import { RunTable } from "./table.js";
import "./runs.css";

const REFRESH_MS = 3_000;
const PAGE_SIZE = 50;

export default function RunsPage() {
  const [search, setSearch] = useSearchParams();
  const replace = (next: URLSearchParams) => setSearch(next, { replace: true });
  const runs = useRuns(search);
  useTitle(chosenIn(search), "Runs");
  return (
    <>
      <header className="row runs-head">
        <h1>Runs</h1>
        <Dialogs search={search} />
      </header>
      <FilterBar search={search} onSearch={replace} />
      <StateCounts search={search} onSearch={replace} />
      <div aria-busy={runs.isPlaceholderData} className="run-list">
        <Answer of={runs}>
          {(page) => (
            <>
              <Pages page={page} search={search} />
              {page.items.length > 0 && <RunTable runs={page.items} />}
              <Pages page={page} search={search} isBelow />
            </>
          )}
        </Answer>
      </div>
    </>
  );
}

/** The filters that tell one list from another. */
const chosenIn = (search: URLSearchParams): string =>
  [
    search.get("workflow_id"),
    ...listOf(search, "state").map(stateWord),
    ...listOf(search, "paused_reason").map(reasonWord),
  ]
    .filter(Boolean)
    .join(", ");

function useRuns(search: URLSearchParams) {
  const page = { sort: search.get("sort") ?? undefined, cursor: search.get("cursor") ?? undefined, limit: PAGE_SIZE };
  const query = { ...queryOf(search), ...page };
  return useQuery({
    queryKey: ["sagas", query],
    queryFn: ({ signal }) => get<List<Run>>("/sagas", { query, signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

function Dialogs({ search }: { search: URLSearchParams }) {
  const [open, setOpen] = useState<"start" | "bulk">();
  const close = () => setOpen(undefined);
  const may = useMay();
  return (
    <>
      {may("startSaga") && (
        <button type="button" className="primary" onClick={() => setOpen("start")}>
          Start a run …
        </button>
      )}
      {may("createBulkJob") && (
        <button type="button" onClick={() => setOpen("bulk")}>
          Act on all that match …
        </button>
      )}
      {open === "start" && <StartDialog onClose={close} />}
      {open === "bulk" && <BulkDialog search={search} onClose={close} />}
    </>
  );
}
