// The dependencies of the API: its settings, the ports of the runtime, the store. The composition root supplies them, and every
// route takes those that it needs.

import type { Sql } from "postgres";
import type {
  Chart,
  Compiled,
  CompiledRule,
  CompileOptions,
  Program,
  RuleOptions,
  Schemas,
} from "../../machines/index.js";
import type { Catalog } from "../catalog/catalog.js";
import type { AccessMode, ServerTls } from "../config/index.js";
import type { Workers } from "../dispatch/workers.js";
import type { Signing } from "../egress/signing.js";
import type { EventAnnouncer } from "../events/announcer.js";
import type { Feed } from "../feed/index.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { BulkJobs, Migrations, Reruns } from "../operate/index.js";
import type { RunStarter, Runs } from "../run/ports.js";
import type { ReadPool } from "../store/lists/read-pool.js";
import type { Registrar } from "../trigger/index.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import type { LoadShedder } from "../work/load-shedder.js";
import type { UnreadBounds } from "./http/unread.js";

export interface ApiConfig {
  /** Absent: `rmq` registrations are refused. */
  readonly amqpUrl?: string;
  readonly auth: AccessMode;
  readonly access: Access;
  readonly limits: { readonly bodyBytes: number; readonly outputBytes: number };
  /** After how long without a request a connection is closed. */
  readonly keepAliveMs: number;
  /** Absent: runs cannot be inspected. `ui`: the page of the Stately inspector; absent: there is the WebSocket only. */
  readonly inspector?: { readonly ui?: string };
  /** Absent: there is no console. `folder`: its files, as they were built. */
  readonly console?: { readonly folder: string };
}

/** The names under which the service may be reached, and the sites whose pages may reach it. */
export interface Access {
  /** Where it listens. */
  readonly host: string;
  readonly publicUrl: string;
  /** Names, addresses and CIDR blocks. */
  readonly allowedHosts: readonly string[];
  /** Origins as browsers write them: scheme, host and port. */
  readonly allowedOrigins: readonly string[];
}

/** Compiles in turns with everything else that computes. */
export interface Compiler {
  compileWorkflow(document: unknown, options: CompileOptions): Promise<Compiled>;
  compileRule(document: unknown, options?: RuleOptions): Promise<CompiledRule>;
  /** The XState machine configuration of a program. */
  machineConfig(program: Program): Chart;
}

export type TriggerRegistrar = Pick<Registrar, "create" | "change" | "fire" | "mustExist" | "check" | "seed">;

export interface ApiDeps {
  readonly config: ApiConfig;
  /** Absent: the port speaks plain HTTP. */
  readonly tls?: ServerTls;
  /** The id of this node. */
  readonly nodeId?: string;
  readonly starter: RunStarter;
  readonly runs: Runs;
  /** Takes cancels. Absent: the service has none, and says so. */
  readonly canceller?: Runs;
  readonly shedder: Pick<LoadShedder, "admit">;
  readonly catalog: Pick<Catalog, "program" | "published" | "action" | "actionNames" | "rule" | "refresh">;
  /** `conforms` returns the problems of a value under a JSON Schema. */
  readonly schemas: Pick<Schemas, "conforms">;
  readonly sql: Sql;
  /** The sessions for lists, single items and figures that clients read. A slow read holds up other reads only. */
  readonly readPool: ReadPool;
  /** The sessions of the node's own upkeep, which neither load nor a slow read holds up: the readiness probe asks here. */
  readonly upkeep: Sql;
  readonly feed: Feed;
  /** The workers of all nodes. */
  readonly workers: Workers;
  /** Warns of HTTP workers whose calls are not signed. */
  readonly signing?: Pick<Signing, "warnOfGap">;
  readonly announcer: EventAnnouncer;
  readonly triggers: TriggerRegistrar;
  readonly reruns: Pick<Reruns, "rerun">;
  readonly bulk: Pick<BulkJobs, "create" | "read" | "stop" | "resume">;
  readonly migrations: Pick<Migrations, "check" | "report">;
  readonly metrics: Metrics;
  /** Shares the event loop between requests and runs. */
  readonly scheduler: FairScheduler;
  /** The content of `/metrics`; default: the metrics of this process. */
  readonly scrape?: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly log: Logger;
  /** Database time, epoch milliseconds. */
  now(): number;
  readonly compile: Compiler;
  /** The node is migrated and not draining. The readiness probe itself checks that the store answers. */
  ready(): boolean;
  /** Requests of this node that may wait for runs at a time. */
  readonly maxWaiters?: number;
  /** A body of which nothing arrives for so many milliseconds is given up. */
  readonly bodyStallMs?: number;
  /** Bounds on answers that clients do not read. */
  readonly unread?: UnreadBounds;
  /** Milliseconds between pings of open streams. */
  readonly pingMs?: number;
}
