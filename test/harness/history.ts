// The history checker: compares a run's audit rows with the rules that every history obeys, and their fold with the run itself.
// It reads the answers of the API (GET /api/v1/sagas/{id} and …/events) only.

/** The members of a SagaRun that the rules use. */
export interface RunSeen {
  readonly id: string;
  readonly state: string;
  readonly last_event_at: string;
  readonly terminal_at?: string | undefined;
  readonly last_error?: string | undefined;
}

/** An audit row as the API returns it. */
export interface EventSeen {
  readonly run_id: string;
  readonly seq: number;
  readonly event_type: string;
  readonly step_id?: string | undefined;
  readonly attempt: number;
  readonly from_state?: string | undefined;
  readonly to_state?: string | undefined;
  readonly recorded_at: string;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

export const RULES = [
  "belongs to the run",
  "seq without gaps",
  "times never go back",
  "begins with saga.started",
  "states are chained",
  "nothing follows a terminal state",
  "one terminal event",
  "a step ends after it started",
  "attempts increase",
  "a dispatch is answered once",
  "compensation starts once",
  "an incident waits for a person",
  "an undo starts once",
  "the fold is the run",
] as const;
export type Rule = (typeof RULES)[number];

export interface Violation {
  readonly rule: Rule;
  readonly message: string;
  readonly seq?: number;
}

const TERMINAL_EVENTS: Readonly<Record<string, string>> = {
  "run.succeeded": "succeeded",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
};
const TERMINAL_STATES = new Set(Object.values(TERMINAL_EVENTS));
const STATES = new Set(["pending", "running", "paused", "compensating", ...TERMINAL_STATES]);

/** Takes all events ordered by seq. An empty result means that the history is sound. */
export function checkHistory(run: RunSeen, events: readonly EventSeen[]): Violation[] {
  const violations: Violation[] = [];
  const report: Report = (rule, message, event) => violations.push({ rule, message, ...(event && { seq: event.seq }) });
  checkNumbers(run, events, report);
  checkStates(events, report);
  checkEnd(run, events, report);
  checkSteps(events, report);
  checkDispatches(run, events, report);
  checkCompensation(events, report);
  checkIncidents(events, report);
  checkFold(run, events, report);
  return violations;
}

/** Throws with every violation and the whole history, so that a failure explains itself. */
export function assertHistory(run: RunSeen, events: readonly EventSeen[]): void {
  const violations = checkHistory(run, events);
  if (violations.length === 0) return;
  const broken = violations.map(
    ({ rule, message, seq }) => `  ${rule}${seq === undefined ? "" : ` (seq ${seq})`}: ${message}`,
  );
  const rows = events.map((event) => `  ${line(event)}`);
  throw new Error(`run ${run.id} (${run.state}) breaks its history:\n${broken.join("\n")}\nrows:\n${rows.join("\n")}`);
}

type Report = (rule: Rule, message: string, event?: EventSeen) => void;

function line({ seq, event_type, step_id, attempt, from_state, to_state, recorded_at }: EventSeen): string {
  return `${seq} ${event_type} ${step_id ?? "-"} attempt ${attempt} ${from_state} → ${to_state} at ${recorded_at}`;
}

const isTerminal = (state: string | undefined) => state !== undefined && TERMINAL_STATES.has(state);

function checkNumbers(run: RunSeen, events: readonly EventSeen[], report: Report): void {
  events.forEach((event, index) => {
    if (event.run_id !== run.id) report("belongs to the run", `the row is of run ${event.run_id}`, event);
    if (event.seq !== index + 1) report("seq without gaps", `row ${index + 1} has seq ${event.seq}`, event);
    const before = events[index - 1]?.recorded_at ?? event.recorded_at;
    if (Date.parse(event.recorded_at) < Date.parse(before))
      report("times never go back", `the row before it is of ${before}`, event);
  });
}

function checkStates(events: readonly EventSeen[], report: Report): void {
  const [first] = events;
  if (first?.event_type !== "saga.started" || first.from_state !== "pending")
    report("begins with saga.started", `the first row is ${first ? line(first) : "missing"}`);
  let state: string | undefined = "pending";
  for (const event of events) {
    const { from_state: from, to_state: to, event_type: type } = event;
    if (type === "saga.started" && event !== first) report("begins with saga.started", "the run starts again", event);
    if (from !== state) report("states are chained", `the run was ${state}, the row is from ${from}`, event);
    if (to === undefined || !STATES.has(to)) report("states are chained", `${to} is no state of a run`, event);
    if (isTerminal(state)) report("nothing follows a terminal state", `${type} after ${state}`, event);
    state = to;
  }
}

/** A terminal run has exactly one terminal event: its last one, which leads to the state that it names. Any other run has none. */
function checkEnd(run: RunSeen, events: readonly EventSeen[], report: Report): void {
  const ends = events.filter((event) => event.event_type in TERMINAL_EVENTS);
  const wanted = isTerminal(run.state) ? 1 : 0;
  if (ends.length !== wanted)
    report("one terminal event", `the run is ${run.state} and has ${ends.length} of them`, ends.at(-1));
  for (const event of ends)
    if (event !== events.at(-1)) report("one terminal event", `${event.event_type} is not the last row`, event);
  for (const event of events) {
    const named = TERMINAL_EVENTS[event.event_type];
    const reached = isTerminal(event.to_state) ? event.to_state : undefined;
    if (named !== reached && !isTerminal(event.from_state))
      report("one terminal event", `${event.event_type} leads to ${event.to_state}`, event);
  }
}

/** A step and its undo have separate entries, and do not close each other's. */
const entryKey = (event: EventSeen) => `${event.step_id} ${event.metadata?.phase ?? "forward"}`;
const isIncident = ({ metadata }: EventSeen) => metadata?.incident === true;
const isStepEnd = (type: string) => type === "step.succeeded" || type === "step.failed" || type === "step.skipped";

function checkSteps(events: readonly EventSeen[], report: Report): void {
  const open = new Set<string>();
  for (const event of events) {
    const { event_type: type, step_id: step, metadata } = event;
    if (metadata?.kind === "migrate") rename(open, metadata.renamed as Readonly<Record<string, string>> | undefined);
    if (type === "step.started") open.add(entryKey(event));
    if (!isStepEnd(type)) continue;
    if (!open.has(entryKey(event)))
      report("a step ends after it started", `${type} of ${step}, which is not started`, event);
    // A failure with a retry leaves the entry open, and so does an incident.
    if (event.metadata?.will_retry !== true && !isIncident(event)) open.delete(entryKey(event));
  }
}

/** A run that moves to another version goes on with the steps that it has begun, under the ids that they have there. */
function rename(open: Set<string>, renamed: Readonly<Record<string, string>> = {}): void {
  const begun = Object.entries(renamed).filter(([old]) => open.delete(`${old} forward`));
  for (const [, step] of begun) open.add(`${step} forward`);
}

const dispatchKey = (event: EventSeen) => `attempt ${event.attempt} of ${event.step_id}`;

/** Attempts increase over all entries of a step and its undo, so an answer identifies one dispatch. */
function checkDispatches(run: RunSeen, events: readonly EventSeen[], report: Report): void {
  const highest = new Map<string | undefined, number>();
  const open = new Map<string, EventSeen>();
  const answered = new Set<string>();
  for (const event of events) {
    const { event_type: type, step_id: step, attempt } = event;
    if (type === "step.dispatched") {
      const before = highest.get(step) ?? 0;
      if (attempt <= before)
        report("attempts increase", `${step} is dispatched as attempt ${attempt} after ${before}`, event);
      highest.set(step, Math.max(before, attempt));
      open.set(dispatchKey(event), event);
    } else if (type === "step.succeeded" || type === "step.failed") {
      if (answered.has(dispatchKey(event))) report("a dispatch is answered once", `${dispatchKey(event)} again`, event);
      if (open.delete(dispatchKey(event))) answered.add(dispatchKey(event));
    }
  }
  const allowed = isTerminal(run.state) ? 0 : 1;
  const unanswered = [...open.values()];
  for (const event of unanswered.slice(0, unanswered.length - allowed))
    report("a dispatch is answered once", `${dispatchKey(event)} has no answer`, event);
}

function checkCompensation(events: readonly EventSeen[], report: Report): void {
  const started = events.filter((event) => event.event_type === "compensation.started");
  for (const event of started.slice(1)) report("compensation starts once", "it starts again", event);
}

/** After these acts the step, or the undo, goes on. Without one it may only be aborted. */
const DECISIONS = new Set(["retry_step", "skip_step", "fail", "retry_undo"]);

/** A run stands at one incident at a time. What was skipped has ended with its incident; what is retried goes on in the same entry. */
function checkIncidents(events: readonly EventSeen[], report: Report): void {
  let standing: EventSeen | undefined;
  const undos = new Set<string>();
  for (const event of events) {
    const { event_type: type, step_id: step, to_state: to, metadata } = event;
    const kind = type === "log" ? String(metadata?.kind) : "";
    if (type === "step.started" && metadata?.phase === "compensation") {
      if (undos.has(entryKey(event))) report("an undo starts once", `the undo of ${step} starts again`, event);
      undos.add(entryKey(event));
    }
    if (standing && entryKey(standing) === entryKey(event) && type !== "log" && !isAbort(event))
      report("an incident waits for a person", `${type} of ${step}, and nobody has decided`, event);
    if (standing && kind === "skip_undo") undos.delete(entryKey(standing));
    if (DECISIONS.has(kind) || kind === "skip_undo") standing = undefined;
    if (isIncident(event)) {
      standing = event;
      if (metadata?.will_retry === true) report("an incident waits for a person", `${step} is retried`, event);
      if (to !== "paused" && to !== "compensating")
        report("an incident waits for a person", `the run goes on as ${to}`, event);
    } else if (isStepEnd(type) && metadata?.will_retry !== true) undos.delete(entryKey(event));
  }
}

/** A cancel, a timeout or a terminate ends a step, whatever it stands at. */
const isAbort = ({ event_type: type, metadata }: EventSeen) => type === "step.failed" && metadata?.incident !== true;

function checkFold(run: RunSeen, events: readonly EventSeen[], report: Report): void {
  const last = events.at(-1);
  const terminal = isTerminal(last?.to_state);
  const expect = (member: string, seen: unknown, folded: unknown) => {
    if (seen !== folded) report("the fold is the run", `${member} of the run is ${seen}, of its rows ${folded}`);
  };
  expect("state", run.state, last?.to_state ?? "pending");
  expect("last_event_at", run.last_event_at, last?.recorded_at);
  expect("terminal_at", run.terminal_at, terminal ? last?.recorded_at : undefined);
  const hasError = last?.to_state === "failed" || last?.to_state === "cancelled";
  expect("presence of last_error", run.last_error !== undefined, hasError);
}
