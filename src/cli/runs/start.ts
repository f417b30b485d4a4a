// `saga start`: starts a run and, if asked, waits for its end or watches it. The workflow must be published.
import { randomUUID } from "node:crypto";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { jsonGiven, objectGiven } from "../frame/input.js";
import { exitOf, hasEnded, pathOf, type Run } from "./run.js";
import { runLines } from "./show.js";
import { ended } from "./wait.js";

interface Started {
  readonly run_id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly state: Run["state"];
  readonly deduplicated: boolean;
}

export async function start(context: Context): Promise<ExitCode | undefined> {
  const body = await bodyIn(context);
  const timeoutMs = context.duration("timeout");
  const service = await context.service();
  const key = context.text("key") ?? randomUUID();
  const signal = await signalIn(context);
  const path = signal ? "/sagas/signal_with_start" : "/sagas/start";
  const started = await service.post<Started>(path, { ...body, ...signal }, { key });
  const { terminal, json } = context;
  if (context.flag("watch")) {
    const { watchRun } = await import("./watch.js");
    return watchRun(context, service, started.run_id, timeoutMs);
  }
  if (!context.flag("wait")) {
    if (json) terminal.printJson(started);
    else terminal.print(started.run_id);
    if (started.deduplicated) terminal.note(`saga: run ${started.run_id} was there before: nothing was started`);
    return EXIT.succeeded;
  }
  if (terminal.isInteractive) terminal.note(`saga: run ${started.run_id} has started, waiting for its end`);
  const run = await ended(service, started.run_id, timeoutMs);
  if (json) terminal.printJson(run);
  else terminal.print(runLines(run, terminal).join("\n"));
  return exitOf(run);
}

/** A signal that is sent with the start. */
async function signalIn(context: Context) {
  const [name, payload] = [context.text("signal"), context.text("payload")];
  if (name === undefined && payload !== undefined) throw context.wrong("--payload is that of a --signal");
  if (name === undefined) return undefined;
  const given = payload === undefined ? {} : await objectGiven("--payload", payload, context.terminal);
  return { signal: { name, payload: given } };
}

async function bodyIn(context: Context): Promise<Readonly<Record<string, unknown>>> {
  const given = async (option: string) => {
    const text = context.text(option);
    return text === undefined ? undefined : objectGiven(`--${option}`, text, context.terminal);
  };
  const delayMs = context.duration("delay");
  const runTimeoutMs = context.duration("runTimeout");
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  return {
    workflow_id: context.argument(0),
    version,
    inputs: await given("inputs"),
    variables: await given("variables"),
    entrypoint: context.text("entrypoint"),
    business_key: context.text("businessKey"),
    on_conflict: context.text("onConflict"),
    ...debounceIn(context),
    priority: context.integer("priority", { min: 1, max: 5 }),
    fairness_key: context.text("fairnessKey"),
    fairness_weight: weightIn(context),
    labels: context.pairs("label"),
    tenant_id: context.text("tenant"),
    dry_run: context.flag("dryRun") || undefined,
    ...(delayMs !== undefined && { delay_ms: delayMs }),
    ...(runTimeoutMs !== undefined && { timeout_ms: runTimeoutMs }),
  };
}

function weightIn(context: Context): number | undefined {
  const text = context.text("fairnessWeight");
  if (text === undefined) return undefined;
  if (context.text("fairnessKey") === undefined) throw context.wrong("--fairness-weight is that of a --fairness-key");
  const weight = Number(text);
  if (text.trim() !== "" && weight >= 0.001 && weight <= 1_000) return weight;
  throw context.wrong("--fairness-weight must be a number from 0.001 to 1000");
}

function debounceIn(context: Context) {
  const [window_ms, max_ms] = [context.duration("debounce"), context.duration("debounceMax")];
  if (window_ms === undefined && max_ms !== undefined) throw context.wrong("--debounce-max bounds a --debounce");
  return window_ms === undefined ? {} : { debounce: { window_ms, max_ms } };
}

/** `saga get`: a run as it stands, or after its end. */
export async function get(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const id = context.argument(0);
  const timeoutMs = context.duration("timeout");
  const waits = context.flag("wait");
  const run = waits ? await ended(service, id, timeoutMs) : await service.get<Run>(pathOf(id));
  if (context.json) context.terminal.printJson(run);
  else context.terminal.print(runLines(run, context.terminal).join("\n"));
  return waits && hasEnded(run) ? exitOf(run) : EXIT.succeeded;
}

interface Signalled {
  readonly signal_id: string;
  readonly matched: boolean;
  /** At its next wait, or its end. */
  readonly run?: Run;
}

/** The service lets the answer to a signal wait for a minute. */
const LONGEST_REST_MS = 60_000;
const USUAL_REST_MS = 50_000;

function restMs(context: Context): number {
  const ms = context.duration("timeout") ?? USUAL_REST_MS;
  if (ms > LONGEST_REST_MS) throw context.wrong("--timeout of a signal is at most 60s");
  return ms;
}

function rested({ terminal, json }: Context, id: string, run: Run | undefined): ExitCode {
  if (!run) throw new Failure(`run ${id} has taken it, and is still at work: saga watch ${id}`, EXIT.late);
  if (json) terminal.printJson(run);
  else terminal.print(runLines(run, terminal).join("\n"));
  return hasEnded(run) ? exitOf(run) : EXIT.succeeded;
}

/** `saga signal`: 202 is taken; "recorded, not awaited yet" is no failure, because the run takes it later. */
export async function signal(context: Context): Promise<ExitCode | undefined> {
  const { Refusal } = await import("../frame/service.js");
  const [id, name] = [context.argument(0), context.argument(1)];
  const text = context.text("payload");
  const payload = text === undefined ? {} : await jsonGiven("--payload", text, context.terminal);
  const service = await context.service();
  const path = pathOf(id, `/signal/${encodeURIComponent(name)}`);
  const key = context.text("key") ?? randomUUID();
  const waits = context.flag("wait") ? { query: { wait_ms: restMs(context) } } : {};
  try {
    const { run, ...answer } = await service.post<Signalled>(path, { payload }, { key, ...waits });
    if (context.flag("wait")) return rested(context, id, run);
    if (context.json) context.terminal.printJson({ ...answer, recorded: true });
    else context.terminal.print(`run ${id} has taken ${name}`);
  } catch (error) {
    if (!(error instanceof Refusal) || error.envelope.recorded !== true) throw error;
    const run = await service.get<Run>(pathOf(id));
    if (hasEnded(run)) throw error;
    if (context.json)
      context.terminal.printJson({ signal_id: error.envelope.signal_id, matched: false, recorded: true });
    else context.terminal.print(`${name} is recorded: run ${id} does not wait for it now, and takes it when it does`);
  }
  return EXIT.succeeded;
}
