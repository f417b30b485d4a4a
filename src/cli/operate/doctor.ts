// `saga doctor`: what an operator looks at first, asked at once: the service, its nodes, what no worker serves, and, where their settings are in the
// environment, the database, Redis and RabbitMQ. It changes nothing.
import { isLoopback, readSetting } from "../../config/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { Refusal, type Service } from "../frame/service.js";
import { duration, padded, safe } from "../frame/text.js";
import type { Diagnosis } from "./diagnosis.js";
import type { Workers } from "./workers.js";

interface Cluster {
  readonly access: string;
  readonly nodes: readonly {
    readonly node_id: string;
    readonly host?: string;
    readonly alive: boolean;
    readonly version?: string;
    readonly draining?: boolean;
  }[];
  readonly shards: { readonly count: number; readonly unowned: number };
  readonly backlog: { readonly wakes_due: number; readonly oldest_due_ms?: number; readonly outbox: number };
}

/** A node polls every second; what is due for longer is late. */
const LATE_MS = 10_000;
/** The head `Date` has whole seconds. */
const CLOCK_MS = 3_000;

const UNAUTHENTICATED = 401;
const WHY_NOT_READY: Readonly<Record<number, string>> = {
  421: "it does not know this name (SAGA_ALLOWED_HOSTS)",
  503: "it starts, drains, or cannot reach its database",
};

const STYLES = { ok: "green", warning: "yellow", bad: "red", skipped: "dim" } as const;

export async function doctor(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const diagnoses: Diagnosis[] = [];
  const { terminal, json } = context;
  const add = (more: readonly Diagnosis[]) => {
    context.goOn();
    diagnoses.push(...more);
    if (json) return;
    for (const { name, state, says } of more)
      terminal.print(`${terminal.paint(STYLES[state], padded(state, 8))} ${padded(name, 12)} ${safe(says)}`);
  };
  const reached = await ofService(service);
  add(reached);
  if (reached.every(({ state }) => state !== "bad")) {
    add(await guarded("access", () => ofAccess(service)));
    add(await guarded("cluster", () => ofCluster(service)));
    add(await guarded("workers", () => ofWorkers(service)));
  }
  const { ofDatabase, ofRedis, ofRabbitMq } = await import("./doctor-stores.js");
  for (const [name, setting, look] of [
    ["database", "DATABASE_URL", ofDatabase],
    ["redis", "REDIS_URL", ofRedis],
    ["rabbitmq", "AMQP_URL", ofRabbitMq],
  ] as const) {
    const url = readSetting(setting);
    add(url === undefined ? [{ name, state: "skipped", says: `${setting} is not set here` }] : await look(url));
  }
  if (json) terminal.printJson(diagnoses);
  return diagnoses.some(({ state }) => state === "bad") ? EXIT.failed : EXIT.succeeded;
}

/** A question that the credential may not ask is skipped, with the reason. */
async function guarded(name: string, look: () => Promise<readonly Diagnosis[]>): Promise<readonly Diagnosis[]> {
  try {
    return await look();
  } catch (error) {
    // A credential that counts for nothing says nothing of the service, and is what its user has to mend.
    if (error instanceof Refusal && error.status !== UNAUTHENTICATED)
      return [{ name, state: "skipped", says: error.message }];
    if (error instanceof Failure && error.code !== EXIT.interrupted)
      return [{ name, state: "bad", says: error.message }];
    throw error;
  }
}

async function ofService(service: Service): Promise<readonly Diagnosis[]> {
  const { url } = service.place;
  const { protocol, hostname } = new URL(url);
  const isNear = isLoopback(hostname.replace(/^\[|\]$/g, ""));
  try {
    const { date, status } = await service.ready();
    const skew = date === undefined ? 0 : Math.abs(Date.now() - date);
    return [
      status === 200
        ? { name: "service", state: "ok", says: `${url} is ready` }
        : {
            name: "service",
            state: "bad",
            says: `${url} answers ${status}: ${WHY_NOT_READY[status] ?? "no page of this service"}`,
          },
      protocol === "https:" || isNear
        ? { name: "tls", state: "ok", says: protocol === "https:" ? "encrypted" : "this machine alone" }
        : {
            name: "tls",
            state: "warning",
            says: "requests and tokens cross the network in clear text: set SAGA_TLS_CERT_FILE, or put a proxy before it",
          },
      skew > CLOCK_MS
        ? { name: "clock", state: "warning", says: `this machine and the service differ by ${duration(skew)}` }
        : { name: "clock", state: "ok", says: "as on this machine" },
    ];
  } catch (error) {
    if (!(error instanceof Failure) || error.code === EXIT.interrupted) throw error;
    return [{ name: "service", state: "bad", says: error.message }];
  }
}

async function ofAccess(service: Service): Promise<readonly Diagnosis[]> {
  const who = await service.get<{ kind: string; sub?: string; roles?: readonly string[] }>("/auth/session");
  if (who.kind === "anyone")
    return [
      {
        name: "access",
        state: "warning",
        says: "access control is off: anyone who reaches the service may do everything (SAGA_AUTH)",
      },
    ];
  return [{ name: "access", state: "ok", says: `${who.kind} ${who.sub ?? ""} with ${(who.roles ?? []).join(", ")}` }];
}

async function ofCluster(service: Service): Promise<readonly Diagnosis[]> {
  const { nodes, shards, backlog } = await service.get<Cluster>("/cluster");
  const alive = nodes.filter((node) => node.alive);
  const gone = nodes.length - alive.length;
  const late = backlog.oldest_due_ms ?? 0;
  return [
    gone === 0
      ? { name: "nodes", state: "ok", says: `${alive.length} alive` }
      : {
          name: "nodes",
          state: "warning",
          says: `${alive.length} alive, ${gone} without a sign of life in the last minutes`,
        },
    shards.unowned === 0
      ? { name: "shards", state: "ok", says: `all ${shards.count} are owned` }
      : {
          name: "shards",
          state: "bad",
          says: `${shards.unowned} of ${shards.count} have no node: their runs stand still`,
        },
    late > LATE_MS
      ? {
          name: "backlog",
          state: "warning",
          says: `${backlog.wakes_due} runs are due, the oldest for ${duration(late)}: more nodes or a faster database`,
        }
      : { name: "backlog", state: "ok", says: `${backlog.wakes_due} runs are due` },
  ];
}

async function ofWorkers(service: Service): Promise<readonly Diagnosis[]> {
  const { items, unserved } = await service.get<Workers>("/workers", { limit: 500 });
  const connected: Diagnosis =
    items.length === 0
      ? { name: "workers", state: "warning", says: "none is connected" }
      : { name: "workers", state: "ok", says: `${items.length} connected` };
  return [
    connected,
    ...unserved.map(
      ({ action, waiting, transport }): Diagnosis => ({
        name: "unserved",
        state: "bad",
        says: `${waiting} calls of ${action} (${transport}) wait, and no worker serves it`,
      }),
    ),
  ];
}
