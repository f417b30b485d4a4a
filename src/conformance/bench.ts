// The bench of a worker under test: the service's side of the protocol, played on this machine, and the worker's process. Cases give the worker
// steps here and see what it does. It stores nothing and judges nothing.
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { Gate } from "./gate.js";
import { within } from "./patience.js";
import { type Registration, Registry } from "./registry.js";
import { NotApplicable, Violation } from "./rule.js";
import { makeStep, type Step, type StepOptions } from "./step.js";
import { type Answer, BEST, type Manners, Stream, type StreamOwner, type WorkerCall } from "./stream.js";
import { workerService } from "./wire.js";
import { WorkerProcess } from "./worker-process.js";

export interface BenchOptions {
  /** Starts the worker. Absent: it is started by someone else. */
  readonly command?: readonly [string, ...string[]] | undefined;
  readonly cwd?: string | undefined;
  /** Environment of the worker, beside the addresses. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly onOutput?: ((text: string) => void) | undefined;
  /** The credential that the worker is given. */
  readonly token: string;
  /** Milliseconds for a worker to be there the first time. */
  readonly startMs: number;
}

const MESSAGE_BYTES = 32 * 1_048_576;
/** For what a healthy worker does at once. */
export const SOON_MS = 10_000;

export class Bench implements StreamOwner {
  readonly registry = new Registry();
  readonly streams: Stream[] = [];
  /** What is about to be asked of new streams. */
  manners: Manners = BEST;
  private readonly steps = new Map<string, Step>();
  /** Answers for dispatches that were never given. */
  readonly strangeAnswers: string[] = [];
  private readonly server = new Server({
    "grpc.max_receive_message_length": MESSAGE_BYTES,
    "grpc.max_send_message_length": MESSAGE_BYTES,
  });
  private gate: Gate | undefined;
  process: WorkerProcess | undefined;

  /** Resolves when the conformance is given up. */
  readonly interrupted: Promise<NotApplicable>;
  interrupt: () => void = () => {};

  constructor(readonly options: BenchOptions) {
    this.interrupted = new Promise((resolve) => {
      this.interrupt = () => resolve(new NotApplicable("interrupted"));
    });
    this.server.addService(workerService(), {
      ExecuteStep: (call: WorkerCall) => {
        this.streams.push(new Stream(call, this, this.manners));
      },
    });
  }

  async open(): Promise<void> {
    await this.registry.open();
    const port = await new Promise<number>((resolve, reject) => {
      const done = (error: Error | null, bound: number) => (error ? reject(error) : resolve(bound));
      this.server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), done);
    });
    this.gate = new Gate(port);
    await this.gate.open();
  }

  /** Ends the worker that it started. */
  async close(): Promise<void> {
    this.process?.kill();
    await this.gate?.shut();
    this.server.forceShutdown();
    await this.registry.close();
  }

  /** What the worker finds in its environment. */
  get addresses(): Readonly<Record<"SAGA_GRPC" | "SAGA_API" | "SAGA_TOKEN", string>> {
    return { SAGA_GRPC: this.network.address, SAGA_API: this.registry.url, SAGA_TOKEN: this.options.token };
  }

  get network(): Gate {
    if (!this.gate) throw new Error("the bench is not open");
    return this.gate;
  }

  get registrations(): readonly Registration[] {
    return this.registry.registrations;
  }

  /** A stream that takes steps. Starts the worker if it is not there. Throws Violation if none comes. */
  async ready(): Promise<Stream> {
    this.manners = BEST;
    const isFirst = this.streams.length === 0;
    const { command, cwd, env, onOutput } = this.options;
    if (command && (!this.process || this.process.ended !== undefined)) {
      const environment = { ...env, ...this.addresses };
      this.process = new WorkerProcess({ command, cwd, env: environment, onOutput });
    }
    return this.stream(isFirst ? this.options.startMs : SOON_MS + SOON_MS);
  }

  /** A stream that takes steps and has not the manners of another case. */
  async stream(ms = SOON_MS, since = 0): Promise<Stream> {
    const taking = () => this.streams.findLast((stream) => stream.isReady && stream.openedAt >= since);
    const isOver = () => this.process?.ended !== undefined;
    await within(ms, () => taking() !== undefined || isOver());
    const found = taking();
    if (found) return found;
    throw new Violation(`no stream that takes steps came within ${ms} ms${this.whatCame(since)}`);
  }

  /** Opens all streams anew, with other manners. */
  async again(manners: Partial<Manners>): Promise<Stream> {
    this.manners = { ...BEST, ...manners };
    const since = performance.now();
    for (const stream of this.streams) if (stream.isLive) stream.close();
    return this.stream(SOON_MS, since);
  }

  /** Ends all streams. Those that come have the manners of the newest service. */
  reopen(): void {
    this.manners = BEST;
    for (const stream of this.streams) if (stream.isLive) stream.close();
  }

  give(stream: Stream, action: string, options?: StepOptions): Step {
    const step = makeStep(action, options);
    this.steps.set(step.id, step);
    stream.send({ execute: step.message });
    return step;
  }

  /** A step that is not sent: it goes into a batch. */
  prepare(action: string, options?: StepOptions): Step {
    const step = makeStep(action, options);
    this.steps.set(step.id, step);
    return step;
  }

  /** Waits for the first answer. Throws Violation if there is none. */
  async answerOf(step: Step, ms = SOON_MS): Promise<Answer> {
    await within(ms, () => step.answer !== undefined || this.process?.ended !== undefined);
    if (step.answer) return step.answer;
    throw new Violation(`a step of ${step.message.action} had no answer within ${ms} ms${this.whatCame(Infinity)}`);
  }

  /** Acknowledges an answer, on the stream on which it came last. */
  record(step: Step, stale = false): void {
    step.recorded = true;
    step.answers.at(-1)?.value.stream.send({ recorded: { dispatch_id: step.id, stale } });
  }

  /** What a case has left open does not trouble the next one. */
  settle(): void {
    for (const stream of this.streams) {
      stream.manners = { ...stream.manners, credits: true, records: true };
      if (stream.isLive && stream.credits.length > 0 && stream.credit !== stream.credits.at(-1)?.value) stream.grant();
    }
    for (const step of this.steps.values()) if (step.answers.length > 0 && !step.recorded) this.record(step);
  }

  // ---- StreamOwner

  onAnswer(stream: Stream, dispatchId: string, answer: Answer): void {
    const step = this.steps.get(dispatchId);
    if (!step) {
      this.strangeAnswers.push(dispatchId);
      return;
    }
    step.answers.push({ at: performance.now(), value: { stream, answer } });
    if (stream.manners.records) this.record(step);
  }

  onHeartbeat(dispatchId: string): void {
    this.steps.get(dispatchId)?.heartbeats.push(performance.now());
  }

  /** Why there may be nothing, in half a sentence. */
  private whatCame(since: number): string {
    const { process: worker } = this;
    const streams = this.streams.filter(({ openedAt }) => openedAt >= since);
    const [disorderly] = streams.flatMap(({ disorder }) => disorder ?? []);
    if (worker?.ended !== undefined) return `: the worker has ended (${worker.ended}). ${lastOf(worker.output)}`;
    if (disorderly !== undefined) return `: ${disorderly}`;
    if (streams.some(({ hello }) => hello?.credit)) return ": a stream said hello with credit, and then sent no Credit";
    if (streams.length > 0) return `: of ${streams.length} that were opened none said hello and stayed`;
    return worker && worker.output !== "" ? `. ${lastOf(worker.output)}` : "";
  }
}

const lastOf = (output: string) =>
  output === "" ? "It printed nothing." : `It printed: ${output.trim().slice(-2_000)}`;
