// Loaded first in every test worker: Node's loader then mends the Postgres driver, as the bundle of the service does.
import { register } from "node:module";
import { isMainThread } from "node:worker_threads";
import { DRIVER, mendDriver } from "../../postgres-driver.mjs";

// Node calls `load` on a thread of its own, which loads this file, too.
if (isMainThread) register(import.meta.url);

export async function load(url, context, next) {
  const loaded = await next(url, context);
  return DRIVER.test(url) ? { ...loaded, source: mendDriver(String(loaded.source)) } : loaded;
}
