// What all nodes of the cluster know of workers and of the calls that wait for one: the port that the API asks. It is filled by directory.ts.
import type { ActionCall, DispatchId } from "../../machines/index.js";

/** The name by which calls and workers meet: one version of an action of a service. */
export type ActionName = Pick<ActionCall, "service" | "action" | "version">;

/** "charge@1": how a worker names one version of an action. */
export function versionedAction({ action, version }: Pick<ActionName, "action" | "version">): string {
  return `${action}@${version}`;
}

/** An action as calls name it. */
export type CalledAction = Pick<ActionCall, "service" | "action" | "version" | "transport">;

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
