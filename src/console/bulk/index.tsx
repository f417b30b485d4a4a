// The list of bulk jobs, newest first, with how far each is. A job begins at the list of runs.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "wouter";
import { actTitle } from "../acts/acts.js";
import { useMay } from "../browser/access.js";
import { get } from "../browser/client.js";
import type { BulkJob, List } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { FilterText } from "../parts/filter-text.js";
import { Answer } from "../parts/notes.js";
import { Tenant, useSeesTenants } from "../parts/tenants.js";
import { When } from "../parts/values.js";
import { Progress } from "./progress.js";
import "./bulk.css";

const REFRESH_MS = 2_000;
const PAGE_SIZE = 50;

export default function BulkPage() {
  const [search] = useSearchParams();
  const may = useMay();
  useTitle("Bulk jobs");
  const query = { limit: PAGE_SIZE, cursor: search.get("cursor") ?? undefined };
  const jobs = useQuery({
    queryKey: ["bulk", query],
    queryFn: ({ signal }) => get<List<BulkJob>>("/bulk", { query, signal }),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <h1>Bulk jobs</h1>
      <p className="quiet">
        One act on all runs that a filter matches.
        {may("createBulkJob") && (
          <>
            {" "}
            To begin one, filter the <Link href="/runs">runs</Link> and choose “Act on all that match”.
          </>
        )}
      </p>
      <Answer of={jobs}>{(page) => <Jobs page={page} />}</Answer>
    </>
  );
}

function Jobs({ page: { items, next_cursor: next } }: { page: List<BulkJob> }) {
  const seesTenants = useSeesTenants(items);
  if (items.length === 0) return <p role="status">There are no jobs.</p>;
  return (
    <>
      <ul className="jobs">
        {items.map((job) => (
          <Job key={job.bulk_id} {...{ job, seesTenants }} />
        ))}
      </ul>
      {next !== undefined && (
        <Link className="button" href={`/bulk?cursor=${encodeURIComponent(next)}`}>
          Next page
        </Link>
      )}
    </>
  );
}

const Job = ({ job, seesTenants }: { job: BulkJob; seesTenants: boolean }) => (
  <li className="card">
    <p className="row">
      <Link href={`/bulk/${job.bulk_id}`}>{actTitle(job.action)}</Link>
      <span className="quiet">
        <When at={job.started_at} />
      </span>
    </p>
    <Progress job={job} />
    <p className="quiet">
      <FilterText filter={job.filter as Record<string, unknown>} />
    </p>
    {seesTenants && (
      <p className="quiet">
        tenant <Tenant id={job.tenant_id} />
      </p>
    )}
  </li>
);
