// Bulk jobs as clients see them: create, read, list, stop, wait. What a job does is the driver's matter.
import type { Sql } from "postgres";
import type { JsonObject } from "../../machines/index.js";
import { conflict, notFound, unprocessable } from "../errors.js";
import { derivedUuid, requestHash, uuidv7 } from "../ids.js";
import {
  type BulkJob,
  createJob,
  type JobChange,
  jobById,
  jobItem,
  refusalsOf,
  resumeJob,
  stopJob,
} from "../store/lists/bulk-jobs.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import { Semaphore } from "../work/semaphore.js";

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
  readonly actor: string;
}

export interface BulkOptions {
  readonly sql: Sql;
  /** A job is to be driven: a hint. */
  readonly onCreated: () => void;
}

export class BulkJobs {
  /** Creating a job may take a session for seconds: one at a time has to be enough. */
  private readonly creating = new Semaphore(1);

  constructor(private readonly options: BulkOptions) {}

  /** With a key, a repeat gets the first job, and another body is 409. Throws 409, 422 if more runs match than `limit`, 503. */
  async create(request: BulkRequest, key?: string): Promise<Pick<BulkJob, "id" | "matched">> {
    const { action, filter, params, normal, limit = STANDARD_LIMIT, runs, actor } = request;
    const { sql, onCreated } = this.options;
    const hash = requestHash({ action, filter, params: normal, limit });
    const id = key === undefined ? uuidv7() : bulkId(key);
    const first = key === undefined ? undefined : await jobById(sql, id);
    if (first) return repeated(first, hash);
    return this.creating.run(async () => {
      const matched = await createJob(sql, { id, action, filter, params, actor, requestHash: hash }, runs, limit);
      const job = await jobById(sql, id);
      if (!job) throw tooMany(matched, limit);
      onCreated();
      return repeated(job, hash);
    });
  }

  /** The job with its first refusals. Throws 404. */
  async read(sql: Sql, id: string): Promise<JsonObject> {
    const job = await jobById(sql, id);
    if (!job) throw noSuchJob(id);
    return { ...jobItem(job), refusals: job.refused > 0 ? await refusalsOf(sql, id, REFUSALS) : [] };
  }

  /** With a key, a repeat within a day gets the first answer. Throws 404. */
  async stop(id: string, key?: string): Promise<JobChange> {
    const stopped = await stopJob(this.options.sql, id, changeId("stop", key));
    if (!stopped) throw noSuchJob(id);
    return stopped;
  }

  /** Takes a stop back. With a key, a repeat within a day gets the first answer. Throws 404. */
  async resume(id: string, key?: string): Promise<JobChange> {
    const resumed = await resumeJob(this.options.sql, id, changeId("resume", key));
    if (!resumed) throw noSuchJob(id);
    this.options.onCreated();
    return resumed;
  }
}

/** A storage format: it must never change. */
function bulkId(key: string): string {
  return derivedUuid(`bulk-job/${key}`);
}

/** Identifies a stop or a resume within its job. A storage format: it must never change. */
function changeId(act: "stop" | "resume", key: string | undefined): string | undefined {
  return key === undefined ? undefined : derivedUuid(`bulk-job/${act}/${key}`);
}

function repeated(job: BulkJob, hash: string): BulkJob {
  if (job.requestHash !== hash) throw conflict("the idempotency key was used with another body");
  return job;
}

function tooMany(matched: number, limit: number) {
  const raise = limit < MAX_LIMIT ? `, or raise the limit (at most ${MAX_LIMIT})` : "";
  const message = `matches at least ${matched} runs, and the limit is ${limit}: narrow it down${raise}`;
  return unprocessable(`the filter ${message}`, [{ path: "$.filter", message }]);
}

const noSuchJob = (id: string) => notFound(`there is no bulk job ${id}`);
