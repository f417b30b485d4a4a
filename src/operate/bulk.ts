// Bulk jobs as clients see them: create, read, list, stop, wait. What a job does is the driver's matter.
import type { Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { ALL, plainReach, type Reach, reachOfPlain } from "../access/index.js";
import { conflict, notFound, unprocessable } from "../errors.js";
import { derivedUuid, requestHash, uuidv7 } from "../ids.js";
import {
  type BulkJob,
  createJob,
  type JobChange,
  jobById,
  jobItem,
  readJob,
  refusalsOf,
  resumeJob,
  stopJob,
} from "../store/lists/bulk-jobs.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import type { Reach as ReadReach } from "../store/lists/reach.js";
import { Shares } from "../work/shares.js";

export const STANDARD_LIMIT = 10_000;
export const MAX_LIMIT = 100_000;
/** The most refusals that one answer lists. */
const REFUSALS = 100;

export interface BulkRequest {
  readonly action: string;
  /** The filter as it was posted; `runs` is what it means. */
  readonly filter: JsonObject;
  readonly runs: RunFilter;
  readonly params: JsonObject;
  /** The same without the defaults that they spell out. */
  readonly normal: JsonObject;
  readonly limit?: number;
  /** Who creates it: each of its acts is this one's, with this reach. */
  readonly actor: string;
  readonly reach: Reach;
  /** Absent: it is of no tenant. */
  readonly tenantId?: string;
}

export interface BulkOptions {
  readonly sql: Sql;
  /** A job is to be driven: a hint. */
  readonly onCreated: () => void;
}

export class BulkJobs {
  /** Creating a job may take a session for seconds: two at a time, of two tenants, have to be enough. */
  private readonly creating = new Shares(2);

  constructor(private readonly options: BulkOptions) {}

  /** With a key, a repeat gets the first job, and another body is 409. Throws 409, 422 if more runs match than `limit`, 503. */
  async create(request: BulkRequest, key?: string): Promise<Pick<BulkJob, "id" | "matched">> {
    const { action, filter, params, normal, limit = STANDARD_LIMIT, runs, actor, reach, tenantId } = request;
    const { sql, onCreated } = this.options;
    const hash = requestHash({ action, filter, params: normal, limit });
    const id = key === undefined ? uuidv7() : bulkId(tenantId, key);
    const first = key === undefined ? undefined : await jobById(sql, id);
    if (first) return repeated(first, hash, reach);
    const made = { actor, tenantId, reach: plainReach(reach), requestHash: hash };
    return this.creating.run(tenantId ?? actor, async () => {
      const matched = await createJob(sql, reach, { id, action, filter, params, ...made }, runs, limit);
      const job = await jobById(sql, id);
      if (!job) throw tooMany(matched, limit);
      onCreated();
      return repeated(job, hash, reach);
    });
  }

  /** The job with its first refusals. Throws 404, also for a job outside of the reach of who asks. */
  async read(sql: Sql, reach: ReadReach, id: string): Promise<JsonObject> {
    const job = await readJob(sql, reach, id);
    if (!job) throw noSuchJob(id);
    return { ...jobItem(job), refusals: job.refused > 0 ? await refusalsOf(sql, id, REFUSALS) : [] };
  }

  /** With a key, a repeat within a day gets the first answer. Throws 404. */
  async stop(id: string, reach: Reach, key?: string): Promise<JobChange> {
    await this.known(this.options.sql, id, reach);
    const stopped = await stopJob(this.options.sql, id, changeId("stop", key));
    if (!stopped) throw noSuchJob(id);
    return stopped;
  }

  /** Takes a stop back. With a key, a repeat within a day gets the first answer. Throws 404, and what `check` throws of its action. */
  async resume(id: string, reach: Reach, key?: string, check: (action: string) => void = () => {}): Promise<JobChange> {
    check((await this.known(this.options.sql, id, reach)).action);
    const resumed = await resumeJob(this.options.sql, id, changeId("resume", key));
    if (!resumed) throw noSuchJob(id);
    this.options.onCreated();
    return resumed;
  }

  private async known(sql: Sql, id: string, reach: Reach): Promise<BulkJob> {
    const job = await jobById(sql, id);
    if (!job || !reaches(reach, job)) throw noSuchJob(id);
    return job;
  }
}

/** Whether the job is of these tenants, and acts on no more workflows than these. */
function reaches({ tenants, workflows }: Reach, { tenantId, reach }: BulkJob): boolean {
  const isOfTenants = tenants === "*" || (tenantId !== null && tenants.includes(tenantId));
  return isOfTenants && (!workflows || workflows.contain(reachOfPlain(reach).workflows ?? ALL));
}

/** A storage format: it must never change. */
function bulkId(tenantId: string | undefined, key: string): string {
  return derivedUuid(`bulk-job/${tenantId ?? ""}/${key}`);
}

/** Identifies a stop or a resume within its job. A storage format: it must never change. */
function changeId(act: "stop" | "resume", key: string | undefined): string | undefined {
  return key === undefined ? undefined : derivedUuid(`bulk-job/${act}/${key}`);
}

/** One who may reach less than the first is not told of its job. */
function repeated(job: BulkJob, hash: string, reach: Reach): BulkJob {
  if (job.requestHash !== hash || !reaches(reach, job))
    throw conflict("the idempotency key was used with another body");
  return job;
}

function tooMany(matched: number, limit: number) {
  const raise = limit < MAX_LIMIT ? `, or raise the limit (at most ${MAX_LIMIT})` : "";
  const message = `matches at least ${matched} runs, and the limit is ${limit}: narrow it down${raise}`;
  return unprocessable(`the filter ${message}`, [{ path: "$.filter", message }]);
}

const noSuchJob = (id: string) => notFound(`there is no bulk job ${id}`);
