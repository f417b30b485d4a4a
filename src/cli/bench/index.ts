// `saga bench`: how many runs a service that is there carries out, and how long each takes. It brings its own workflow, and its own worker if it is told where; it takes both
// away again. A deployment is measured with the bench of the repository.
import { randomUUID } from "node:crypto";
import { isLoopback } from "../../config/index.js";
import { SagaApiError, SagaClient, type SagaRun, UnexpectedAnswer, Unreachable } from "../../sdk/client/index.js";
import { LONGEST_TIMER_MS, within } from "../../sdk/timer.js";
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { Place, Service } from "../frame/service.js";
import { duration } from "../frame/text.js";
import { Durations } from "./durations.js";
import { drive, type Schedule } from "./load.js";
import { startBenchWorker, WORKER_SERVICE } from "./worker.js";

/** A run that takes longer counts as an error. */
const RUN_MS = 60_000;
/** For the requests that tidy up, after a Ctrl-C, too. */
const TIDY_WITHIN_MS = 30_000;
const LABEL = "saga-bench";
const DEFAULTS = { count: 1_000, concurrency: 16, durationMs: 60_000 };

interface Result {
  readonly workflow_id: string;
  readonly seconds: number;
  /** That were started and have ended, or whose start or end was an error. */
  readonly runs: number;
  readonly succeeded: number;
  readonly runs_per_second: number;
  /** From the moment at which the start was due to the answer with the end. Absent: none has succeeded. */
  readonly latency_ms?: { readonly p50: number; readonly p95: number; readonly p99: number };
  /** How many, by kind. */
  readonly errors: Readonly<Record<string, number>>;
  /** Runs that had not ended, and were terminated. */
  readonly terminated: number;
}

/** 0: every run has succeeded. 1: one has not. */
export async function bench(context: Context): Promise<ExitCode | undefined> {
  const schedule = scheduleIn(context);
  const { terminal } = context;
  const service = await context.service();
  const { place } = service;
  const { hostname } = new URL(place.url);
  if (!isLoopback(hostname.replace(/^\[|\]$/g, "")) && !context.flag("yes"))
    throw context.wrong(
      `${place.url} is not this machine, and a load test disturbs everyone who uses it: --yes if it is meant`,
    );
  const grpc = context.text("grpc");
  if (grpc !== undefined && !/^[^/\s]+:\d+$/.test(grpc))
    throw context.wrong("--grpc must be host:port, such as 127.0.0.1:9090");
  const signal = context.signal;
  const onTrouble = (message: string) => terminal.note(`saga: worker: ${message}`);
  const options = { ...place, maxInFlight: schedule.concurrency, signal, onTrouble };
  const worker = grpc === undefined ? undefined : await startBenchWorker({ ...options, grpc });
  const load = new Load(place, workflowOf(grpc !== undefined), signal);
  try {
    await load.publish(service);
    terminal.note(`saga: ${loadText(schedule, load.workflow.id)} at ${place.url}`);
    const result = await load.run(schedule);
    if (context.json) terminal.printJson(result);
    else terminal.print(linesOf(result).join("\n"));
    if (signal.aborted) return EXIT.interrupted;
    return result.succeeded === result.runs ? EXIT.succeeded : EXIT.failed;
  } finally {
    for (const problem of await load.tidyUp()) terminal.note(`saga: ${problem}`);
    await worker?.stop();
  }
}

function scheduleIn(context: Context): Schedule {
  const { count, concurrency, durationMs } = DEFAULTS;
  const rate = context.integer("rate", { min: 1, max: 100_000 });
  const most = context.integer("concurrency", { min: 1, max: 1_000 }) ?? concurrency;
  return {
    count: context.integer("runs", { min: 1, max: 1_000_000 }) ?? count,
    concurrency: most,
    durationMs: context.duration("time") ?? durationMs,
    ...(rate !== undefined && { ratePerSecond: rate, mostInProgress: most }),
  };
}

/** Three steps. The ids are always the same, so that a service does not collect workflows. */
function workflowOf(hasWorker: boolean) {
  const ids = ["first", "second", "third"];
  const action = { type: "action", action: `${WORKER_SERVICE}.echo`, inputs: { amount: 9.5 } };
  const steps = ids.map((id, nth) => ({
    id,
    ...(hasWorker ? action : { type: "noop" }),
    ...(nth < ids.length - 1 && { next: ids[nth + 1] }),
  }));
  const id = hasWorker ? "saga-bench-actions" : "saga-bench-noop";
  return { id, name: "The workflow of saga bench", start: "first", timeout_ms: RUN_MS, steps, published: true };
}

class Load {
  private readonly id = randomUUID();
  private readonly client: SagaClient;
  private readonly durations = new Durations();
  private readonly errors = new Map<string, number>();
  private terminated = 0;
  /** Of the workflow. `unknown`: the request was cut off. */
  private version: number | "unknown" | undefined;

  constructor(
    place: Place,
    readonly workflow: ReturnType<typeof workflowOf>,
    private readonly signal: AbortSignal,
  ) {
    // A request that is repeated would hide that it failed.
    this.client = new SagaClient({ ...place, retry: false, webSocket: false });
  }

  /** Throws Failure. */
  async publish(service: Service): Promise<void> {
    try {
      this.version = (await service.post<{ version: number }>("/workflows", this.workflow)).version;
    } catch (error) {
      if (this.signal.aborted) this.version = "unknown";
      throw error;
    }
  }

  async run(schedule: Schedule): Promise<Result> {
    const since = performance.now();
    // An open loop that the service cannot follow would go on until it has begun all of them.
    const stop = within(this.signal, Math.min(schedule.durationMs ?? RUN_MS, LONGEST_TIMER_MS));
    await drive(schedule, (_, intended) => this.one(intended), stop);
    const seconds = (performance.now() - since) / 1_000;
    this.terminated = await this.terminateRest().catch(() => 0);
    const { durations } = this;
    const succeeded = durations.count;
    const failed = [...this.errors.values()].reduce((sum, count) => sum + count, 0);
    return {
      ...{ workflow_id: this.workflow.id, seconds: rounded(seconds), runs: succeeded + failed, succeeded },
      runs_per_second: rounded(succeeded / seconds),
      ...(succeeded > 0 && { latency_ms: { p50: durations.at(50), p95: durations.at(95), p99: durations.at(99) } }),
      ...{ errors: Object.fromEntries(this.errors), terminated: this.terminated },
    };
  }

  /** Never rejects. */
  private async one(intended: number): Promise<void> {
    const body = { workflow_id: this.workflow.id, inputs: {}, labels: { [LABEL]: this.id } };
    const asked = { body, query: { wait_ms: RUN_MS }, signal: this.signal };
    try {
      const { run } = await this.client.request<{ run?: SagaRun }>("POST", "/api/v1/sagas/start", asked);
      if (run?.state === "succeeded") this.durations.record(performance.now() - intended);
      else this.count(run?.error ? `run ${run.state}: ${run.error.code}` : `run ${run?.state ?? "not ended"}`);
    } catch (error) {
      if (!this.signal.aborted) this.count(kindOf(error));
    }
  }

  private count(kind: string): void {
    this.errors.set(kind, (this.errors.get(kind) ?? 0) + 1);
  }

  /** Of the runs of this load. Other loads have the same workflow. */
  private async terminateRest(): Promise<number> {
    const signal = AbortSignal.timeout(TIDY_WITHIN_MS);
    const state = ["pending", "running", "paused", "compensating"] as const;
    let terminated = 0;
    for (;;) {
      const left = await this.client.runs.list({ labels: { [LABEL]: this.id }, state: [...state] }, { signal }).first();
      if (left.items.length === 0) return terminated;
      for (const { id } of left.items) {
        const path = `/api/v1/sagas/${id}/terminate`;
        await this.client
          .request("POST", path, { body: { reason: "the end of saga bench" }, signal })
          .catch((error) => {
            // It has ended meanwhile.
            if (!(error instanceof SagaApiError) || error.status !== 409) throw error;
          });
        terminated++;
      }
    }
  }

  private async unpublish(known: number | "unknown"): Promise<void> {
    const signal = AbortSignal.timeout(TIDY_WITHIN_MS);
    const path = `/api/v1/workflows/${this.workflow.id}`;
    const version =
      known === "unknown" ? (await this.client.request<{ version: number }>("GET", path, { signal })).version : known;
    await this.client.request("POST", `${path}/versions/${version}/unpublish`, { body: {}, signal });
  }

  /** Returns what could not be done. Never rejects. */
  async tidyUp(): Promise<readonly string[]> {
    const problems: string[] = [];
    if (this.version === undefined) return problems;
    // First, because a start that was cut off may become a run until then.
    await this.unpublish(this.version).catch((error: unknown) => {
      if (!(error instanceof SagaApiError) || error.status !== 404)
        problems.push(`the workflow ${this.workflow.id} is still published: ${messageOf(error)}`);
    });
    await this.terminateRest().catch((error: unknown) => {
      problems.push(`runs with the label ${LABEL}=${this.id} may go on: ${messageOf(error)}`);
    });
    return problems;
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function kindOf(error: unknown): string {
  if (error instanceof SagaApiError) return `${error.status} ${error.code}`;
  if (error instanceof Unreachable) return "unreachable";
  return error instanceof UnexpectedAnswer ? "unexpected answer" : messageOf(error);
}

const rounded = (value: number): number => Math.round(value * 10) / 10;

function loadText({ count, concurrency, durationMs = 0, ratePerSecond }: Schedule, id: string): string {
  const rate = ratePerSecond === undefined ? "" : `, ${ratePerSecond} a second`;
  return `up to ${count} runs of ${id} in ${duration(durationMs)}${rate}, at most ${concurrency} at once,`;
}

function linesOf({
  runs,
  seconds,
  runs_per_second,
  latency_ms: latency,
  errors,
  terminated,
}: Result): readonly string[] {
  const kinds = Object.entries(errors).map(([kind, count]) => `${count} of ${kind}`);
  return [
    `runs     ${runs} in ${seconds} s: ${runs_per_second} succeeded a second`,
    ...(latency
      ? [`latency  p50 ${duration(latency.p50)}, p95 ${duration(latency.p95)}, p99 ${duration(latency.p99)}`]
      : []),
    `errors   ${kinds.length === 0 ? "none" : kinds.join(", ")}`,
    ...(terminated > 0 ? [`unended  ${terminated}, which are terminated`] : []),
  ];
}
