// `saga mcp`: the API as tools of the Model Context Protocol over standard input and output, for assistants. Without --allow-acts no tool changes
// anything; with it, nothing more can be done than the credential may.
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { packageVersion } from "../config/package.js";
import { EXIT, type ExitCode, Failure } from "./exit.js";
import type { Context } from "./frame/context.js";
import { isObject, type JsonObject } from "./frame/input.js";
import type { Service } from "./frame/service.js";

/** The revisions of the protocol that this server speaks, the newest first. What it uses is the same in all of them. */
const REVISIONS = ["2025-06-18", "2025-03-26", "2024-11-05"];
/** An answer goes into the context of a model: a longer one is cut, and says so. */
const MOST_CHARS = 60_000;
const MOST_LINE_CHARS = 4 * 1024 * 1024;

/** Codes of JSON-RPC. */
const CODES = { parse: -32_700, request: -32_600, method: -32_601, params: -32_602 } as const;

interface Tool {
  readonly name: string;
  readonly description: string;
  readonly properties: Readonly<Record<string, JsonObject>>;
  readonly required: readonly string[];
  /** It changes something. */
  readonly acts?: boolean;
  /** What it changes cannot be taken back. */
  readonly destroys?: boolean;
  call(service: Service, given: JsonObject): Promise<unknown>;
}

const text = (description: string): JsonObject => ({ type: "string", description });
const whole = (description: string): JsonObject => ({ type: "integer", minimum: 1, maximum: 500, description });
const data = (description: string): JsonObject => ({ type: "object", description });
const RUN = text("The id of the run");

const of = (value: unknown) => encodeURIComponent(String(value));
const words = (given: JsonObject, ...names: readonly string[]) =>
  Object.fromEntries(names.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name] as string]])));

const READS: readonly Tool[] = [
  {
    name: "list_runs",
    description: "Lists runs of sagas, the newest first, by filters",
    properties: {
      workflow_id: text("Of this workflow"),
      state: text("pending, running, paused, compensating, succeeded, failed or cancelled; several by commas"),
      business_key: text("With this business key"),
      error_code: text("That failed, or stand at an incident, with this code"),
      incident: { type: "boolean", description: "That stand at an incident" },
      started_after: text("RFC 3339"),
      limit: whole("Default 20"),
    },
    required: [],
    call: (service, given) =>
      service.get("/sagas", {
        limit: 20,
        ...words(given, "workflow_id", "state", "business_key", "error_code", "incident", "started_after", "limit"),
      }),
  },
  {
    name: "get_run",
    description: "A run: its state, step, inputs, variables, output and error",
    ...{ properties: { run_id: RUN }, required: ["run_id"] },
    call: (service, { run_id }) => service.get(`/sagas/${of(run_id)}`),
  },
  {
    name: "explain_run",
    description: "Why a run stands where it stands, what it waits for, and what an operator can do now",
    ...{ properties: { run_id: RUN }, required: ["run_id"] },
    call: (service, { run_id }) => service.get(`/sagas/${of(run_id)}/explain`),
  },
  {
    name: "query_run",
    description: "The value of a CEL expression about a run, such as vars.lines.size(). Changes nothing",
    properties: { run_id: RUN, expression: text("CEL over inputs, vars, run, features, now and output") },
    required: ["run_id", "expression"],
    call: (service, { run_id, expression }) => service.post(`/sagas/${of(run_id)}/query`, { expression }),
  },
  {
    name: "get_run_events",
    description: "The audit log of a run: every step, attempt, failure and undo",
    properties: { run_id: RUN, limit: whole("Default 100"), offset: { type: "integer", minimum: 0 } },
    required: ["run_id"],
    call: (service, given) =>
      service.get(`/sagas/${of(given.run_id)}/events`, { limit: 100, ...words(given, "limit", "offset") }),
  },
  {
    name: "list_workflows",
    description: "The workflows, each by its latest version",
    ...{ properties: { limit: whole("Default 50") }, required: [] },
    call: (service, given) => service.get("/workflows", { limit: 50, ...words(given, "limit") }),
  },
  {
    name: "get_workflow",
    description: "The definition of a workflow",
    properties: { workflow_id: text("Its id"), version: whole("Default: the latest published one") },
    required: ["workflow_id"],
    call: (service, given) => service.get(`/workflows/${of(given.workflow_id)}`, words(given, "version")),
  },
  {
    name: "list_actions",
    description: "The registered actions, with their schemas",
    properties: {
      service: text("Of this service"),
      search: text("A part of a name or description"),
      limit: whole("Default 50"),
    },
    required: [],
    call: (service, given) =>
      service.get("/registry/actions", { limit: 50, ...words(given, "service", "search", "limit") }),
  },
  {
    name: "list_workers",
    description: "The connected workers, and the actions that runs wait for and no worker serves",
    ...{ properties: {}, required: [] },
    call: (service) => service.get("/workers", { limit: 100 }),
  },
  {
    name: "list_tasks",
    description: "The open tasks of people",
    ...{ properties: { assignee: text("Of this person or group"), run_id: RUN }, required: [] },
    call: (service, given) => service.get("/user_tasks", { status: "open", ...words(given, "assignee", "run_id") }),
  },
  {
    name: "evaluate_rule",
    description: "Evaluates a published decision table. Changes nothing",
    properties: { rule_id: text("Its id"), inputs: data("What its conditions see") },
    required: ["rule_id", "inputs"],
    call: (service, { rule_id, inputs }) => service.post(`/rules/${of(rule_id)}/evaluate`, { inputs }),
  },
];

const START_WORDS = ["workflow_id", "inputs", "business_key", "on_conflict", "priority", "fairness_key"] as const;

const ACTS: readonly Tool[] = [
  {
    name: "start_run",
    description: "Starts a run of a published workflow",
    properties: {
      workflow_id: text("The workflow"),
      inputs: data("Its inputs"),
      business_key: text("A key to find the run by"),
      on_conflict: text("While a run holds the business key: reject, return or cancel_old"),
      priority: { type: "integer", minimum: 1, maximum: 5, description: "1 is the highest; default 3" },
      fairness_key: text("The keys of a priority share what their runs wait for"),
      idempotency_key: text("The same key again starts nothing"),
    },
    required: ["workflow_id"],
    acts: true,
    call: (service, given) =>
      service.post("/sagas/start", words(given, ...START_WORDS), {
        key: String(given.idempotency_key ?? randomUUID()),
      }),
  },
  {
    name: "signal_run",
    description: "Sends a signal to a run",
    properties: { run_id: RUN, name: text("The name of the signal"), payload: data("Default {}") },
    required: ["run_id", "name"],
    acts: true,
    call: (service, { run_id, name, payload = {} }) =>
      service.post(`/sagas/${of(run_id)}/signal/${of(name)}`, { payload }, { key: randomUUID() }),
  },
  ...(["pause", "resume", "retry_step", "release"] as const).map(
    (act): Tool => ({
      name: `${act}${act === "retry_step" ? "" : "_run"}`,
      description: {
        pause: "Holds a run",
        resume: "Lets a held run go on",
        retry_step: "Tries the step of an incident again",
        release: "Releases a run from quarantine",
      }[act],
      ...{ properties: { run_id: RUN }, required: ["run_id"], acts: true },
      call: (service, { run_id }) => service.post(`/sagas/${of(run_id)}/${act}`, {}, { key: randomUUID() }),
    }),
  ),
  {
    name: "cancel_run",
    description: "Cancels a run: it undoes its steps first",
    properties: { run_id: RUN, reason: text("Stays in the audit log") },
    required: ["run_id", "reason"],
    ...{ acts: true, destroys: true },
    call: (service, { run_id, reason }) =>
      service.post(`/sagas/${of(run_id)}/cancel`, { reason }, { key: randomUUID() }),
  },
  {
    name: "submit_task",
    description: "Answers a task of a person. This cannot be undone",
    properties: { run_id: RUN, task_id: text("The id of the task"), result: data('Such as {"approved": true}') },
    required: ["run_id", "task_id", "result"],
    ...{ acts: true, destroys: true },
    call: (service, { run_id, task_id, result }) =>
      service.post(`/sagas/${of(run_id)}/user_task/${of(task_id)}/submit`, { result }, { key: randomUUID() }),
  },
];

/** Ends when the client closes standard input. Requests are answered in their order. */
export async function mcp(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const tools = context.flag("allowActs") ? [...READS, ...ACTS] : READS;
  const lines = createInterface({ input: context.terminal.streams.stdin, terminal: false });
  context.signal.addEventListener("abort", () => lines.close());
  for await (const line of lines) {
    if (line.trim() === "") continue;
    const answer = await answerTo(line, service, tools);
    if (answer) context.terminal.printJsonLine(answer);
  }
  context.goOn();
  return EXIT.succeeded;
}

class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message);
  }
}

/** Undefined: a notification, which is not answered. */
async function answerTo(line: string, service: Service, tools: readonly Tool[]): Promise<JsonObject | undefined> {
  let id: unknown = null;
  try {
    const message = messageIn(line);
    if (message.id === undefined) return undefined;
    id = message.id;
    const result = await resultOf(message, service, tools);
    return { jsonrpc: "2.0", id, result };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { jsonrpc: "2.0", id, error: { code: error.code, message: error.message } };
  }
}

function messageIn(line: string): JsonObject {
  let value: unknown;
  try {
    value = line.length > MOST_LINE_CHARS ? undefined : JSON.parse(line);
  } catch {
    throw new RpcError(CODES.parse, "the line is not JSON");
  }
  if (!isObject(value) || value.jsonrpc !== "2.0")
    throw new RpcError(CODES.request, "the line is no message of JSON-RPC 2.0");
  return value;
}

async function resultOf({ method, params }: JsonObject, service: Service, tools: readonly Tool[]): Promise<JsonObject> {
  const given = isObject(params) ? params : {};
  switch (method) {
    case "initialize":
      return {
        protocolVersion: REVISIONS.find((revision) => revision === given.protocolVersion) ?? REVISIONS[0],
        capabilities: { tools: {} },
        serverInfo: { name: "saga", version: packageVersion() },
        instructions: `Runs of durable sagas at ${service.place.url}. explain_run says why a run stands where it stands.`,
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: tools.map(listed) };
    case "tools/call":
      return called(service, tools, given);
    default:
      throw new RpcError(CODES.method, `there is no method ${String(method)}`);
  }
}

const listed = ({ name, description, properties, required, acts = false, destroys = false }: Tool): JsonObject => ({
  name,
  description,
  inputSchema: { type: "object", properties, required, additionalProperties: false },
  annotations: { readOnlyHint: !acts, destructiveHint: destroys },
});

/** A refusal of the service is a result, so that the model reads it. */
async function called(service: Service, tools: readonly Tool[], params: JsonObject): Promise<JsonObject> {
  const tool = tools.find(({ name }) => name === params.name);
  if (!tool) throw new RpcError(CODES.params, `there is no tool ${String(params.name)}`);
  const given = isObject(params.arguments) ? params.arguments : {};
  const missing = tool.required.filter((name) => given[name] === undefined);
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(tool.properties, name));
  if (missing.length > 0) throw new RpcError(CODES.params, `${tool.name} needs ${missing.join(", ")}`);
  if (unknown.length > 0) throw new RpcError(CODES.params, `${tool.name} does not take ${unknown.join(", ")}`);
  try {
    return content(JSON.stringify(await tool.call(service, given)), false);
  } catch (error) {
    if (error instanceof Failure && error.code !== EXIT.interrupted) return content(error.message, true);
    throw error;
  }
}

function content(answer: string, isError: boolean): JsonObject {
  const cut = answer.length > MOST_CHARS;
  const shown = cut
    ? `${answer.slice(0, MOST_CHARS)}\n(cut after ${MOST_CHARS} of ${answer.length} characters: ask for less)`
    : answer;
  return { content: [{ type: "text", text: shown }], isError };
}
