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
import type {
  BrowserSessions,
  CallbackTokens,
  LoggedIn,
  Login,
  RateLimit,
  SecurityLog,
  Verifier,
} from "../access/index.js";
import type { Catalog } from "../catalog/catalog.js";
import type { AccessMode, CredentialKind, ServerTls } from "../config/index.js";
import type { Workers } from "../dispatch/workers.js";
import type { Secrets } from "../egress/secrets.js";
import type { Signing } from "../egress/signing.js";
import type { EventAnnouncer } from "../events/announcer.js";
import type { Feed } from "../feed/index.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { MetricsPage, PageFormat } from "../metrics/page.js";
import type { BulkJobs, Migrations, Reruns } from "../operate/index.js";
import type { RunStarter, Runs } from "../run/ports.js";
import type { ReadPool } from "../store/lists/read-pool.js";
import type { Erasure } from "../store/upkeep/erasure.js";
import type { Registrar } from "../trigger/index.js";
import type { FairScheduler } from "../work/fair-scheduler.js";
import type { LoadShedder } from "../work/load-shedder.js";
import type { UnreadBounds } from "./http/unread.js";
import type { RunReader } from "./run-reader.js";
import type { Waiters } from "./waiting.js";

export interface ApiConfig {
  /** Absent: `rmq` registrations are refused. */
  readonly amqpUrl?: string;
  /** Its queues are no address of a worker. Absent: there are none. */
  readonly eventsExchange?: string;
  readonly auth: AccessMode;
  /** The kinds of credentials that are taken. Absent: none. */
  readonly credentials?: readonly CredentialKind[];
  /** Nodes of another mode may run beside this one. */
  readonly authRollout?: boolean;
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
  /** Proxies whose `X-Forwarded-For` counts: addresses and CIDR blocks. Absent: none. */
  readonly trustedProxies?: readonly string[];
}

/** Compiles in turns with everything else that computes. */
export interface Compiler {
  compileWorkflow(document: unknown, options: CompileOptions): Promise<Compiled>;
  compileRule(document: unknown, options?: RuleOptions): Promise<CompiledRule>;
  /** The XState machine configuration of a program. */
  machineConfig(program: Program): Chart;
}

export type TriggerRegistrar = Pick<
  Registrar,
  "create" | "change" | "delete" | "fire" | "backfill" | "mustExist" | "check" | "seed"
>;

/** The login of people at an issuer. */
export interface PeoplesLogin {
  /** `next`: the path of this service to go on to. */
  begin(next: string): Promise<Login>;
  /** `query`: of the callback; `kept`: what the beginning gave to the browser; `address`: of the browser. */
  finish(query: string, kept: string | undefined, address: string): Promise<LoggedIn>;
}

export interface ApiDeps {
  readonly config: ApiConfig;
  /** Absent: the port speaks plain HTTP. */
  readonly tls?: ServerTls;
  /** Absent: access is off. */
  readonly verifier?: Verifier;
  /** Of browsers. Absent: there are none. */
  readonly sessions?: BrowserSessions;
  /** Absent: there is no issuer to log in at. */
  readonly login?: PeoplesLogin;
  /** Absent: a credential may ask as often as it likes. */
  readonly rate?: RateLimit;
  /** One of a node. With access off it notes nothing of requests. */
  readonly security: SecurityLog;
  /** Is told of the keys that this node revokes. Absent: there are none that are verified. */
  readonly apiKeys?: { keyRevoked(id: string): void };
  /** Verifies the tokens of reports. Absent: dispatches have none. */
  readonly callbacks?: Pick<CallbackTokens, "verify">;
  /** The id of this node. */
  readonly nodeId?: string;
  readonly starter: RunStarter;
  readonly runs: Runs;
  /** Takes cancels. Absent: the service has none, and says so. */
  readonly canceller?: Runs;
  readonly shedder: Pick<LoadShedder, "admit">;
  readonly catalog: Catalog;
  /** Whose secrets there are. Absent: a definition may name any. */
  readonly secrets?: Pick<Secrets, "isOf">;
  /** `conforms` returns the problems of a value under a JSON Schema. */
  readonly schemas: Pick<Schemas, "conforms" | "readSlices">;
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
  readonly erasure: Pick<Erasure, "erase">;
  /** Of encryption at rest. Absent: it is off. */
  readonly dataKeys?: { destroy(tenantId: string): Promise<void> };
  readonly migrations: Pick<Migrations, "check" | "report">;
  readonly metrics: Metrics;
  /** Shares the event loop between requests and runs. */
  readonly scheduler: FairScheduler;
  /** The content of `/metrics`; default: the metrics of this process. */
  readonly scrape?: (format: PageFormat) => Promise<MetricsPage>;
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

/** What the routes share beside them. */
export interface Shared {
  readonly runReader: RunReader;
  /** The requests of this node that wait for runs. */
  readonly waiters: Waiters;
}
