// Runs in the worker and in the reader of modules, after the loader of TypeScript: tells the parent which files of the project the process loads. It changes nothing about them.
import { register } from "node:module";
import { MessageChannel } from "node:worker_threads";

/** What the parent gets, besides the messages of the program itself. */
export interface LoadMessage {
  /** A path. */
  readonly sagaLoads: string;
  /** CommonJS modules load others without a word. */
  readonly isCommonJs: boolean;
}

const { port1, port2 } = new MessageChannel();
port1.on("message", (message: LoadMessage) => process.send?.(message, undefined, undefined, () => {}));
port1.unref();
register(new URL("./loads-hooks.js", import.meta.url), { data: { port: port2 }, transferList: [port2] });
