// One bulk job: how far it is, live, what refused, and how to stop it or go on. The runs that it changed are in the list of runs.
import { type QueryClient, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "wouter";
import { actTitle } from "../acts/acts.js";
import { useMay } from "../browser/access.js";
import { useAct } from "../browser/act.js";
import { get, part, post } from "../browser/client.js";
import type { BulkJob } from "../browser/resources.js";
import { useTitle } from "../browser/title.js";
import { FilterText } from "../parts/filter-text.js";
import { Answer, Refused } from "../parts/notes.js";
import { When } from "../parts/values.js";
import { Progress } from "./progress.js";
import "./bulk.css";

/** A request waits this long for progress; then the page asks again. */
const WAIT_MS = 5_000;
/** A job that changes many runs in a second is not drawn for each of them. */
const PAUSE_MS = 250;

export default function JobPage() {
  const { id = "" } = useParams<{ id: string }>();
  const queries = useQueryClient();
  const job = useQuery({
    queryKey: ["bulk", id],
    queryFn: ({ signal }) => nextOf(id, queries, signal),
    refetchInterval: ({ state: { data } }) => (data?.state === "running" ? PAUSE_MS : false),
  });
  useTitle(job.data && actTitle(job.data.action), job.data?.state, "Bulk job");
  return (
    <>
      <p className="way-back">
        <Link href="/bulk">Bulk jobs</Link>
      </p>
      <Answer of={job}>{(job) => <Job job={job} />}</Answer>
    </>
  );
}

/** The job as it is at first; later, as soon as it is further than what the page shows. */
function nextOf(id: string, queries: QueryClient, signal: AbortSignal): Promise<BulkJob> {
  const shown = queries.getQueryData<BulkJob>(["bulk", id]);
  const query = shown?.state === "running" ? { wait_ms: WAIT_MS, after_done: shown.done } : {};
  return get<BulkJob>(`/bulk/${part(id)}`, { query, signal });
}

const Job = ({ job }: { job: BulkJob }) => (
  <>
    <h1>{actTitle(job.action)}</h1>
    <Progress job={job} />
    <Acts job={job} />
    <dl>
      <dt>Runs</dt>
      <dd>
        {job.action === "erase" ? (
          "Those that it has erased are gone."
        ) : (
          <Link href={`/runs?bulk_id=${job.bulk_id}`}>Those that it has changed, or started again</Link>
        )}
      </dd>
      <dt>Filter</dt>
      <dd>
        <FilterText filter={job.filter as Record<string, unknown>} />
      </dd>
      <dt>Began</dt>
      <dd>
        <When at={job.started_at} />
      </dd>
      <dt>Ended</dt>
      <dd>
        <When at={job.ended_at} />
      </dd>
    </dl>
    <Refusals job={job} />
  </>
);

/** An answer to a request that waits is older than the act: the page forgets the request, and shows the state that the act led to. */
function useChange(id: string) {
  const queries = useQueryClient();
  const queryKey = ["bulk", id];
  return useAct(
    (name: "stop" | "resume", idempotencyKey) =>
      post<Pick<BulkJob, "state">>(`/bulk/${part(id)}/${name}`, {}, { idempotencyKey }),
    {
      changes: ["bulk"],
      onDone: async ({ state }) => {
        await queries.cancelQueries({ queryKey });
        queries.setQueryData<BulkJob>(queryKey, (job) => job && { ...job, state });
      },
    },
  );
}

function Acts({ job: { bulk_id: id, state } }: { job: BulkJob }) {
  const change = useChange(id);
  const may = useMay();
  return (
    <>
      {change.error && <Refused error={change.error} />}
      <div className="row">
        {state === "running" && may("stopBulkJob") && (
          <button type="button" className="danger" disabled={change.isPending} onClick={() => change.mutate("stop")}>
            Stop the job
          </button>
        )}
        {state === "stopped" && may("resumeBulkJob") && (
          <button type="button" disabled={change.isPending} onClick={() => change.mutate("resume")}>
            Resume the job
          </button>
        )}
      </div>
    </>
  );
}

function Refusals({ job: { refused, refusals = [] } }: { job: BulkJob }) {
  if (refused === 0) return null;
  return (
    <section aria-labelledby="refusals">
      <h2 id="refusals">Refused</h2>
      {refused > refusals.length && (
        <p className="quiet">
          The first {refusals.length} of {refused.toLocaleString()}.
        </p>
      )}
      <ul className="refusals">
        {refusals.map(({ run_id: id, message }) => (
          <li key={id}>
            <Link href={`/runs/${id}`}>{id}</Link> {message}
          </li>
        ))}
      </ul>
    </section>
  );
}
