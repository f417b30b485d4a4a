// The client: runs for every day, the rest of the API by resource, and any operation by its name. It keeps no connection but that of a watch.

import type { SagaContract } from "../contract/saga.js";
import { refuseUnknown } from "../contract/unknown-member.js";
import { type Rules, rulesOf, type Workflows, workflowsOf } from "./definitions.js";
import type { Principal, SagaRun } from "./generated/resources.js";
import {
  type Actions,
  actionsOf,
  type Bulk,
  bulkOf,
  dataKeysOf,
  type Keys,
  keysOf,
  type Tasks,
  type TenantDataKeys,
  type Triggers,
  tasksOf,
  triggersOf,
} from "./operating.js";
import { type Answered, type Call, callOn, type List, listOn, type QueryOf, type Sent } from "./operations.js";
import { type ClientOptions, settingsOf } from "./options.js";
import type { Pages } from "./pages.js";
import { type RestOptions, Run, type RunLinks } from "./run.js";
import { type CallOptions, queryText, type RequestOptions, Transport } from "./transport.js";
import { type InputsOf, type OutputOfSaga, type SignalLike, START_MEMBERS, type StartOptions } from "./types.js";

type StartArguments<Saga> =
  Partial<InputsOf<Saga>> extends InputsOf<Saga>
    ? [start?: InputsOf<Saga> & StartOptions, options?: CallOptions]
    : [start: InputsOf<Saga> & StartOptions, options?: CallOptions];

/** A start that may find its run there already. */
export type SignalledStart = Omit<StartOptions, "onConflict" | "debounce"> & { readonly businessKey: string };

export interface SignalledRun<Output> {
  readonly run: Run<Output>;
  readonly signal_id: string;
  readonly matched: boolean;
}

/** The filters of runs. */
export type RunFilter = Omit<QueryOf<"listSagas">, "cursor" | "offset" | "count"> & {
  readonly labels?: Readonly<Record<string, string>> | undefined;
};

export class SagaClient {
  /** Any operation of the API, by its name in docs/openapi.json: `call("getWorkflowStats", { path: { wf_id: "order" } })`. */
  readonly call: Call;
  /** Any list of the API, as an async iterator of its items. */
  readonly list: List;
  readonly runs: Runs;
  readonly workflows: Workflows;
  readonly rules: Rules;
  readonly triggers: Triggers;
  readonly bulk: Bulk;
  readonly tasks: Tasks;
  readonly actions: Actions;
  readonly keys: Keys;
  readonly dataKeys: TenantDataKeys;
  private readonly transport: Transport;
  private readonly links: RunLinks;

  /** Throws TypeError for an unknown option, and for a url, header or time that cannot be. */
  constructor(options: ClientOptions) {
    const settings = settingsOf(options);
    this.transport = new Transport(settings);
    this.call = callOn(this.transport);
    this.list = listOn(this.call);
    const { call, list } = this;
    this.runs = runsOf(call, list);
    this.workflows = workflowsOf(call, list);
    this.rules = rulesOf(call, list);
    this.triggers = triggersOf(call, list);
    this.bulk = bulkOf(call, list);
    this.tasks = tasksOf(call, list);
    this.actions = actionsOf(call, list);
    this.keys = keysOf(call, list);
    this.dataKeys = dataKeysOf(call);
    this.links = {
      call,
      list,
      webSocket: settings.webSocket,
      streamUrl: (id, after_seq) =>
        `${settings.url.replace(/^http/, "ws")}/api/v1/sagas/${encodeURIComponent(id)}/stream${queryText({ after_seq })}`,
      token: settings.token,
    };
  }

  /**
   * Starts a run. The saga is a definition, a contract, or the id of a published workflow. `options.key` makes the start happen once: the same key with the
   * same content gives the first run again, also from another process. Throws NotFound if the workflow is not published, Invalid if the inputs do not
   * conform, and Conflict if the key belongs to another start.
   */
  async start<Saga extends string | SagaContract>(
    saga: Saga,
    ...args: StartArguments<Saga>
  ): Promise<Run<OutputOfSaga<Saga>>> {
    const [start = {}, options] = args as [Record<string, unknown>?, CallOptions?];
    const started = await this.call("startSaga", { body: startBody(saga, start) }, options);
    return new Run(started.run_id, this.links, started);
  }

  /**
   * Sends a signal to the run that has the business key, or to one that is started with it: in one commit, so no run is started without its signal.
   * `options.key` makes both happen once. `matched`: a step has taken the signal; if not, the run has recorded it, and takes it when it waits for it. Throws
   * as `start` does, and Conflict if the run has ended without taking it.
   */
  async signalWithStart<Saga extends string | SagaContract, Payload = unknown>(
    saga: Saga,
    start: InputsOf<Saga> & SignalledStart,
    signal: { readonly name: string | SignalLike<Payload>; readonly payload?: Payload },
    { waitMs, ...options }: RestOptions = {},
  ): Promise<SignalledRun<OutputOfSaga<Saga>>> {
    const { name, payload = {} } = signal;
    const sent = { name: typeof name === "string" ? name : name.name, payload: payload as object };
    const query = waitMs === undefined ? {} : { query: { wait_ms: waitMs } };
    const body = { ...startBody(saga, { ...start }), business_key: start.businessKey, signal: sent };
    const answer = await this.call("signalWithStart", { body, ...query }, options);
    const { signal_id, matched } = answer;
    return { run: new Run(answer.run_id, this.links, answer), signal_id, matched };
  }

  /** A run that exists, by its id. The saga gives `result()` its type. Nothing is asked. */
  run<Saga extends string | SagaContract = string>(id: string, _saga?: Saga): Run<OutputOfSaga<Saga>> {
    if (typeof id !== "string" || id === "") throw new TypeError("a run has an id, which is text");
    return new Run(id, this.links);
  }

  /** An event for all runs that wait for its topic and headers. */
  publishEvent(event: Sent<"publishEvent">, options?: CallOptions): Promise<Answered<"publishEvent">> {
    return this.call("publishEvent", { body: event }, options);
  }

  /** The workers that are connected to any node. The answer also has what runs wait for and no worker serves. */
  workers(query: QueryOf<"listWorkers"> = {}, options?: CallOptions): Promise<Answered<"listWorkers">> {
    return this.call("listWorkers", { query }, options);
  }

  /** The nodes, their shards and what is owed. */
  cluster(options?: CallOptions): Promise<Answered<"getCluster">> {
    return this.call("getCluster", undefined, options);
  }

  /** Whom the credential names, and what it may. */
  whoAmI(options?: CallOptions): Promise<Principal> {
    return this.call("getSession", undefined, options);
  }

  /** Resolves when the service takes requests. Throws Unreachable and others where it does not. */
  async ready(options?: CallOptions): Promise<void> {
    await this.call("isReady", undefined, options);
  }

  /** A request that no method has. `path` begins with a slash and is used as it is. The answer is not checked. */
  request<Answer = unknown>(method: string, path: string, options?: RequestOptions): Promise<Answer> {
    if (!path.startsWith("/")) return Promise.reject(new TypeError("the path of a request begins with a slash"));
    return this.transport.request(method, path, options) as Promise<Answer>;
  }
}

/** `client.runs`: all runs. One is `client.run(id)`. */
const runsOf = (call: Call, list: List) => ({
  /** The runs that match, the newest first: `for await (const run of client.runs.list({ state: ["failed"] }))`. */
  list: (filter: RunFilter = {}, options?: CallOptions): Pages<SagaRun> =>
    list("listSagas", { query: filterQuery(filter) }, options),
  /** How many match, by workflow, version, state and reason of a pause. */
  counts: (filter: Omit<RunFilter, "limit" | "sort"> = {}, options?: CallOptions): Promise<Answered<"countSagas">> =>
    call("countSagas", { query: filterQuery(filter) }, options),
});
export type Runs = ReturnType<typeof runsOf>;

/** The body of a start. Throws TypeError for a member that there is not. */
function startBody(saga: string | SagaContract, start: Record<string, unknown>) {
  refuseUnknown("the start", start, START_MEMBERS);
  const { debounce } = start as StartOptions;
  const members = Object.entries(START_MEMBERS).map(([name, wire]) => [wire, start[name]] as const);
  return {
    workflow_id: idOf(saga),
    ...Object.fromEntries(members.filter(([, value]) => value !== undefined)),
    ...(debounce && { debounce: { window_ms: debounce.windowMs, max_ms: debounce.maxMs } }),
  };
}

function idOf(saga: string | SagaContract): string {
  const id = typeof saga === "string" ? saga : saga?.id;
  if (typeof id !== "string" || id === "")
    throw new TypeError("a start needs a saga: a definition, or the id of a workflow");
  return id;
}

function filterQuery({ labels = {}, ...filter }: RunFilter): QueryOf<"listSagas"> {
  return { ...filter, ...Object.fromEntries(Object.entries(labels).map(([name, value]) => [`label.${name}`, value])) };
}
