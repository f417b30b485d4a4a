// The waits of a run in words and as data: one entry for each kind. Which of them the run is in, and what else there is to say about it,
// is in explain.ts.
import { type ActionCall, actionText } from "../state/call.js";
import type { RunContext } from "../state/context.js";
import { RUN_SLOT } from "../state/slot.js";
import { turnOf } from "../state/turn.js";
import type { Wait } from "../state/wait.js";
import type { Json, JsonObject } from "../values/json.js";
import { formatInstant } from "../values/time.js";

/** Why no worker takes a call. */
interface Obstacle {
  readonly reason: "no_worker" | "no_credit";
  readonly detail?: string;
}

/** What is told about a wait beside the context of its run. */
export interface About {
  /** Why no worker takes the queued call, or the dispatch whose worker is gone. */
  readonly obstacle?: Obstacle;
  /** Which worker holds the dispatch, or held it last; `goneSince`: it holds it no longer, and no other has it. */
  readonly holder?: { readonly workerId?: string; readonly goneSince?: number };
  readonly task?: { readonly assignee: string; readonly title?: string };
  /** The queue for the slot that it waits for. */
  readonly queue?: SlotQueue;
  /** The queue for the turn that it waits for. */
  readonly turns?: TurnQueue;
  /** The children that have not ended, as far as they are explained: those that need a person first, then those that wait. */
  readonly children?: readonly ExplainedChild[];
}

/** What there is to say about the slots of a key, for one that waits for a slot. */
export interface SlotQueue {
  /** How many are before it. `atLeast`: the count stopped there. */
  readonly ahead: number;
  readonly atLeast?: true;
  readonly limit: number;
  /** The runs that have a slot, those that need a person first, as far as they are shown. */
  readonly holders: readonly string[];
}

/** How many have their turn before one that waits. `atLeast`: the count stopped there. */
export type TurnQueue = Pick<SlotQueue, "ahead" | "atLeast">;

export interface ExplainedChild {
  readonly runId: string;
  readonly branch?: string;
  readonly because: string;
  readonly nextAt?: number;
  /** What is shown of it below its parent. */
  readonly data: JsonObject;
}

export interface WaitWords {
  /** A predicate: `waits for the signal approve`. */
  readonly words: string;
  readonly data: JsonObject;
  /** Epoch milliseconds. Absent: the record does not say. */
  readonly since?: number;
  readonly until?: number;
}

/** A wait before its times are written. Members without a value are left out. */
interface WaitEntry {
  readonly words: string;
  readonly data: { readonly [member: string]: Json | undefined };
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

type Kind = Wait["kind"];
type WordsOf<K extends Kind> = (wait: Extract<Wait, { kind: K }>, context: RunContext, about: About) => WaitEntry;

/** 2026-11-22 12:03:07 UTC */
export function moment(ms: number): string {
  return `${formatInstant(ms).slice(0, 19).replace("T", " ")} UTC`;
}

export function wordsOf(context: RunContext, wait: Wait, about: About): WaitWords {
  const { words, data, since, until } = (WORDS[wait.kind] as WordsOf<Kind>)(wait, context, about);
  const times = { since: since === undefined ? since : formatInstant(since), until: until && formatInstant(until) };
  const members = Object.entries({ ...data, ...times }).filter(([, value]) => value !== undefined);
  return {
    words: until === undefined ? words : `${words}, until ${moment(until)}`,
    data: Object.fromEntries(members) as JsonObject,
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

const WORDS: { readonly [K in Kind]: WordsOf<K> } = {
  queued({ since, dueAt: until, attempt }, { call }, { obstacle: { reason, detail } = { reason: "no_credit" } }) {
    const who = call?.transport === "request" ? "a slot for its request" : `a worker that serves ${nameOf(call)}`;
    const why = detail ?? (reason === "no_worker" ? "none is connected" : "all are busy");
    const data = { kind: "worker", ...aboutCall(call), attempt, reason, detail };
    return { words: `waits for ${who}${toUndo(call)}: ${why}`, data, since, until };
  },
  dispatched({ at: since, deadlineAt: until, attempt, dispatchId, heartbeatAt, ...wait }, context, about) {
    const { call } = context;
    const { workerId = wait.workerId, goneSince } = about.holder ?? {};
    const heartbeat_until = heartbeatAt === undefined ? undefined : formatInstant(heartbeatAt);
    const sent = { attempt, dispatch_id: dispatchId, worker_id: workerId, heartbeat_until };
    if (goneSince !== undefined) {
      const { reason, detail } = isCancelled(context) ? NO_WORKER : (about.obstacle ?? NO_WORKER);
      const data = { kind: "worker", ...aboutCall(call), ...sent, reason, detail };
      const whose = workerId === undefined ? "the worker" : `the worker ${workerId}`;
      const gone = `${whose} that held it is gone since ${moment(goneSince)}`;
      return { words: withoutWorker(context, attempt, gone, { reason, detail }), data, since: goneSince, until };
    }
    const by = workerId === undefined ? "" : ` by the worker ${workerId}`;
    const what = call?.transport === "request" ? "the response to its request" : `the result of ${nameOf(call)}${by}`;
    const data = { kind: "answer", ...aboutCall(call), ...sent };
    return { words: `waits for ${what}${toUndo(call)} (attempt ${attempt})`, data, since, until };
  },
  backoff({ nth: attempt, since, dueAt: until, error, maxAttempts }, { call, step }) {
    const of = maxAttempts < 0 ? "" : ` of ${maxAttempts}`;
    const failed = ` (${error.code}: ${error.message})`;
    const data = { kind: "retry", step_id: step, ...aboutCall(call), attempt, max_attempts: maxAttempts, error };
    return {
      words: `waits to try again${toUndo(call)} after attempt ${attempt}${of} failed${failed}`,
      data,
      since,
      until,
    };
  },
  timer: ({ dueAt: until }, { step, entry }) => ({
    words: `waits for the time of the step ${step}`,
    data: { kind: "timer", step_id: step },
    since: entry?.at,
    until,
  }),
  signal: ({ name, dueAt: until }, { step, entry }) => ({
    words: `waits for the signal ${name}`,
    data: { kind: "signal", step_id: step, name },
    since: entry?.at,
    until,
  }),
  event: ({ topic, headers, dueAt: until }, { step, entry }) => ({
    words: `waits for an event of the topic ${topic}${Object.keys(headers).length > 0 ? " with the headers it asks for" : ""}`,
    data: { kind: "event", step_id: step, topic, headers },
    since: entry?.at,
    until,
  }),
  user_task({ taskId: task_id, dueAt: until }, { step, entry }, { task }) {
    const title = task?.title === undefined ? `the task of the step ${step}` : `the task "${task.title}"`;
    const words = task ? `waits for ${task.assignee} to submit ${title}` : `waits for ${title}`;
    return { words, data: { kind: "user_task", step_id: step, task_id, ...task }, since: entry?.at, until };
  },
  concurrency({ entry, scope, key, since }, { step }, { queue }) {
    const about = queue && {
      ahead: queue.ahead,
      at_least: queue.atLeast,
      limit: queue.limit,
      held_by: queue.holders,
    };
    const step_id = entry === RUN_SLOT ? undefined : step;
    const words = `waits for a slot of the key "${key}" of ${scope}${queue ? ` (${inQueue(queue)})` : ""}`;
    return { words, data: { kind: "concurrency", step_id, scope, key, ...about }, since };
  },
  rate_limit({ entry, scope, key, since, dueAt: until }, context, { turns }) {
    const { limit, perMs: per_ms, burst } = turnOf(context, entry) ?? {};
    const step_id = entry === RUN_SLOT ? undefined : context.step;
    const about = { limit, per_ms, burst, ahead: turns?.ahead, at_least: turns?.atLeast };
    const words = `waits for its turn under the rate limit of the key "${key}" of ${scope}${turns ? ` (${before(turns)})` : ""}`;
    return { words, data: { kind: "rate_limit", step_id, scope, key, ...about }, since, until };
  },
  incident({ phase, error, attempts, since }, { step, call }) {
    const what =
      phase === "forward" ? `the step ${error.step_id ?? step}` : `the undo of the step ${error.step_id ?? step}`;
    const times = attempts > 0 ? ` after ${attempts} ${attempts === 1 ? "attempt" : "attempts"}` : "";
    const { code, message } = error;
    return {
      words: `stands at an incident: ${what} failed for good${times} (${code}: ${message}), and waits for a decision`,
      data: {
        kind: "incident",
        step_id: error.step_id ?? step,
        ...aboutCall(call),
        error: { code, message },
        attempts,
      },
      since,
    };
  },
  children({ dueAt: until }, context, { children = [] }) {
    const running = runningOf(context);
    const more = running > children.length ? running - children.length : undefined;
    const shown = children.map(({ data }) => data);
    return {
      words: `waits for ${running} child ${running === 1 ? "run" : "runs"}${firstOf(children, running)}`,
      data: { kind: "children", step_id: context.step, running, children: shown, more },
      since: context.entry?.at,
      until,
    };
  },
};

function inQueue({ holders: [holder], ...queue }: SlotQueue): string {
  return holder === undefined ? before(queue) : `${before(queue)}; held by run ${holder}`;
}

function before({ ahead, atLeast }: TurnQueue): string {
  return ahead === 0 ? "it is next" : `${atLeast ? "at least " : ""}${ahead} before it`;
}

function firstOf(children: readonly ExplainedChild[], running: number): string {
  const [first] = children;
  if (!first) return "";
  const named = first.branch === undefined ? first.runId : `${first.runId} (${first.branch})`;
  return `: ${named} ${first.because}${running > 1 ? `; and ${running - 1} more` : ""}`;
}

/** The children of the wait. A run that ends, or leaves a try, waits for all that still run. */
function runningOf({ groups, ending, unwinding, finishing }: RunContext): number {
  const all = ending !== undefined || unwinding !== undefined || finishing === true;
  return Object.values(groups).reduce((sum, { running, left }) => (left && !all ? sum : sum + running), 0);
}

function nameOf(call: ActionCall | undefined): string {
  return call ? actionText(call) : "its action";
}

const NO_WORKER: Obstacle = { reason: "no_worker" };

/** A step that its run, or a try, leaves: a worker that has begun it may still answer, and no other begins it. */
const isCancelled = ({ call, ending, unwinding }: RunContext) =>
  call?.phase === "forward" && (ending !== undefined || unwinding !== undefined);

/** `gone`: about its worker. */
function withoutWorker(context: RunContext, attempt: number, gone: string, { reason, detail }: Obstacle): string {
  const { call } = context;
  const what = `${nameOf(call)}${toUndo(call)} (attempt ${attempt})`;
  if (isCancelled(context))
    return `waits for the result of ${what}: ${gone}, and no other worker begins a cancelled step`;
  const why = detail ?? (reason === "no_credit" ? "all others are busy" : "no other is connected");
  return `waits for a worker that serves ${what}: ${gone}, and ${why}`;
}

function toUndo(call: ActionCall | undefined): string {
  return call?.phase === "compensation" ? `, to undo the step ${call.stepId}` : "";
}

/** The step of a call, its action, and how it is carried. A sub-saga that is tried again has no call. */
function aboutCall(call: ActionCall | undefined): WaitEntry["data"] {
  if (!call) return {};
  const { stepId: step_id, phase, transport, childRunId: child_run_id } = call;
  return {
    step_id,
    action: actionText(call),
    transport,
    child_run_id,
    phase: phase === "compensation" ? phase : undefined,
  };
}
