// A deployed system under load, as all of them look to the load: the same workflows, started, signalled and awaited over HTTP.

/** The processes whose CPU time counts. For Restate, `service` is its server and the service that it calls. */
export type Role = "service" | "worker" | "postgres";

/** The roots of the process trees. Null: they are on another machine. */
export type ProcessRoots = Readonly<Partial<Record<Role, readonly number[] | null>>>;

export const SYSTEMS = ["saga-orchestrator", "dbos-transact", "restate"] as const;
export type SystemName = (typeof SYSTEMS)[number];

export type WorkflowName = "ten-steps" | "three-steps" | "rollback" | "signalled";

/** How often each action was executed: proof that all systems do the same work. */
export type Calls = Readonly<Record<string, number>>;

export interface System {
  readonly version: string;
  readonly processes: ProcessRoots;
  newId(): string;
  /** Starts a run and waits for its end, in one request. Throws unless the run ends as its workflow does: `rollback` fails. */
  run(workflow: WorkflowName, id?: string): Promise<void>;
  /** Starts a run of `signalled`. Resolves with its id when the start is acknowledged. */
  begin(): Promise<string>;
  /** Resolves when the signal `go` is acknowledged. */
  signal(id: string): Promise<void>;
  /** Waits for the end, in one request. */
  end(id: string): Promise<void>;
  /** The runs that wait for their signal, as far as the system's store tells. */
  countParked(): Promise<number>;
  countEnded(): Promise<number>;
  stop(): Promise<Calls>;
}

export type Kind = "runs" | "signal" | "cycles" | "park";

export interface Setting {
  readonly workflow: WorkflowName;
  readonly kind: Kind;
  /** A database of the turn's own. */
  readonly database: Database;
  /** A folder of the turn's own. */
  readonly folder: string;
  /** Restate only. */
  readonly remoteSteps: "http" | "calls";
  /** Ours only: steps that may share a commit. */
  readonly stepsPerCommit: number;
  /** Ours only. */
  readonly nodes: number;
}

export interface Database {
  readonly url: string;
  /** With which a system uses it: over a socket where that is possible. */
  readonly serviceUrl: string;
  /** The process of the server. Null: it is on another machine. */
  readonly processes: readonly number[] | null;
  count(query: string): Promise<number>;
  drop(): Promise<void>;
}

export const INPUTS = { amount: 7 };
