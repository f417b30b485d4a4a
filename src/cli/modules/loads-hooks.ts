// The hooks of node:module by which loads.ts learns of files. Node runs them in a thread of their own.
import type { InitializeHook, LoadHook } from "node:module";
import { fileURLToPath } from "node:url";
import type { MessagePort } from "node:worker_threads";
import type { LoadMessage } from "./loads.js";

let port: MessagePort | undefined;

export const initialize: InitializeHook<{ port: MessagePort }> = (data) => {
  port = data.port;
};

/** Said before the file is read: a file that is wrong has to be watched, too. */
export const load: LoadHook = async (url, context, nextLoad) => {
  const path = pathOf(url);
  if (path !== undefined) say(path, context.format === "commonjs");
  const loaded = await nextLoad(url, context);
  if (path !== undefined && loaded.format === "commonjs") say(path, true);
  return loaded;
};

function say(path: string, isCommonJs: boolean): void {
  const message: LoadMessage = { sagaLoads: path, isCommonJs };
  port?.postMessage(message);
}

/** Packages are not the project's. */
function pathOf(url: string): string | undefined {
  if (!url.startsWith("file:") || url.includes("/node_modules/")) return undefined;
  return fileURLToPath(url.replace(/[?#].*$/s, ""));
}
