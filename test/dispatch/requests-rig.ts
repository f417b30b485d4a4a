// A dispatcher that may reach this machine, a scripted HTTP server, and a stand-in for the runs. No database.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import type { Dispatch, HttpRequest, RunCommand } from "../../machines/index.js";
import type { DispatchLimits } from "../../src/dispatch/limits.js";
import { type Callbacks, createDispatcher, type NodeDispatcher } from "../../src/dispatch/node-dispatcher.js";
import type { RequestEnvironment } from "../../src/dispatch/request/attempt.js";
import { Guard, publicOrListed } from "../../src/egress/guard.js";
import { Mask } from "../../src/egress/mask.js";
import type { Secret, Secrets } from "../../src/egress/secrets.js";
import { readSigning } from "../../src/egress/signing.js";
import { FairScheduler } from "../../src/work/fair-scheduler.js";
import { newDispatchId, newRunId } from "../harness/ids.js";
import { FakeRuns, makeCall } from "./rig.js";

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

export type Answering = (asked: Asked, response: ServerResponse, request: IncomingMessage) => void;

/** A server on 127.0.0.1, told what to answer; it remembers what it was asked. */
export class Site {
  readonly asked: Asked[] = [];
  /** Asked, and the connection gone before there was an answer. */
  cutOff = 0;
  private readonly server: Server;

  private constructor(public answer: Answering) {
    this.server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk) => chunks.push(chunk));
      response.on("close", () => {
        if (!response.writableFinished) this.cutOff++;
      });
      request.on("end", () => {
        const { method = "", url: path = "", headers } = request;
        const asked = { method, path, headers, body: Buffer.concat(chunks).toString() };
        this.asked.push(asked);
        this.answer(asked, response, request);
      });
    });
  }

  static async open(answer: Answering = (_, response) => response.end()): Promise<Site> {
    const site = new Site(answer);
    await new Promise<void>((resolve) => site.server.listen(0, "127.0.0.1", resolve));
    return site;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** `signing`: the setting. */
export function secretsOf(entries: Readonly<Record<string, Secret>> = {}, signing?: string): Secrets {
  const mask = new Mask(Object.values(entries).map(({ value }) => value));
  return { get: (name) => entries[name], isOf: () => true, mask, warnings: [], signing: readSigning(signing) };
}

export interface RequestNode {
  readonly dispatcher: NodeDispatcher;
  readonly runs: FakeRuns;
  readonly logged: string[];
  /** The dispatch of such a request, reserved and sent as the runtime does. */
  request(request: Partial<HttpRequest> & { url: string }, more?: Partial<Dispatch>): Dispatch;
  /** Sent without a reservation: its first owner is gone. */
  recover(dispatch: Dispatch): void;
  /** What its run was told. */
  outcome(dispatch: Dispatch): RunCommand | undefined;
}

interface NodeOptions {
  readonly limits?: Partial<DispatchLimits>;
  readonly secrets?: Secrets;
  readonly userOf?: RequestEnvironment["userOf"];
  readonly secretUsed?: RequestEnvironment["secretUsed"];
  readonly runs?: FakeRuns;
  /** How it calls workers. */
  readonly callbacks?: Callbacks;
  readonly scheduler?: Pick<FairScheduler, "compute">;
}

export function openNode(options: NodeOptions = {}) {
  const runs = options.runs ?? new FakeRuns();
  const logged: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => logged.push(line) });
  const guard = new Guard({ admits: publicOrListed(["127.0.0.1", "localhost"]), connectMs: 2_000 });
  const dispatcher = createDispatcher({
    scheduler: options.scheduler ?? new FairScheduler(),
    ...{ runs, log, nodeId: "node-1", now: () => Date.now(), nodeCount: () => 1 },
    limits: { tickMs: 10, offerBackoffMs: 10, ...options.limits },
    egress: { guard, secrets: options.secrets ?? secretsOf(), userOf: options.userOf, secretUsed: options.secretUsed },
    ...(options.callbacks && { callbacks: options.callbacks }),
  });
  const node: RequestNode = {
    ...{ dispatcher, runs, logged },
    request(request, more = {}) {
      const dispatch = dispatchOf(request, more);
      if (!dispatcher.reserve(dispatch.dispatchId, dispatch.call)) throw new Error("no slot is free");
      dispatcher.send(dispatch);
      return dispatch;
    },
    recover: (dispatch) => dispatcher.send(dispatch),
    outcome: ({ runId, dispatchId }) =>
      runs.told.find(
        (told) => told.runId === runId && "dispatchId" in told.command && told.command.dispatchId === dispatchId,
      )?.command,
  };
  return node;
}

export function dispatchOf(request: Partial<HttpRequest> & { url: string }, more: Partial<Dispatch> = {}): Dispatch {
  const full = { method: "GET", headers: {}, expectedStatus: ["2xx"], followRedirects: false, ...request };
  const call = makeCall({
    ...{ transport: "request", service: "http_request", action: new URL(request.url).host, version: 0, inputs: {} },
    request: full,
    idempotencyKey: "run:step:1",
  });
  const deadlineAt = Date.now() + 60_000;
  return { dispatchId: newDispatchId(), runId: newRunId(), dryRun: false, attempt: 1, deadlineAt, call, ...more };
}

/** Turns of the loop that come when they are released. `came`: when the first was asked for. */
export function heldScheduler() {
  let came: number | undefined;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const scheduler: Pick<FairScheduler, "compute"> = {
    compute: async (_, piece) => {
      came ??= Date.now();
      await held;
      return piece();
    },
  };
  return { scheduler, came: () => came, release: () => release() };
}
