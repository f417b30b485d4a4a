// What a bulk job would hit: how many runs of which workflow and state, and the first of them. The job acts on those that match when it
// is created, which may be others.
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { get } from "../browser/client.js";
import { type DefinitionNames, useDefinitionNames } from "../browser/definitions.js";
import type { List, Run, RunCount } from "../browser/resources.js";
import { FilterText } from "../parts/filter-text.js";
import { Answer } from "../parts/notes.js";
import { Scroll } from "../parts/scroll.js";
import { State } from "../parts/values.js";
import { sum, useCounts, words } from "./counts.js";
import { queryOf, type RunQuery } from "./filters.js";
import { childIn } from "./table.js";

const FIRST = 10;
const MAX_KINDS = 50;

export function Preview({ search, limit }: { search: URLSearchParams; limit: number }) {
  const query = queryOf(search);
  const counts = useCounts(query);
  const total = counts.data && sum(counts.data.items).count;
  return (
    <>
      <p>
        What matches: <FilterText filter={query} />
      </p>
      <Answer of={counts}>{({ items }) => <Kinds items={items} limit={limit} />}</Answer>
      {total !== 0 && <FirstRuns query={query} isAll={total !== undefined && total <= FIRST} />}
    </>
  );
}

function Kinds({ items, limit }: { items: readonly RunCount[]; limit: number }) {
  const total = sum(items);
  return (
    <>
      <p role="status">
        <b>{words(total)}</b> {total.count === 1 ? "run matches" : "runs match"} now; the limit is{" "}
        {limit.toLocaleString()}.
      </p>
      {total.count > limit && (
        <p className="refused">
          More runs match than the limit allows. The service will refuse the job: nothing begins.
        </p>
      )}
      {items.length > 0 && <KindTable items={items} />}
    </>
  );
}

function KindTable({ items }: { items: readonly RunCount[] }) {
  const shown = items.slice(0, MAX_KINDS);
  const names = useDefinitionNames(shown);
  return (
    <Scroll label="Runs that match, by workflow and state">
      <table>
        <thead>
          <tr>
            <th scope="col">Workflow</th>
            <th scope="col">State</th>
            <th scope="col">Runs</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((item) => (
            <tr key={`${item.workflow_id} ${item.version} ${item.state} ${item.paused_reason}`}>
              <td title={item.workflow_id}>
                {names.workflow(item)} <span className="quiet">v{item.version}</span>
              </td>
              <td>
                <State state={item.state} reason={item.paused_reason} />
              </td>
              <td>{words(sum([item]))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function FirstRuns({ query: filters, isAll }: { query: RunQuery; isAll: boolean }) {
  const query = { ...filters, limit: FIRST };
  const runs = useQuery({
    queryKey: ["sagas", query],
    queryFn: ({ signal }) => get<List<Run>>("/sagas", { query, signal }),
  });
  return (
    <details>
      <summary>{isAll ? "All of them" : `The first ${FIRST} of them`}</summary>
      <Answer of={runs}>{({ items }) => <Listed runs={items} />}</Answer>
    </details>
  );
}

function Listed({ runs }: { runs: readonly Run[] }) {
  const names = useDefinitionNames(runs);
  return (
    <ul className="choices">
      {runs.map((run) => (
        <Entry key={run.id} run={run} names={names} />
      ))}
    </ul>
  );
}

/** The runs of a family have one business key. */
const Entry = ({ run, names }: { run: Run; names: DefinitionNames }) => (
  <li>
    <Link href={`/runs/${run.id}`}>{run.business_key ?? run.id}</Link>{" "}
    {run.parent_run_id !== undefined && <span className="quiet">{childIn(run, names)} </span>}
    <State state={run.state} reason={run.paused_reason} />
  </li>
);
