// The demo command: starts a shop (Postgres, the service, a worker), runs a batch of orders, kills processes as asked, and
// prints the books. It exits with 0 if they balance, and leaves no process behind.
import { setMaxListeners } from "node:events";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import postgres, { type Sql } from "postgres";
import { createLogger } from "../../src/log.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { type Audit, audit } from "./audit.js";
import {
  type BatchOptions,
  type Killing,
  killNowAndThen,
  newProgress,
  ORDERS_PER_SECOND,
  reportParcels,
  takeOrders,
  watch,
} from "./batch.js";
import { openBooks, placeOrder } from "./books.js";
import { openInBrowser } from "./opener.js";
import { printBooks, printVerdict, showProgress } from "./print.js";
import { type Run, Saga } from "./rest.js";
import { makeOrders, SCENARIOS, type ScenarioName } from "./scenarios.js";
import { type Cleanup, type Keys, openShop, type Shop, strike } from "./stage.js";

const USAGE = `npm run demo -- [options]
  --orders N         the number of orders (default 120; environment: ORDERS)
  --kill-service N   kill the service N times with SIGKILL during the batch, and restart it (KILL_SERVICE)
  --kill-worker N    the same for the worker (KILL_WORKER)
  --redis URL        the service's nodes use this Redis, with a channel prefix of their own (SAGA_WORKERS sets how many there are)
  --auth             with access control: the demo makes keys for the author, the client and the worker (SAGA_AUTH=api_key)
  --stay             keep everything running after the report, until Ctrl-C, so that the runs can be looked at
  --open             open the console in the browser when the service is ready; it stays, too
With DATABASE_URL the demo creates a database of its own on that server and drops it at the end. Without it, it starts Postgres.`;

interface Options {
  readonly orders: number;
  readonly killService: number;
  readonly killWorker: number;
  readonly redis: string | undefined;
  readonly auth: boolean;
  readonly stay: boolean;
  readonly open: boolean;
}

async function main(): Promise<number> {
  const options = readOptions();
  if (options === undefined) return 2;
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    // The second signal ends the demo at once; the exit handler of processes.ts kills what still runs.
    process.on(signal, () => (stop.signal.aborted ? process.exit(130) : stop.abort(new Error("interrupted"))));
  }
  const home = mkdtempSync(join(tmpdir(), "order-fulfilment-"));
  const cleanup: Cleanup = [];
  let code = 1;
  try {
    code = await demo(options, home, cleanup, stop);
  } catch (error) {
    console.error(`\n${error instanceof Error ? error.message : String(error)}`);
  }
  for (const undo of cleanup.reverse()) await undo()?.catch((error: unknown) => console.error(String(error)));
  if (code === 0 || stop.signal.aborted) rmSync(home, { recursive: true, force: true });
  else console.log(`The logs of the service and the worker are in ${home}`);
  return stop.signal.aborted && code !== 0 ? 130 : code;
}

function readOptions(): Options | undefined {
  const number = { type: "string" } as const;
  const kills = { "kill-service": number, "kill-worker": number };
  const flag = { type: "boolean", default: false } as const;
  const flags = { orders: number, ...kills, redis: { type: "string" }, auth: flag, stay: flag, open: flag } as const;
  try {
    const { values } = parseArgs({ options: flags });
    const { ORDERS = "120", KILL_SERVICE = "0", KILL_WORKER = "0" } = process.env;
    return {
      orders: whole("--orders", values.orders ?? ORDERS, 1, 100_000),
      killService: whole("--kill-service", values["kill-service"] ?? KILL_SERVICE, 0, 100),
      killWorker: whole("--kill-worker", values["kill-worker"] ?? KILL_WORKER, 0, 100),
      redis: values.redis,
      auth: values.auth,
      stay: values.stay || values.open,
      open: values.open,
    };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return undefined;
  }
}

function whole(name: string, text: string, min: number, max: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && text.trim() !== "" && value >= min && value <= max) return value;
  throw new Error(`${name} must be a whole number from ${min} to ${max}`);
}

async function demo(options: Options, home: string, cleanup: Cleanup, stop: AbortController): Promise<number> {
  const log = openSync(join(home, "demo.log"), "a");
  cleanup.push(async () => closeSync(log));
  console.log(`A shop processes ${options.orders} orders, and some fail at each step. Setting up ...`);
  const databaseUrl = await makeDatabase(home, log, cleanup);
  const sql = postgres(databaseUrl, { max: 8, onnotice: () => {} });
  cleanup.push(() => sql.end({ timeout: 5 }));
  const orders = makeOrders(options.orders);
  // Enough even if all orders are for the same article, so that stock never runs out by accident.
  await openBooks(sql, 3 * options.orders);

  const { redis: redisUrl, auth } = options;
  const shop = await openShop({ databaseUrl, redisUrl, home, auth }, cleanup, stop);
  if (shop.keys) await sayAccess(shop.api, shop.keys);
  console.log(`The console: ${consoleOf(shop)}`);
  if (options.open) openInBrowser(consoleOf(shop));
  const progress = newProgress(orders.length);
  const batchMs = longestMs(options);
  const late = AbortSignal.timeout(batchMs);
  const signal = AbortSignal.any([stop.signal, late]);
  setMaxListeners(0, signal);
  const saga = new Saga(shop.api, signal, shop.keys?.operator);
  const batch = {
    saga,
    orders,
    progress,
    signal,
    place: (order: Parameters<typeof placeOrder>[1]) => placeOrder(sql, order),
  };
  const done = showProgress(progress);
  try {
    await runBatch(batch, [
      { what: "service", times: options.killService, strike: () => strike(shop.service, shop.isReady) },
      { what: "worker", times: options.killWorker, strike: () => strike(shop.worker) },
    ]);
  } catch (error) {
    if (late.aborted && !stop.signal.aborted) throw new Error(`some runs have not ended within ${batchMs / 1_000} s`);
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    done();
  }
  const runs = await saga.all();
  // When the worker has stopped nothing is in flight: a late effect is in the books now, or never will be.
  await shop.worker.stop();
  const balanced = await closeBooks(sql, runs, progress);
  if (!options.stay) console.log("\nTo look at the runs in the browser: npm run demo -- --open");
  else await stay(shop, databaseUrl, stop.signal);
  return balanced ? 0 : 1;
}

/** Far more than a batch takes: only a run that hangs reaches it. */
function longestMs({ orders, killService, killWorker }: Options): number {
  return Math.ceil(120_000 + (orders / ORDERS_PER_SECOND) * 4_000 + (killService + killWorker) * 20_000);
}

/** A fresh database, on the given server or on an embedded one. */
async function makeDatabase(home: string, log: number, cleanup: Cleanup): Promise<string> {
  let server = process.env.DATABASE_URL;
  if (!server) {
    const logger = createLogger({ logLevel: "info" }, { write: (line: string) => void writeSync(log, line) });
    const embedded = await startEmbeddedPostgres({ dataDir: join(home, "data"), log: logger });
    cleanup.push(() => embedded.stop());
    server = embedded.url;
  }
  const name = `order_fulfilment_${Date.now().toString(36)}_${process.pid}`;
  await once(server, (sql) => sql`create database ${sql(name)}`);
  const given = server;
  cleanup.push(() => once(given, (sql) => sql`drop database if exists ${sql(name)} with (force)`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

async function once(url: string, work: (sql: Sql) => Promise<unknown>): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  try {
    await work(sql);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Runs all parts at the same time; the first failure ends the others. */
async function runBatch(
  batch: Omit<BatchOptions, "signal"> & { signal: AbortSignal },
  killings: Killing[],
): Promise<void> {
  const failed = new AbortController();
  const together = { ...batch, signal: AbortSignal.any([batch.signal, failed.signal]) };
  setMaxListeners(0, together.signal);
  const parts = [
    takeOrders(together),
    reportParcels(together),
    watch(together),
    ...killings.filter(({ times }) => times > 0).map((killing) => killNowAndThen(killing, together)),
  ];
  for (const part of parts) part.catch((error: unknown) => failed.abort(error));
  await Promise.allSettled(parts);
  if (failed.signal.aborted) throw failed.signal.reason;
}

async function closeBooks(sql: Sql, runs: readonly Run[], progress: ReturnType<typeof newProgress>): Promise<boolean> {
  const books = await audit(sql, new Map(runs.map(({ inputs, state }) => [inputs.order_id, state === "succeeded"])));
  const violations = [...books.violations, ...runFaults(runs, books)];
  for (const { what, planned, done } of progress.kills)
    if (done < planned)
      violations.push(`the ${what} was killed ${done} times instead of ${planned}: the batch ended first`);
  printBooks(books);
  printVerdict(books, violations, progress);
  return violations.length === 0;
}

/** Checks that need the runs as well as the books. */
function runFaults(runs: readonly Run[], books: Audit): string[] {
  const faults = runs
    .filter((run) => run.requires_manual_review)
    .map((run) => `order ${run.inputs.order_id}: an undo was abandoned, run ${run.id} needs a review`);
  if (runs.length !== books.orders.size) faults.push(`${books.orders.size} orders, but ${runs.length} runs`);
  for (const [orderId, { scenario, outcome }] of books.orders) {
    if (outcome === "fulfilled" && SCENARIOS[scenario as ScenarioName].end === "undone")
      faults.push(`order ${orderId} (${scenario}): fulfilled, although its scenario cannot succeed`);
  }
  return faults;
}

const consoleOf = ({ api }: Shop): string => `${api}/console`;

/** Says what was made, and what the service answers to those who may not. */
async function sayAccess(api: string, keys: Keys): Promise<void> {
  const start = async (headers: Record<string, string>) =>
    (await fetch(`${api}/api/v1/sagas/start`, { method: "POST", headers })).status;
  const [stranger, worker] = [await start({}), await start({ authorization: `Bearer ${keys.worker}` })];
  console.log(`Access control is on (SAGA_AUTH=api_key). The command "saga key create" made the key of an admin of the shop. With it,
the API made keys for the author, who published the workflow, the operator, who starts runs, and the worker, which serves "shop" alone.
A start without a key is answered ${stranger}, and one with the worker's key ${worker}.`);
}

/** Keeps the worker running: a reader of the runs may start another. */
async function stay(shop: Shop, databaseUrl: string, signal: AbortSignal): Promise<void> {
  shop.worker.start();
  const places = { console: consoleOf(shop), API: `${shop.api}/docs`, books: `${databaseUrl} (schema shop)` };
  const key = shop.keys && { key: `${shop.keys.admin} (of the shop's admin)` };
  const lines = Object.entries({ ...places, ...key }).map(([name, place]) => `  ${name.padEnd(9)}${place}`);
  console.log(["\nStill running until Ctrl-C, with all runs:", ...lines].join("\n"));
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

process.exit(await main());
