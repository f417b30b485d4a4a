// Workers without the SDK, one for each transport, that do what a test tells them: they take steps, answer them by hand, and can be away.
// All of them see the same message and answer in the same way, so that one suite holds for every carrier.
import { randomUUID } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type ChannelModel, connect } from "amqplib";
import { ownQueue } from "../harness/rabbitmq.js";
import type { TcpGate } from "../harness/tcp-gate.js";
import { until } from "../harness/until.js";
import { RawWorker, type Wire } from "./rig.js";

/** The message of a step, the same over all transports. */
export interface Step {
  readonly dispatch_id: string;
  readonly run_id: string;
  readonly step_id: string;
  readonly attempt: number;
  readonly service: string;
  readonly action: string;
  readonly version: number;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly idempotency_key: string;
  readonly forward_idempotency_key?: string;
  readonly deadline_at: string;
  readonly timeout_ms: number;
  readonly heartbeat_timeout_ms?: number;
  readonly dry_run: boolean;
  readonly phase: "FORWARD" | "COMPENSATION";
  readonly tenant_id?: string;
  readonly callback_url?: string;
  readonly callback_token?: string;
}

export type StepAnswer =
  | { readonly result: object }
  | {
      readonly error: {
        readonly code: string;
        readonly message: string;
        readonly retryable?: boolean;
        readonly outcome_unknown?: boolean;
      };
    };

export interface Bench {
  readonly service: string;
  readonly api: string;
  readonly grpc: string;
}

/** The answer to an answer. Undefined: the transport has none. */
export type Recorded = { readonly stale: boolean } | undefined;

export interface BareWorker {
  /** How its actions are registered. */
  readonly registration: { readonly transport: "grpc" | "http" | "rmq"; readonly address?: string };
  /** In the order of their arrival. */
  readonly steps: readonly Step[];
  /** The code of a step that was with the worker when it left. */
  readonly lost: string;
  answer(step: Step, answer: StepAnswer): Promise<Recorded>;
  heartbeat(step: Step): Promise<void>;
  /** Whether the worker has been asked to stop the step. */
  toldToStop(step: Step): Promise<boolean>;
  /** Nothing reaches it any more. */
  leave(): Promise<void>;
  /** It is reachable again. */
  comeBack(): Promise<void>;
  stop(): Promise<void>;
}

/** The nth step of the run that the worker got. */
export function stepOf(worker: BareWorker, runId: string, nth = 1): Promise<Step> {
  const steps = () => worker.steps.filter(({ run_id }) => run_id === runId);
  return until(() => steps()[nth - 1], { what: `step ${nth} of run ${runId}` });
}

/** With access control a dispatch carries the credential of the reports on it. */
export function reportHeaders({
  callback_token: token,
}: Pick<Step, "callback_token">): Readonly<Record<string, string>> {
  return { "content-type": "application/json", ...(token !== undefined && { "saga-callback-token": token }) };
}

async function report(step: Step, body: object, heartbeat = false): Promise<{ stale: boolean; cancelled?: boolean }> {
  const url = heartbeat ? (step.callback_url ?? "").replace("/result?", "/heartbeat?") : (step.callback_url ?? "");
  const response = await fetch(url, { method: "POST", headers: reportHeaders(step), body: JSON.stringify(body) });
  const answer = (await response.json()) as { stale: boolean };
  if (response.status !== 202) throw new Error(`the report was answered ${response.status}: ${JSON.stringify(answer)}`);
  return answer;
}

/** What workers that report over the API have in common. */
abstract class Reporting {
  readonly steps: Step[] = [];
  readonly lost: string = "timeout";

  async answer(step: Step, answer: StepAnswer): Promise<Recorded> {
    return report(step, answer);
  }

  async heartbeat(step: Step): Promise<void> {
    await report(step, {}, true);
  }

  async toldToStop(step: Step): Promise<boolean> {
    const { stale, cancelled = false } = await report(step, {}, true);
    return stale || cancelled;
  }
}

class GrpcWorker implements BareWorker {
  readonly registration = { transport: "grpc" } as const;
  readonly steps: Step[] = [];
  readonly lost = "timeout";
  private worker: RawWorker | undefined;

  constructor(private readonly bench: Bench) {}

  async comeBack(): Promise<void> {
    const hello = { service: this.bench.service, worker_id: randomUUID(), max_in_flight: 50 };
    this.worker = await RawWorker.connect(this.bench.grpc, hello, (step) => this.steps.push(plain(step)));
  }

  /** On return, the service knows: it has answered another worker since. */
  async leave(): Promise<void> {
    this.worker?.cut();
    const later = await RawWorker.connect(this.bench.grpc, { service: "another", worker_id: randomUUID() });
    later.cut();
  }

  async stop(): Promise<void> {
    this.worker?.cut();
  }

  async answer(step: Step, answer: StepAnswer): Promise<Recorded> {
    const before = this.recorded(step).length;
    const { dispatch_id, run_id, step_id, attempt } = step;
    const about = { dispatch_id, run_id, step_id, attempt };
    const message =
      "result" in answer
        ? { result: { ...about, result_json: Buffer.from(JSON.stringify(answer.result)) } }
        : { failure: { ...about, ...answer.error } };
    this.worker?.send(message);
    return until(() => this.recorded(step)[before], { what: "the answer's acknowledgement" });
  }

  async heartbeat({ dispatch_id }: Step): Promise<void> {
    this.worker?.send({ heartbeat: { dispatch_id } });
  }

  async toldToStop(step: Step): Promise<boolean> {
    return this.worker?.of("cancel").some(({ dispatch_id }) => dispatch_id === step.dispatch_id) ?? false;
  }

  private recorded({ dispatch_id: id }: Step): { stale: boolean }[] {
    return this.worker?.of("recorded").filter(({ dispatch_id }) => dispatch_id === id) ?? [];
  }
}

/** A message of a stream as the others have it. */
function plain({ inputs_json, ...step }: Wire): Step {
  const present = Object.entries(step).filter(([, value]) => value !== "" && value !== 0);
  return { ...Object.fromEntries(present), inputs: JSON.parse(inputs_json.toString()) } as Step;
}

class HttpWorker extends Reporting implements BareWorker {
  readonly headers: Readonly<Record<string, unknown>>[] = [];
  private readonly open = new Map<string, ServerResponse>();
  private readonly server: Server;
  private port = 0;

  override readonly lost: string;

  /** `inline`: its answers are responses, as long as they are waited for. */
  constructor(private readonly inline: boolean) {
    super();
    this.lost = inline ? "http_network" : "timeout";
    this.server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk) => chunks.push(chunk));
      request.on("end", () => this.take(JSON.parse(Buffer.concat(chunks).toString()), request.headers, response));
    });
  }

  get registration() {
    return { transport: "http", address: `http://127.0.0.1:${this.port}/steps` } as const;
  }

  override async answer(step: Step, answer: StepAnswer): Promise<Recorded> {
    const response = this.open.get(step.dispatch_id);
    this.open.delete(step.dispatch_id);
    if (!response || response.destroyed) return super.answer(step, answer);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    return undefined;
  }

  async leave(): Promise<void> {
    this.server.closeAllConnections();
    if (this.server.listening) await new Promise((resolve) => this.server.close(resolve));
  }

  async comeBack(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(this.port, "127.0.0.1", resolve));
    this.port = (this.server.address() as AddressInfo).port;
  }

  stop(): Promise<void> {
    return this.leave();
  }

  private take(step: Step, headers: Readonly<Record<string, unknown>>, response: ServerResponse): void {
    this.steps.push(step);
    this.headers.push(headers);
    if (this.inline) this.open.set(step.dispatch_id, response);
    else response.writeHead(202).end();
  }
}

class RabbitMqWorker extends Reporting implements BareWorker {
  private connection: ChannelModel | undefined;

  constructor(
    readonly queue: string,
    private readonly url: string,
    private readonly gate: TcpGate,
  ) {
    super();
  }

  get registration() {
    return { transport: "rmq", address: this.queue } as const;
  }

  /** The worker has a way of its own to the broker: it is the service's that is cut. */
  async open(): Promise<void> {
    this.connection = await connect(this.url);
    const channel = await this.connection.createChannel();
    await channel.assertQueue(this.queue, { durable: true });
    await channel.consume(this.queue, (message) => {
      if (!message) return;
      this.steps.push(JSON.parse(message.content.toString()));
      channel.ack(message);
    });
  }

  leave(): Promise<void> {
    return this.gate.shut();
  }

  comeBack(): Promise<void> {
    return this.gate.open();
  }

  async stop(): Promise<void> {
    await this.connection?.close();
  }
}

export const openGrpcWorker = async (bench: Bench): Promise<BareWorker> => {
  const worker = new GrpcWorker(bench);
  await worker.comeBack();
  return worker;
};

export const openHttpWorker = async (inline: boolean): Promise<HttpWorker> => {
  const worker = new HttpWorker(inline);
  await worker.comeBack();
  return worker;
};

/** `gate` is the way of the service to the broker at `url`. */
export const openRabbitMqWorker = async (service: string, url: string, gate: TcpGate): Promise<RabbitMqWorker> => {
  const worker = new RabbitMqWorker(ownQueue(service), url, gate);
  await worker.open();
  return worker;
};
