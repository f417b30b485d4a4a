// The real service as a process, started as `npm start` does.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface ServiceSettings {
  /** Absent: that of this build. */
  readonly file?: string;
  readonly env: Readonly<Record<string, string>>;
  /** Arguments of Node itself. */
  readonly nodeArgs?: readonly string[];
}

export interface ServiceProcess {
  readonly pid: number;
  readonly http: number;
  readonly grpc: number;
  /** Complete on return, safe to repeat. */
  stop(): Promise<void>;
}

const THIS_BUILD = fileURLToPath(new URL("../../service/main.js", import.meta.url));

/** Resolves when it is ready. It gets no variable of this process's environment but PATH and HOME. */
export async function startService({
  file = THIS_BUILD,
  env,
  nodeArgs = [],
}: ServiceSettings): Promise<ServiceProcess> {
  const { PATH = "", HOME = "" } = process.env;
  const child = spawn(process.execPath, ["--max-semi-space-size=32", ...nodeArgs, file], {
    env: { PATH, HOME, LOG_LEVEL: "info", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const endNow = () => child.kill("SIGKILL");
  process.once("exit", endNow);
  const exit = once(child, "exit").finally(() => process.off("exit", endNow));
  const { http, grpc } = await readyLine(child);
  return {
    ...{ pid: child.pid ?? 0, http, grpc },
    async stop() {
      child.kill("SIGTERM");
      await exit;
    },
  };
}

/** Throws with the last line of the log if the service ends first. */
async function readyLine(child: ChildProcess): Promise<{ http: number; grpc: number }> {
  let last = "";
  for await (const line of createInterface({ input: child.stdout ?? process.stdin })) {
    last = line;
    const entry = parsed(line);
    if (entry.msg !== "ready" || entry.http === undefined || entry.grpc === undefined) continue;
    child.stdout?.resume();
    return { http: entry.http, grpc: entry.grpc };
  }
  throw new Error(`the service did not become ready; its last line: ${last}`);
}

function parsed(line: string): { readonly msg?: string; readonly http?: number; readonly grpc?: number } {
  try {
    return JSON.parse(line) as object;
  } catch {
    return {};
  }
}
