// `saga bulk` and `saga migrate`: one act for many runs, after a preview and a confirmation that is typed. Each run still decides for itself.
import { randomUUID } from "node:crypto";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, objectGiven } from "../frame/input.js";
import type { Page, Service } from "../frame/service.js";
import { type Column, inline, safe, table } from "../frame/text.js";
import { filtersIn } from "../runs/list.js";
import { pathOf } from "../runs/run.js";

interface Count {
  readonly workflow_id: string;
  readonly version: number;
  readonly state: string;
  readonly paused_reason?: string;
  readonly count: number;
}

interface Job {
  readonly bulk_id: string;
  readonly action: string;
  readonly filter: JsonObject;
  readonly state: "running" | "done" | "stopped";
  readonly matched: number;
  readonly done: number;
  readonly refused: number;
  readonly refusals?: readonly { readonly run_id: string; readonly message: string }[];
  readonly started_at: string;
}

const MOST_RUNS = 100_000;
const WAIT_MS = 20_000;

/** The names of the command for acts, and those of the API. */
const ACTIONS: Readonly<Record<string, string>> = {
  ...{ retry: "retry_step", skip: "skip_step", "retry-undo": "compensations/retry", "skip-undo": "compensations/skip" },
};

export async function bulk(context: Context): Promise<ExitCode | undefined> {
  const given = context.argument(0);
  const params = context.text("params");
  const body = params === undefined ? {} : { params: await objectGiven("--params", params, context.terminal) };
  const service = await context.service();
  return runJob(context, service, ACTIONS[given] ?? given, filterIn(context), body);
}

/** The members of the list's filters, as a bulk job takes them. */
const filterIn = (context: Context): JsonObject =>
  Object.fromEntries(Object.entries(filtersIn(context)).filter(([, value]) => value !== undefined));

async function runJob(
  context: Context,
  service: Service,
  action: string,
  filter: JsonObject,
  body: JsonObject,
): Promise<ExitCode> {
  const { terminal } = context;
  const most = context.integer("most", { min: 1, max: MOST_RUNS }) ?? 10_000;
  const counts = await service.get<{ items: readonly Count[] }>("/sagas/counts", {
    ...(filter as Record<string, string>),
    count: "exact",
  });
  const matched = counts.items.reduce((sum, { count }) => sum + count, 0);
  if (matched === 0) {
    if (context.json) terminal.printJson({ matched: 0 });
    else terminal.print("no run matches: nothing was done");
    return EXIT.succeeded;
  }
  terminal.note(preview(counts.items, action, matched));
  if (matched > most) throw new Failure(`${matched} runs match, and --most is ${most}`);
  await confirm(context, action, matched);
  const { bulk_id } = await service.post<{ bulk_id: string; matched: number }>(
    "/bulk",
    { filter, action, limit: most, ...body },
    { key: randomUUID() },
  );
  if (context.flag("detach")) {
    if (context.json) terminal.printJson({ bulk_id, matched });
    else terminal.print(bulk_id);
    return EXIT.succeeded;
  }
  return followed(context, service, bulk_id);
}

function preview(counts: readonly Count[], action: string, matched: number): string {
  const columns: readonly Column[] = [{ title: "WORKFLOW" }, { title: "STATE" }, { title: "RUNS" }];
  const rows = counts.map(({ workflow_id, version, state, paused_reason, count }) => [
    { text: `${workflow_id} ${version}` },
    { text: paused_reason === undefined ? state : `${state}: ${paused_reason}` },
    { text: String(count) },
  ]);
  return `${table(columns, rows, 120).join("\n")}\n${action} for ${matched} runs`;
}

/** A person types the number; a script says which number it has seen. Throws Failure. */
async function confirm(context: Context, action: string, matched: number): Promise<void> {
  const expected = context.integer("confirm", { min: 0, max: MOST_RUNS });
  if (expected !== undefined) {
    if (expected === matched) return;
    throw new Failure(`${matched} runs match, and --confirm says ${expected}: nothing was done`, EXIT.refused);
  }
  if (!context.terminal.isInteractive)
    throw new Failure(`nothing was done: repeat it with --confirm ${matched}, the number of runs that match`);
  const typed = await context.terminal.ask(`Type the number of runs to ${action} them: `);
  if (typed.trim() !== String(matched)) throw new Failure("that is another number: nothing was done", EXIT.refused);
}

async function followed(context: Context, service: Service, id: string): Promise<ExitCode> {
  const { terminal } = context;
  const note = (job: Job) => terminal.note(`${job.done + job.refused} of ${job.matched} (${job.refused} refused)`);
  const path = `/bulk/${encodeURIComponent(id)}`;
  try {
    let job = await service.get<Job>(path);
    while (job.state === "running") {
      if (terminal.isInteractive) note(job);
      job = await service.get<Job>(path, { wait_ms: WAIT_MS, after_done: job.done });
      context.goOn();
    }
    show(context, job);
    return job.refused === 0 && job.state === "done" ? EXIT.succeeded : EXIT.failed;
  } catch (error) {
    if (context.signal.aborted) terminal.note(`saga: the job goes on: saga bulk get ${id}, or saga bulk stop ${id}`);
    throw error;
  }
}

function show({ terminal, json }: Context, job: Job): void {
  if (json) return terminal.printJson(job);
  terminal.print(
    `${job.bulk_id}  ${job.action}  ${job.state}: ${job.done} of ${job.matched} done, ${job.refused} refused`,
  );
  for (const { run_id, message } of job.refusals ?? []) terminal.print(`  ${run_id} ${safe(message)}`);
}

export async function get(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  show(context, await service.get<Job>(`/bulk/${encodeURIComponent(context.argument(0))}`));
  return EXIT.succeeded;
}

export async function list(context: Context): Promise<ExitCode | undefined> {
  const limit = context.integer("limit", { min: 1, max: 500 }) ?? 20;
  const service = await context.service();
  const page = await service.get<Page<Job>>("/bulk", { limit });
  const { terminal } = context;
  if (context.json) terminal.printJson(page);
  else if (page.items.length === 0) terminal.note("saga: there is no bulk job");
  else {
    const columns: readonly Column[] = [
      { title: "JOB" },
      { title: "ACTION" },
      { title: "STATE" },
      { title: "DONE" },
      { title: "REFUSED" },
      { title: "FILTER", least: 10 },
    ];
    const rows = page.items.map((job) => [
      { text: job.bulk_id },
      { text: job.action },
      { text: job.state },
      { text: `${job.done}/${job.matched}` },
      { text: String(job.refused) },
      { text: inline(job.filter) },
    ]);
    terminal.print(table(columns, rows, terminal.width).join("\n"));
  }
  return EXIT.succeeded;
}

const changed =
  (route: "stop" | "resume") =>
  async (context: Context): Promise<ExitCode | undefined> => {
    const service = await context.service();
    const path = `/bulk/${encodeURIComponent(context.argument(0))}/${route}`;
    const answer = await service.post<{ bulk_id: string; state: string; changed: boolean }>(
      path,
      {},
      { key: randomUUID() },
    );
    if (context.json) context.terminal.printJson(answer);
    else
      context.terminal.print(
        `bulk job ${answer.bulk_id} is ${answer.state}${answer.changed ? "" : ": nothing had to be done"}`,
      );
    return EXIT.succeeded;
  };

export const stop = changed("stop");
export const resume = changed("resume");

interface Reason {
  readonly path?: string;
  readonly message: string;
  readonly count?: number;
  readonly run_ids?: readonly string[];
}

/** `saga migrate run`: one run to another version. */
export async function migrateRun(context: Context): Promise<ExitCode | undefined> {
  const body = await moveIn(context);
  const service = await context.service();
  const { terminal } = context;
  const path = pathOf(context.argument(0), "/migrate");
  if (context.flag("check")) {
    const found = await service.post<{ allowed: boolean; reasons: readonly Reason[] }>(path, { ...body, check: true });
    if (context.json) terminal.printJson(found);
    else terminal.print(found.allowed ? "it can be moved" : `it cannot be moved:\n${reasonLines(found.reasons)}`);
    return found.allowed ? EXIT.succeeded : EXIT.failed;
  }
  const acted = await service.post<{ run_id: string; state: string; changed: boolean }>(path, body, {
    key: randomUUID(),
  });
  if (context.json) terminal.printJson(acted);
  else
    terminal.print(
      `run ${acted.run_id} is ${acted.state}: ${acted.changed ? `of version ${context.text("to")} now` : "nothing had to be done"}`,
    );
  return EXIT.succeeded;
}

/** `saga migrate all`: looks first, then moves all runs of a workflow that are of an older version, as a bulk job. */
export async function migrateAll(context: Context): Promise<ExitCode | undefined> {
  const body = await moveIn(context);
  const from = context.integer("from", { min: 1, max: 2_147_483_647 });
  const service = await context.service();
  const { terminal } = context;
  const workflow = context.argument(0);
  const found = await service.post<{
    matched: number;
    movable: number;
    refused: number;
    reasons: readonly Reason[];
    truncated?: boolean;
  }>(`/workflows/${encodeURIComponent(workflow)}/migrations/check`, {
    ...body,
    ...(from !== undefined && { from_version: from }),
    limit: 10_000,
  });
  const sentence = `${found.movable} of ${found.matched}${found.truncated ? " looked at" : ""} runs can be moved`;
  const why = found.reasons.length === 0 ? "" : `:\n${reasonLines(found.reasons)}`;
  if (context.flag("check")) {
    if (context.json) terminal.printJson(found);
    else terminal.print(sentence + why);
    return found.refused === 0 ? EXIT.succeeded : EXIT.failed;
  }
  terminal.note(sentence + why);
  if (found.movable === 0) return EXIT.succeeded;
  const filter = { workflow_id: workflow, state: ["pending", "running", "paused", "compensating"], root_only: true };
  return runJob(
    context,
    service,
    "migrate",
    { ...filter, ...(from !== undefined && { version: from }) },
    { params: body },
  );
}

async function moveIn(context: Context): Promise<JsonObject> {
  const version = context.integer("to", { min: 1, max: 2_147_483_647 });
  if (version === undefined) throw context.wrong("--to is needed: the version to move to");
  const steps = context.pairs("step");
  return { version, ...(steps && { steps }) };
}

const reasonLines = (reasons: readonly Reason[]): string =>
  reasons
    .map(({ path, message, count, run_ids: ids }) => {
      const many = count === undefined ? "" : `${count} × `;
      return `  ${many}${safe(`${path ?? ""} ${message}`.trim())}${ids ? ` (${ids.slice(0, 2).join(", ")}${ids.length > 2 ? ", …" : ""})` : ""}`;
    })
    .join("\n");
