// The wait of a run: it goes on as it began. Its step must mean the same by it in the new version: the same signal, event, form, action or
// child. Times that run go on, too.
import { mayStandAtIncident } from "../chart/out-edges.js";
import { ExpressionError, type Scope, type Template } from "../expression/index.js";
import type { Reason } from "../messages/command.js";
import { type ActionCall, actionText } from "../state/call.js";
import type { StepEntry } from "../state/entry.js";
import type { Wait } from "../state/wait.js";
import { parseActionName } from "../steps/action.js";
import { eventHeadersOf, topicOf } from "../steps/event.js";
import { type StepPlan, textOf } from "../steps/step.js";
import { evaluated, named, type Passage, placeThere, planThere, reasons, scopeAt } from "./passage.js";
import { timeReasons } from "./position.js";

/** A step that the run has entered, in both versions. */
interface EnteredStep {
  readonly passage: Passage;
  readonly entry: StepEntry;
  readonly was: StepPlan;
  readonly there: StepPlan;
  readonly scope: Scope;
}

/** Nothing is said about a step that is missing, or of another type: that is a reason of its own. */
export function waitReasons(passage: Passage): readonly Reason[] {
  const { from, context } = passage;
  const { step = "", entry, wait } = context;
  const [was, there] = [from.steps.get(step), planThere(passage, step)];
  if (!was || !there || !entry || was.type !== there.type) return [];
  const entered: EnteredStep = { passage, entry, was, there, scope: scopeAt(passage.context) };
  return [
    ...(was.type.runsSaga ? sagaReasons(entered) : callReasons(entered)),
    ...(wait ? (REASONS[wait.kind] as ReasonsOf<Wait["kind"]>)(entered, wait) : []),
    ...(wait && "dueAt" in wait && wait.dueAt !== undefined && LIMITED.has(wait.kind)
      ? timeReasons(passage, there, `the wait at "${step}" has a time limit`)
      : []),
  ];
}

/** Waits with a time limit of their step's own, after which the step says what follows. */
const LIMITED: ReadonlySet<Wait["kind"]> = new Set(["signal", "event", "user_task"]);

type ReasonsOf<K extends Wait["kind"]> = (entered: EnteredStep, wait: Extract<Wait, { kind: K }>) => readonly Reason[];

const none = () => [];

const REASONS: { readonly [K in Wait["kind"]]: ReasonsOf<K> } = {
  signal: (entered, { name }) =>
    sameText(entered, "signal_name", name, (template, scope) => textOf(template, scope, "signal_name")),
  event: (entered, { topic, headers }) => [
    ...sameText(entered, "topic", topic, topicOf),
    ...sameText(entered, "headers", sortedText(headers), (template, scope) =>
      sortedText(eventHeadersOf(template, scope)),
    ),
  ],
  user_task: (entered) => sameForm(entered),
  incident: ({ passage, there }) =>
    reasons(
      !mayStandAtIncident(there, passage.to) && {
        path: placeThere(passage, there, "on_failure"),
        message: `the run stands at an incident, and an error of "${there.id}" of ${named(passage.to)} makes none`,
      },
    ),
  // The slot, or the turn, is in the record, and its call with it.
  concurrency: none,
  rate_limit: none,
  queued: none,
  dispatched: none,
  backoff: none,
  timer: none,
  children: none,
};

/** What they say may come from the inputs of the run, which no message carries. */
const UNTOLD: ReadonlySet<string> = new Set(["headers", "url"]);

/** A reason unless the attribute is, in the run's scope, what the run has from it. `evaluate` throws ExpressionError. */
function sameText(
  { passage, there, scope }: EnteredStep,
  attribute: string,
  /** The text of the old version, in its own scope, where it is not in the record. */
  waits: string | ((scope: Scope) => string),
  evaluate: (template: Template, scope: Scope) => string,
): readonly Reason[] {
  const path = placeThere(passage, there, attribute);
  const subject = `"${there.id}" of ${named(passage.to)}`;
  try {
    const value = evaluated(() => evaluate(there.attributes[attribute] as Template, scope));
    const had = typeof waits === "string" ? waits : evaluated(() => waits(scopeAt(passage.origin)));
    if (value === had) return [];
    const message = UNTOLD.has(attribute)
      ? `${subject} does not have the ${attribute} that the run waits with`
      : `${subject} has the ${attribute} ${value}, and the run waits with ${had}`;
    return [{ path, message }];
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return [{ path, message: `the ${attribute} of ${subject} cannot be evaluated: ${error.message}` }];
  }
}

function sortedText(headers: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.fromEntries(Object.entries(headers).toSorted(([a], [b]) => (a < b ? -1 : 1))));
}

/** People fill in the form that the open task shows. */
function sameForm({ passage, was, there }: EnteredStep): readonly Reason[] {
  const form = ({ attributes }: StepPlan) => JSON.stringify(attributes.form_schema ?? null);
  if (form(was) === form(there)) return [];
  const path = placeThere(passage, there, "form_schema");
  return [
    { path, message: `the open task of "${was.id}" has another form than "${there.id}" of ${named(passage.to)}` },
  ];
}

/** The call is made, or is to be made as it was evaluated. */
const OPEN: ReadonlySet<Wait["kind"]> = new Set(["concurrency", "rate_limit", "queued", "dispatched", "backoff"]);

/** A call that was made keeps its idempotency key, which names the step. While it is open, its action must be the step's. */
function callReasons(entered: EnteredStep): readonly Reason[] {
  const { passage, entry, was, there } = entered;
  const { call, wait } = passage.context;
  if (call?.phase !== "forward") return [];
  const isOpen = wait !== undefined && OPEN.has(wait.kind);
  return [
    ...reasons(
      was.id !== there.id && {
        path: placeThere(passage, there, "id"),
        message: `the step "${was.id}" has called its action under that id, which it keeps until it is done`,
      },
    ),
    ...(isOpen || entry.mayHaveHappened ? [...sameCall(entered, call), ...stillUndone(entered)] : []),
  ];
}

/** What the call does, or has done, was to be undone. */
function stillUndone({ passage, was, there }: EnteredStep): readonly Reason[] {
  return reasons(
    was.compensation !== undefined &&
      there.compensation === undefined && {
        path: placeThere(passage, there, "compensation"),
        message: `the call of "${was.id}" may have to be undone, and "${there.id}" of ${named(passage.to)} has no compensation`,
      },
  );
}

function sameCall(entered: EnteredStep, call: ActionCall): readonly Reason[] {
  if (!call.request)
    return sameText(entered, "action", actionText(call), (template, scope) => calledBy(template, scope, call));
  const { was, there } = entered;
  const method = there.attributes.method === call.request.method;
  const urlOf = (template: Template, scope: Scope) => String(template.render(scope));
  return [
    ...sameText(entered, "url", (scope) => urlOf(was.attributes.url as Template, scope), urlOf),
    ...(method ? [] : sameText(entered, "method", call.request.method, () => String(there.attributes.method))),
  ];
}

/** The text of the call itself, if the step would make it. */
function calledBy(template: Template, scope: Scope, call: ActionCall): string {
  const name = textOf(template, scope, "action");
  const { service, name: action, version = call.version } = parseActionName(name) ?? {};
  return service === call.service && action === call.action && version === call.version ? actionText(call) : name;
}

/** Every attempt of a sub-saga runs the version of the first; whether it hands over its undo list was fixed when it began. */
function sagaReasons(entered: EnteredStep): readonly Reason[] {
  const { passage, entry, was, there } = entered;
  if (!passage.context.groups[entry.number]) return [];
  const workflowOf = (template: Template, scope: Scope) => textOf(template, scope, "workflow_id");
  return [
    ...sameText(
      entered,
      "workflow_id",
      (scope) => workflowOf(was.attributes.workflow_id as Template, scope),
      workflowOf,
    ),
    ...reasons(
      (was.compensation === undefined) !== (there.compensation === undefined) && {
        path: placeThere(passage, there, "compensation"),
        message: `the sub-saga of "${was.id}" has begun ${was.compensation ? "with" : "without"} a compensation of the step, and "${there.id}" of ${named(passage.to)} has ${there.compensation ? "one" : "none"}`,
      },
    ),
  ];
}
