// A built service with several nodes, seen from outside: nodes from the primary's log, requests over new connections, gRPC streams by
// the node that has them.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { type ClientDuplexStream, credentials, makeClientConstructor, type ServiceDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { packageRoot } from "../../src/config/package.js";
import { credential, workerToken } from "../harness/access.js";
import type { ServiceProcess } from "../harness/service.js";

export interface LogLine {
  readonly msg: string;
  /** An ISO date. */
  readonly time: string;
  readonly level: string;
  readonly pid: number;
  readonly node?: number;
  readonly nodeId?: string;
  readonly http?: number;
  readonly grpc?: number;
  readonly port?: number;
  readonly pause?: number;
  readonly signal?: string;
}

/** The service's log lines with this message, oldest first. */
export function logged(service: ServiceProcess, msg: string): LogLine[] {
  // Parsing every line again for each question would cost more than what the service does meanwhile.
  return service.log
    .filter((line) => line.startsWith("{") && line.includes(msg))
    .map((line) => JSON.parse(line) as LogLine)
    .filter((line) => line.msg === msg);
}

/** What the primary has logged since then, as a predicate that throws all of it until `msg` is in it. */
export function primaryLogs(service: ServiceProcess, msg: string, since: Date): () => boolean {
  return () => {
    const lines = service.log
      .filter((line) => line.startsWith("{") && line.includes(`"pid":${service.pid},`))
      .map((line) => JSON.parse(line) as LogLine)
      .filter(({ time }) => time >= since.toISOString());
    if (lines.some((line) => line.msg === msg)) return true;
    throw new Error(`the primary logged: ${lines.map((line) => `${line.level} ${line.msg}`).join("; ") || "nothing"}`);
  };
}

export interface NodeSeen {
  readonly pid: number;
  readonly nodeId: string;
}

/** The nodes that were reported ready and are alive. */
export function livingNodes(service: ServiceProcess): NodeSeen[] {
  return logged(service, "node ready")
    .map(({ node = 0, nodeId = "" }) => ({ pid: node, nodeId }))
    .filter(({ pid }) => lives(pid));
}

/** A zombie that was not reaped is not alive. */
export function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    // The number of a process that has ended may be that of a thread of another one by now.
    return !/^State:\s+Z/m.test(status) && new RegExp(`^Tgid:\\s+${pid}$`, "m").test(status);
  } catch {
    return false;
  }
}

/** Runs the built service until it has ended by itself, with every process that could still write to its output. */
export async function runService(env: Readonly<Record<string, string>>): Promise<{ code: number; lines: string[] }> {
  const main = join(packageRoot(), "dist", "src", "main.js");
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env }, timeout: 120_000 };
    execFile(process.execPath, [main], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), lines: `${stdout}${stderr}`.split("\n") });
    });
  });
}

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Over a new connection. */
export function request(url: string, within = 30_000): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = get(
      url,
      { agent: false, headers: { ...credential(), connection: "close" }, timeout: within },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => {
          text += part;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
        response.on("error", reject);
      },
    );
    sent.on("timeout", () => sent.destroy(new Error("no answer in time")));
    sent.on("error", reject);
  });
}

/** The sum of all samples of one metric whose labels contain `label`. */
export function sampled(page: string, name: string, label = ""): number {
  return page
    .split("\n")
    .filter((line) => new RegExp(`^${name}(\\{| )`).test(line) && line.includes(label))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

interface Ack {
  readonly hello_ack?: { readonly node_id: string };
}

const WORKER_PROTO = join(packageRoot(), "src", "dispatch", "worker.proto");

/** Opens a worker stream on a new channel, and returns the node that has it. */
export async function nodeOfStream(address: string): Promise<string> {
  const definition = loadSync(WORKER_PROTO, { keepCase: true, oneofs: true });
  const service = definition["saga.worker.v1.WorkerService"] as ServiceDefinition;
  const client = new (makeClientConstructor(service, "WorkerService"))(address, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
  });
  const call = client.ExecuteStep?.() as ClientDuplexStream<object, Ack>;
  try {
    return await new Promise<string>((resolve, reject) => {
      call.on("error", reject);
      call.on("data", ({ hello_ack }: Ack) => hello_ack && resolve(hello_ack.node_id));
      call.write({ hello: { ...workerToken(), worker_id: "w", service: "nobody", actions: [], max_in_flight: 1 } });
    });
  } finally {
    call.cancel();
    client.close();
  }
}
