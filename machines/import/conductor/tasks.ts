// The tasks of Conductor that become one step or a short chain. Decisions, loops and forks, which have tasks inside, are in workflow.ts.
import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { segmentsOf } from "../asl/path.js";
import { template } from "../cel.js";
import { type Ids, idOf } from "../names.js";
import type { Report } from "../report.js";
import { isNothing, policyOf } from "./policy.js";

export interface TaskWriter {
  readonly report: Report;
  readonly ids: Ids;
  add(step: JsonObject): string;
  end(suffix: string, output: Json): string;
  templates(value: Json, path: FieldPath): Json;
  readsInputOf(reference: string): boolean;
  input(reference: string): string | undefined;
  script(text: Json | undefined, inputs: JsonObject, path: FieldPath): { readonly cel: string } | null;
}

export interface About {
  readonly task: JsonObject;
  readonly path: FieldPath;
  readonly id: string;
  /** The variable of its output. */
  readonly variable: string;
  readonly next: string | undefined;
  readonly place: { readonly branch: boolean };
}

type Write = (about: About, to: TaskWriter) => string;

const inputsOf = ({ task }: About): JsonObject => (isObject(task.inputParameters) ? task.inputParameters : {});
const onward = ({ next }: About): JsonObject => (next === undefined ? {} : { next });

/** Whether it fails the run, and how its output is called. */
const common = (about: About): JsonObject => ({
  save_as: about.variable,
  ...((about.task.optional === true || about.task.permissive === true) && { on_error: "continue" }),
  ...(typeof about.task.description === "string" &&
    about.task.description !== "" && { description: about.task.description }),
});

/** The step under the task's id. In front of it may be a delay, and the inputs as a variable for those that refer to them. */
function step(about: About, to: TaskWriter, type: string, members: JsonObject, inputs?: Json): string {
  const { task, id } = about;
  const reference = String(task.taskReferenceName);
  const variable = to.readsInputOf(reference) ? to.input(reference) : undefined;
  const delay = typeof task.startDelay === "number" && task.startDelay > 0 ? task.startDelay * 1_000 : 0;
  if (task.optional === true)
    to.report.note(
      [...about.path, "optional"],
      "optional",
      "a step that has failed has its error as its output",
      "`{error}`",
    );
  if (task.permissive === true && task.optional !== true)
    to.report.refuse(
      [...about.path, "permissive"],
      "permissive",
      "the run would fail at the end only",
      "on_error: continue",
    );
  const own = variable === undefined && delay === 0 ? id : to.ids.for(`${reference}#own`, `${id}.run`);
  let first = to.add({ id: own, type, ...members });
  if (variable !== undefined)
    first = to.add({
      id: delay === 0 ? id : to.ids.for(`${reference}#input`, `${id}.input`),
      type: "set_var",
      variables: { [variable]: inputs ?? {} },
      next: first,
    });
  return delay === 0 ? first : to.add({ id, type: "wait_duration", duration_ms: delay, next: first });
}

const simple: Write = (about, to) => {
  const name = idOf(String(about.task.name)).replaceAll(".", "_");
  return call(about, to, `conductor.${name}`);
};

function call(about: About, to: TaskWriter, action: string): string {
  const inputs = to.templates(inputsOf(about), [...about.path, "inputParameters"]);
  to.report.note(about.path, `the task ${String(about.task.name)}`, "a worker carries it out", `the action ${action}`);
  return step(
    about,
    to,
    "action",
    { action, inputs, ...common(about), ...policyOf(about.task, about.path, to.report), ...onward(about) },
    inputs,
  );
}

const dynamic: Write = (about, to) => {
  const name = String(about.task.dynamicTaskNameParam);
  const given = to.templates(inputsOf(about)[name] ?? null, [...about.path, "inputParameters", name]);
  to.report.note(
    about.path,
    "DYNAMIC",
    "a task that is no SIMPLE one has no action",
    "the action of the computed name",
  );
  return call(about, to, `conductor.${typeof given === "string" ? given : ""}`);
};

/** The members of `http_request` that the step has, too. */
const HTTP = [
  "uri",
  "method",
  "headers",
  "body",
  "accept",
  "contentType",
  "connectionTimeOut",
  "readTimeOut",
  "vipAddress",
];

const SET_BY_SERVICE =
  /^(idempotency-key|host|content-length|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect)$/i;

const http: Write = (about, to) => {
  const { task, path, variable, id } = about;
  const inputs = inputsOf(about);
  const request = isObject(inputs.http_request) ? inputs.http_request : inputs;
  const at = [...path, "inputParameters", ...(isObject(inputs.http_request) ? ["http_request"] : [])];
  for (const [name, value] of Object.entries(request))
    if (!HTTP.includes(name) && name !== "asyncComplete" && !isNothing(value))
      to.report.refuse([...at, name], `${name} of a request`, "an http_request has nothing like it");
  const given = to.templates(request, at) as JsonObject;
  const set = Object.entries(isObject(given.headers) ? given.headers : {}).filter(([name]) => {
    if (!SET_BY_SERVICE.test(name)) return true;
    to.report.refuse([...at, "headers", name], `the header ${name}`, "the service sets it itself");
    return false;
  });
  const headers = {
    ...Object.fromEntries(set),
    ...(given.contentType !== undefined && { "content-type": given.contentType }),
    ...(given.accept !== undefined && { accept: given.accept }),
  };
  const timeout = Math.max(Number(request.readTimeOut ?? 0), 0) + Math.max(Number(request.connectionTimeOut ?? 0), 0);
  const { retry } = policyOf(task, path, to.report);
  const cel =
    '{"response": {"statusCode": vars.response.status, "headers": vars.response.headers, "body": vars.response.body}}';
  // An optional request that has failed goes on here, and has an error in place of a response.
  const output = template(task.optional === true ? `"error" in vars.response ? vars.response : ${cel}` : cel);
  const kept = to.add({
    id: to.ids.for(`${id}#kept`, `${id}.kept`),
    type: "set_var",
    variables: { [variable]: output },
    ...onward(about),
  });
  return step(
    about,
    to,
    "http_request",
    {
      ...{ url: given.uri ?? "", method: String(request.method ?? "GET").toUpperCase() },
      ...(Object.keys(headers).length > 0 && { headers }),
      ...(!isNothing(given.body) && { body: given.body as Json }),
      ...(timeout > 0 && { timeout_ms: Math.min(timeout, 600_000) }),
      ...{ ...common(about), save_as: "response", retry: retry ?? { max_attempts: 1, initial_backoff_ms: 0 } },
      next: kept,
    },
    given,
  );
};

const wait: Write = (about, to) => {
  const { duration, until } = inputsOf(about);
  const at = [...about.path, "inputParameters"];
  if (until !== undefined) {
    to.report.note([...at, "until"], "WAIT until", "the time is RFC 3339 here", "the same text");
    return step(about, to, "wait_until", { until: to.templates(until, [...at, "until"]), ...onward(about) });
  }
  if (duration === undefined) {
    to.report.note(
      about.path,
      "a WAIT for an outside update",
      "a run is told by a signal",
      `a signal ${about.id}, whose payload is the output`,
    );
    return step(about, to, "wait_for_signal", { signal_name: about.id, ...common(about), ...onward(about) });
  }
  const ms = durationMs(String(duration));
  if (ms === undefined)
    to.report.refuse(
      [...at, "duration"],
      `the duration ${String(duration)}`,
      "it is computed, in another form than ISO 8601",
      "no wait",
    );
  return step(about, to, "wait_duration", { duration_ms: ms ?? 0, ...onward(about) });
};

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 };

/** Of `1 hour 30 minutes`, `90s` or `2 days`. */
function durationMs(text: string): number | undefined {
  const parts = [...text.matchAll(/(\d+)\s*(days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)\b\s*/gi)];
  if (
    parts.length === 0 ||
    parts
      .map(([all]) => all)
      .join("")
      .trim() !== text.trim()
  )
    return undefined;
  return parts.reduce(
    (sum, [, digits, unit = ""]) => sum + Number(digits) * (UNITS[unit[0]?.toLowerCase() ?? ""] ?? 0),
    0,
  );
}

const human: Write = (about, to) => {
  to.report.note(
    about.path,
    "HUMAN",
    "a task of a person has a form and an assignee",
    "a form that takes anything, for the assignee `human`",
  );
  const title = String(about.task.name);
  return step(about, to, "collect_input", {
    assignee: "human",
    title,
    form_schema: { type: "object" },
    ...common(about),
    ...onward(about),
  });
};

const event: Write = (about, to) => {
  const sink = String(about.task.sink);
  const [kind, name] = sink.split(":");
  if (kind !== "conductor")
    to.report.refuse(
      [...about.path, "sink"],
      `the sink ${sink}`,
      "events go to runs and to RabbitMQ",
      "an event of that topic",
    );
  const payload = to.templates(inputsOf(about), [...about.path, "inputParameters"]);
  const topic = name ?? about.id;
  to.report.note([...about.path, "sink"], sink, "a topic has no queue", `the topic ${topic}`);
  const kept = to.add({
    id: to.ids.for(`${about.id}#kept`, `${about.id}.kept`),
    type: "set_var",
    variables: { [about.variable]: payload },
    ...onward(about),
  });
  return step(about, to, "emit_event", { topic, payload, next: kept }, payload);
};

const setVariable: Write = (about, to) => {
  if (about.place.branch)
    to.report.refuse(
      about.path,
      "SET_VARIABLE in a fork",
      "a branch has a copy of the variables",
      "it is set in the branch alone",
    );
  const given = to.templates(inputsOf(about), [...about.path, "inputParameters"]);
  const all = to.add({
    id: to.ids.for(`${about.id}#all`, `${about.id}.all`),
    type: "merge",
    sources: ["vars.variables", `vars[${JSON.stringify(about.variable)}]`],
    save_as: "variables",
    ...onward(about),
  });
  return step(about, to, "set_var", { variables: { [about.variable]: given }, next: all }, given);
};

const terminate: Write = (about, to) => {
  const { terminationStatus, workflowOutput = {}, terminationReason } = inputsOf(about);
  if (about.place.branch)
    to.report.refuse(about.path, "TERMINATE in a fork", "a branch ends itself, not the run", "the end of the branch");
  const at = [...about.path, "inputParameters"];
  const output = to.templates(workflowOutput, [...at, "workflowOutput"]);
  const reason = to.templates(terminationReason ?? "", [...at, "terminationReason"]);
  if (terminationStatus === "COMPLETED") return step(about, to, "end", { output });
  if (terminationStatus === "TERMINATED")
    return step(about, to, "cancel", { reason: reason === "" ? "terminated" : reason });
  to.report.note(
    about.path,
    "a TERMINATE that fails",
    "a run that fails has an error and no output",
    "the error `terminated`, whose details are the output",
  );
  return step(about, to, "error", { code: "terminated", message: reason, details: output });
};

const inline: Write = (about, to) => {
  const { expression, scriptExpression, evaluatorType, ...inputs } = inputsOf(about);
  if (evaluatorType === "python")
    to.report.refuse(about.path, "a script in Python", "only an expression of JavaScript is translated", "null");
  const script = to.script(scriptExpression ?? expression, inputs, [
    ...about.path,
    "inputParameters",
    scriptExpression === undefined ? "expression" : "scriptExpression",
  ]);
  return step(
    about,
    to,
    "set_var",
    { variables: { [about.variable]: { result: script === null ? null : template(script.cel) } }, ...onward(about) },
    inputs,
  );
};

const jq: Write = (about, to) => {
  const { queryExpression, ...inputs } = inputsOf(about);
  const query = String(queryExpression ?? "").trim();
  const at = [...about.path, "inputParameters", "queryExpression"];
  const [, name, rest = ""] = /^\.([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*|\[\d+\])*)$/.exec(query) ?? [];
  if (name === undefined)
    to.report.refuse(at, "a jq program", "only a path is translated: let an action compute it", "null");
  const script =
    name === undefined
      ? null
      : to.script(
          `$.${name}${segmentsOf(rest, query)
            .map((each) => (each.kind === "member" ? `[${JSON.stringify(each.name)}]` : ""))
            .join("")}`,
          inputs,
          at,
        );
  const result = script === null ? null : template(script.cel);
  return step(
    about,
    to,
    "set_var",
    { variables: { [about.variable]: { result, resultList: [result] } }, ...onward(about) },
    inputs,
  );
};

/** `version` is the number that the child has in Conductor, so it is not taken over. */
const subWorkflow: Write = (about, to) => {
  const given = isObject(about.task.subWorkflowParam) ? about.task.subWorkflowParam : {};
  const at = [...about.path, "subWorkflowParam"];
  const inner = given.workflowDefinition;
  if (!isNothing(inner))
    to.report.refuse(
      [...at, "workflowDefinition"],
      "a workflow inside of a workflow",
      "import it as a workflow of its own",
      "the workflow of that name",
    );
  for (const name of ["taskToDomain", "idempotencyKey", "priority"])
    if (!isNothing(given[name])) to.report.refuse([...at, name], name, "a sub_saga has nothing like it");
  to.report.note(
    at,
    `the workflow ${String(given.name)}`,
    "its versions count anew here",
    "its latest published version",
  );
  const inputs = to.templates(inputsOf(about), [...about.path, "inputParameters"]);
  const id = to.templates(given.name ?? about.task.name ?? "", [...at, "name"]);
  return step(about, to, "sub_saga", { workflow_id: id, inputs, ...common(about), ...onward(about) }, inputs);
};

const startWorkflow: Write = (about, to) => {
  const at = [...about.path, "inputParameters", "startWorkflow"];
  const given = isObject(inputsOf(about).startWorkflow) ? (inputsOf(about).startWorkflow as JsonObject) : {};
  const kept = to.add({
    id: to.ids.for(`${about.id}#kept`, `${about.id}.kept`),
    type: "set_var",
    variables: { [about.variable]: { workflowId: "${vars.spawned.run_id}" } },
    ...onward(about),
  });
  return step(about, to, "spawn_saga", {
    workflow_id: to.templates(given.name ?? "", [...at, "name"]),
    inputs: to.templates(given.input ?? {}, [...at, "input"]),
    save_as: "spawned",
    next: kept,
  });
};

const noop: Write = (about, to) => step(about, to, "noop", onward(about));

export const SIMPLE_STEPS: ReadonlyMap<string, Write> = new Map([
  ["SIMPLE", simple],
  ["DYNAMIC", dynamic],
  ["HTTP", http],
  ["WAIT", wait],
  ["HUMAN", human],
  ["EVENT", event],
  ["SET_VARIABLE", setVariable],
  ["TERMINATE", terminate],
  ["INLINE", inline],
  ["LAMBDA", inline],
  ["JSON_JQ_TRANSFORM", jq],
  ["SUB_WORKFLOW", subWorkflow],
  ["START_WORKFLOW", startWorkflow],
  ["NOOP", noop],
]);
