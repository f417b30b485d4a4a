// What all nodes of the cluster know of workers and of the calls that wait for one: the port that the API asks. It is filled by directory.ts.
import type { ActionCall, DispatchId } from "../../machines/index.js";

/** The name by which calls and workers meet: one version of an action of a service. */
export interface ActionName extends Pick<ActionCall, "service" | "action" | "version"> {
  /** Of the run, with access on: workers serve the runs of their tenants. Absent: it has none, or access is off. */
  readonly tenantId?: string;
}

/** A call with the name of its run's tenant. */
export type WantedCall = ActionCall & ActionName;

/** How the calls of a node are named. */
export type NameCall = (call: ActionCall, tenantId: string | undefined) => WantedCall;

/** With access off no worker minds whose run it is, and tenants take no turns. */
export const byAction: NameCall = (call) => call;

export const byTenant: NameCall = (call, tenantId) => {
  if (tenantId === undefined) return call;
  // Written out member by member: a spread took 0.8 % of a node's time. The type asks for every member.
  const named: { readonly [Member in keyof Required<WantedCall>]: WantedCall[Member] } = {
    tenantId,
    phase: call.phase,
    stepId: call.stepId,
    service: call.service,
    action: call.action,
    version: call.version,
    transport: call.transport,
    request: call.request,
    workflowId: call.workflowId,
    address: call.address,
    outputHash: call.outputHash,
    inputs: call.inputs,
    idempotencyKey: call.idempotencyKey,
    forwardIdempotencyKey: call.forwardIdempotencyKey,
    forwardTrace: call.forwardTrace,
    childRunId: call.childRunId,
    timeoutMs: call.timeoutMs,
    heartbeatTimeoutMs: call.heartbeatTimeoutMs,
    queueTimeoutMs: call.queueTimeoutMs,
    retry: call.retry,
  };
  return named;
};

/** The name alone: a call has more members. */
export function nameOf({ service, action, version, tenantId }: ActionName): ActionName {
  return { service, action, version, ...(tenantId !== undefined && { tenantId }) };
}

/** Equal for equal names. */
export function nameKey(name: ActionName): string {
  const { service, tenantId } = name;
  return `${service} ${versionedAction(name)}${tenantId === undefined ? "" : ` ${tenantId}`}`;
}

/** "charge@1": how a worker names one version of an action. */
export function versionedAction({ action, version }: Pick<ActionName, "action" | "version">): string {
  return `${action}@${version}`;
}

/** An action as calls name it. */
export type CalledAction = ActionName & Pick<ActionCall, "transport">;

/** Why calls of an action wait: nothing takes them, or all that could are busy. */
export interface Obstacle {
  readonly reason: "no_worker" | "no_credit";
  /** What a person may want to know besides: `the queue shop.charge does not exist`. */
  readonly detail?: string;
}

/** Where a dispatch is that was handed to a worker. */
export interface DispatchHolder {
  /** The worker that holds it, or that held it last. */
  readonly workerId?: string;
  /** No worker holds it: since when, as far as the run's node knows. Epoch milliseconds in database time. */
  readonly goneSince?: number;
}

/** One connection of a worker, or one address that calls are handed to. */
export interface ConnectedWorker {
  readonly workerId: string;
  readonly service: string;
  /** Whose runs it serves. Absent: those of all tenants, and of none. */
  readonly tenants?: readonly string[];
  /** `name` or `name@version`. Empty: every action of the service. */
  readonly actions: readonly string[];
  readonly transport: CalledAction["transport"];
  /** Epoch milliseconds in database time. */
  readonly since: number;
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** It takes no more steps. */
  readonly draining?: boolean;
}

export interface NodeWorker extends ConnectedWorker {
  readonly nodeId: string;
}

/** Calls of one level of priority that wait. A wire format. */
export interface WaitingLevel {
  readonly priority: number;
  readonly calls: number;
  /** The sum of the weights of the fairness keys that wait. */
  readonly weight: number;
}

/** How many calls of an action wait, and of which levels where a run has a precedence. */
export type WaitingCount = readonly [name: ActionName, waiting: number, levels?: readonly WaitingLevel[]];

/** The calls of one action that wait for a worker, those included whose worker is gone. */
export interface WaitingAction extends CalledAction {
  readonly calls: number;
}

/** The workers of all nodes that answered. */
export interface WorkerReport {
  readonly workers: readonly NodeWorker[];
  readonly waiting: readonly WaitingAction[];
  /** Nodes without an answer. */
  readonly silent: readonly string[];
  /** Workers that did not fit into the answers. */
  readonly leftOff: number;
}

/** What all nodes of the cluster know of workers, as far as they answer in time. Never rejects. */
export interface Workers {
  report(): Promise<WorkerReport>;
  /** One for each action, in their order. */
  obstacles(actions: readonly CalledAction[]): Promise<readonly Obstacle[]>;
  /** Undefined: it is not known. */
  holder(dispatchId: DispatchId): Promise<DispatchHolder | undefined>;
}

/** Why a worker's report is refused. It names neither run nor tenant: what is of another tenant does not exist for the worker. */
export const FOREIGN_TENANT = "the dispatch is none of this worker's";
