// One worker's stream: first the hello, then answers from the worker and steps to it, never more steps unanswered than
// its credit. Which steps it gets and how its answers are recorded is decided in carrier.ts.

import { type ServerDuplexStream, status } from "@grpc/grpc-js";
import { type DispatchId, misfit, parseDispatchId } from "../../../machines/index.js";
import { ANYONE, credentialId, type Principal, type Reach, type Tenants, tenantsOf } from "../../access/index.js";
import { clearTimeout, setTimeout } from "../../ambient.js";
import type { Log } from "../../log.js";
import {
  BATCH_MESSAGES,
  type BatchedCoordinatorMessage,
  type BatchedWorkerMessage,
  type CoordinatorMessage,
  type Hello,
  Outgoing,
  type StepFailure,
  type StepResult,
  type WorkerMessage,
} from "../../sdk/protocol/index.js";
import type { DispatchLimits } from "../limits.js";
import type { Claimant } from "../relay/local-streams.js";
import type { ReservationId } from "../relay/messages.js";
import type { ConnectedWorker } from "../workers.js";
import { type ActionName, versionedAction } from "../workers.js";
import { type Report, type Reporting, readReport } from "./answers.js";
import { CallRefused, EXECUTE_STEP, type GrpcDoor, type Presented } from "./door.js";

export type WorkerCall = ServerDuplexStream<WorkerMessage, CoordinatorMessage>;

/** What a stream reports. */
export interface StreamOwner {
  /** `inFlight`: dispatch ids that the worker still holds. */
  onHello(stream: WorkerStream, inFlight: readonly DispatchId[]): void;
  /**
   * Resolves when the answer is recorded or given up; until then it counts against what the stream may have under way.
   */
  onAnswer(stream: WorkerStream, report: Report): Promise<void>;
  onHeartbeat(stream: WorkerStream, dispatchId: DispatchId): void;
  onDrain(stream: WorkerStream): void;
  /** The worker gives it more credit. */
  onCredit(stream: WorkerStream): void;
  /** Its worker takes steps on it from now on, or none any more. */
  onTakesSteps(): void;
  onEnd(stream: WorkerStream): void;
}

/** Answers of one stream that may be under way to their runs, beyond its credit, before reading pauses. */
const ANSWERS_UNDER_WAY = 64;

export class WorkerStream {
  workerId = "";
  service = "";
  draining = false;
  /** When it said hello, in database time. */
  since = 0;
  /** Whose runs it serves. */
  private tenants: Tenants = "*";
  private principal: Principal = ANYONE;
  private forgetCredential: (() => void) | undefined;
  /**
   * Dispatches that take credit: reserved, or handed over and unanswered. At most `maxInFlight`, except for claimed
   * ones.
   */
  readonly slots = new Set<ReservationId>();
  /** Dispatches that need another worker if this stream is lost: `slots`, and those answered but not yet recorded. */
  readonly held = new Set<ReservationId>();
  /** The pool's count when the stream last got a step: streams of equal credit take turns. */
  turn = 0;
  private maxInFlight = 1;
  /** The worker has set the credit, and waits to hear that no more is taken. */
  private creditAsked = false;
  /** Its worker reports over HTTP, too, if it likes. */
  takesTokens = true;
  private actions: ReadonlySet<string> = new Set();
  private state: "new" | "authenticating" | "open" | "ended" = "new";
  private answersUnderWay = 0;
  private inputEnded = false;
  private readonly outgoing = new Outgoing<BatchedCoordinatorMessage, CoordinatorMessage>({
    write: (message) => this.push(message),
    batchOf: (messages) => ({ batch: { messages } }),
    weigh: ({ execute }) => execute?.inputs_json.length ?? 0,
  });
  private stallTimer: NodeJS.Timeout | undefined;
  private readonly helloTimer: NodeJS.Timeout;

  constructor(
    readonly call: WorkerCall,
    private readonly owner: StreamOwner,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
    /** Absent: every worker is admitted. */
    private readonly door: GrpcDoor | undefined,
  ) {
    const noHello = () => this.close(status.INVALID_ARGUMENT, `no hello within ${limits.helloMs} ms`);
    this.helloTimer = setTimeout(noHello, limits.helloMs).unref();
    call.on("data", (message: WorkerMessage) => this.receive(message));
    call.on("drain", () => this.onDrain());
    call.on("end", () => this.onInputEnd());
    call.on("cancelled", () => this.end());
    call.on("close", () => this.end());
    call.on("error", () => this.end());
  }

  get isOpen(): boolean {
    return this.state === "open";
  }

  /** Credit that is not taken. */
  get free(): number {
    return this.draining || !this.isOpen ? 0 : this.maxInFlight - this.slots.size;
  }

  /** Whether its worker takes any steps on it. */
  get takesSteps(): boolean {
    return this.isOpen && !this.draining && this.maxInFlight > 0;
  }

  get worker(): ConnectedWorker {
    const { workerId, service, since, maxInFlight, draining } = this;
    const actions = [...this.actions];
    const held = { inFlight: this.slots.size, maxInFlight };
    return { workerId, service, ...this.ofTenants, actions, transport: "grpc", since, ...held, draining };
  }

  /** For other nodes. */
  get claimant(): Claimant {
    const { workerId, service } = this;
    return { workerId, service, ...this.ofTenants };
  }

  /** For runs. */
  get reporting(): Reporting {
    const { workerId, service } = this;
    return { workerId, service, ...(this.door && { credential: credentialId(this.principal) }) };
  }

  /** Whose runs hear of its reports. */
  get reach(): Reach {
    return { tenants: this.tenants };
  }

  private get ofTenants() {
    return this.tenants === "*" ? {} : { tenants: this.tenants };
  }

  /** The tenant of a run. Undefined: the run has none. */
  servesTenant(tenantId: string | undefined): boolean {
    const { tenants } = this;
    return tenants === "*" || (tenantId !== undefined && tenants.includes(tenantId));
  }

  serves(name: ActionName): boolean {
    const { actions } = this;
    if (!this.servesTenant(name.tenantId)) return false;
    return actions.size === 0 || actions.has(name.action) || actions.has(versionedAction(name));
  }

  /** Its worker has named a dispatch that is none of its own. */
  refused(dispatchId: DispatchId, reason: string): void {
    const { workerId, service, principal } = this;
    // It may name such dispatches by the thousand: the security log bounds its lines.
    if (this.door) this.door.refuse(`dispatch ${dispatchId}: ${reason}`, this.presented, principal);
    else this.log.warn({ dispatchId, workerId, service, reason }, "answer refused");
  }

  /** Keeps the order. Messages that the worker is too slow to read are buffered, within bounds. */
  write(message: BatchedCoordinatorMessage): void {
    if (this.state === "ended") return;
    this.outgoing.send(message);
    // Steps and cancels are bounded by the credit, acknowledgements by the answers read: with more, the worker is not
    // reading.
    const { blocked, waiting } = this.outgoing;
    if (blocked && waiting > this.limits.unread + 4 * this.maxInFlight) this.onStall();
  }

  /** Less credit may be taken than before: a worker that lowered its credit learns when it is kept. */
  creditReturned(): void {
    if (!this.creditAsked || this.slots.size > this.maxInFlight) return;
    this.creditAsked = false;
    this.write({ credited: { max_in_flight: this.maxInFlight } });
  }

  /** Messages written before still go out first. A worker that never reads them leaves only what gRPC has buffered. */
  close(code: status, details: string): void {
    if (this.state === "ended") return;
    this.outgoing.flush();
    if (code === status.OK) this.call.end();
    else this.call.emit("error", { code, details });
    this.end();
  }

  private receive(message: WorkerMessage): void {
    if (this.state === "ended") return;
    if (this.state === "new") {
      if (!message.hello) this.close(status.INVALID_ARGUMENT, "the first message must be a hello");
      else void this.onHello(message.hello);
      return;
    }
    switch (message.message) {
      case "hello":
        this.close(status.INVALID_ARGUMENT, "only the first message may be a hello");
        break;
      case "result":
        this.onReport(message.result);
        break;
      case "failure":
        this.onReport(message.failure);
        break;
      case "heartbeat":
        this.onHeartbeat(message.heartbeat?.dispatch_id);
        break;
      case "drain":
        this.draining = true;
        this.owner.onDrain(this);
        break;
      case "credit":
        this.onCredit(message.credit?.max_in_flight ?? 0);
        break;
      case "batch":
        this.onBatch(message.batch?.messages ?? []);
        break;
      default:
      // A message of a newer protocol is ignored, as protobuf ignores fields that it does not know.
    }
  }

  private onBatch(messages: readonly BatchedWorkerMessage[]): void {
    if (messages.length > BATCH_MESSAGES)
      this.close(status.INVALID_ARGUMENT, `a batch has at most ${BATCH_MESSAGES} messages`);
    else for (const message of messages) this.receive(message);
  }

  private async onHello(hello: Hello): Promise<void> {
    clearTimeout(this.helloTimer);
    this.state = "authenticating";
    if (!(await this.admit(hello))) return;
    const problem = helloProblem(hello, this.limits.helloBytes);
    if (problem !== undefined) return this.close(status.INVALID_ARGUMENT, problem);
    if (!this.mayServe(hello.service)) return;
    this.workerId = hello.worker_id;
    this.service = hello.service;
    this.actions = new Set(hello.actions);
    this.maxInFlight = hello.credit ? 0 : Math.min(Math.max(hello.max_in_flight, 1), this.limits.maxInFlight);
    this.outgoing.batches = hello.batches;
    this.takesTokens = !hello.stream_answers;
    this.state = "open";
    const end = () => this.close(status.UNAUTHENTICATED, "the credential has ended");
    this.forgetCredential = this.door?.untilEnd(this.principal, end);
    if (!this.isOpen) return;
    const inFlight = hello.in_flight.flatMap((id) => parseDispatchId(id) ?? []);
    this.owner.onHello(this, inFlight);
    this.call.resume();
  }

  private async admit({ token }: Hello): Promise<boolean> {
    if (!this.door) return true;
    // Nothing is read while the credential is checked.
    this.call.pause();
    try {
      this.principal = (await this.door.admit(EXECUTE_STEP, { ...this.presented, token })) ?? ANYONE;
      this.tenants = tenantsOf(this.principal);
    } catch (error) {
      if (!(error instanceof CallRefused)) throw error;
      this.close(error.code, error.details);
    }
    return this.state === "authenticating";
  }

  private get presented(): Presented {
    return { metadata: this.call.metadata, peer: this.call.getPeer() };
  }

  private mayServe(service: string): boolean {
    const { principal, tenants } = this;
    const reason = !principal.services.match(service)
      ? `the credential is not for the service ${service}`
      : tenants.length === 0
        ? "the credential serves the runs of no tenant"
        : undefined;
    if (reason === undefined) return true;
    this.door?.refuse(reason, this.presented, principal);
    this.close(status.PERMISSION_DENIED, reason);
    return false;
  }

  private onReport(given: StepResult | StepFailure | null | undefined): void {
    const report = given ? readReport(given) : undefined;
    if (!report) {
      this.refuseDispatchId();
      return;
    }
    this.answersUnderWay++;
    if (this.answersUnderWay >= this.maxInFlight + ANSWERS_UNDER_WAY) this.call.pause();
    void this.owner.onAnswer(this, report).finally(() => {
      this.answersUnderWay--;
      if (this.state === "ended") return;
      this.call.resume();
      if (this.inputEnded) this.onInputEnd();
    });
  }

  /**
   * The worker has closed its side: its answers are still acknowledged, then the stream ends and what it still holds
   * may be claimed.
   */
  private onInputEnd(): void {
    this.inputEnded = true;
    this.draining = true;
    if (this.answersUnderWay === 0) this.close(status.OK, "");
  }

  private onCredit(maxInFlight: number): void {
    const before = this.maxInFlight;
    this.maxInFlight = Math.min(maxInFlight, this.limits.maxInFlight);
    this.creditAsked = true;
    this.creditReturned();
    if (this.maxInFlight > before) this.owner.onCredit(this);
    if (before === 0 || this.maxInFlight === 0) this.owner.onTakesSteps();
  }

  private onHeartbeat(id: string | undefined): void {
    const dispatchId = parseDispatchId(id);
    if (dispatchId === undefined) this.refuseDispatchId();
    else this.owner.onHeartbeat(this, dispatchId);
  }

  private refuseDispatchId(): void {
    this.close(status.INVALID_ARGUMENT, `dispatch_id ${misfit.notOfFormat("uuid")}`);
  }

  private push(message: CoordinatorMessage): boolean {
    const isRead = this.call.write(message);
    if (!isRead) this.stallTimer = setTimeout(() => this.onStall(), this.limits.stallMs).unref();
    return isRead;
  }

  /** The worker reads again. */
  private onDrain(): void {
    clearTimeout(this.stallTimer);
    this.outgoing.resume();
  }

  private onStall(): void {
    this.log.warn(
      { workerId: this.workerId, unread: this.outgoing.waiting },
      "worker stopped reading, closing its stream",
    );
    this.close(status.RESOURCE_EXHAUSTED, "the stream is not read");
  }

  private end(): void {
    if (this.state === "ended") return;
    this.state = "ended";
    clearTimeout(this.helloTimer);
    clearTimeout(this.stallTimer);
    this.forgetCredential?.();
    this.outgoing.clear();
    this.owner.onEnd(this);
  }
}

const ID = new RegExp(misfit.ID_PATTERN);
const ACTION = /^[A-Za-z0-9_.:-]{1,128}(@[0-9]{1,10})?$/;

/** Actions, and dispatch ids in flight, that one hello may name. */
const HELLO_NAMES = 10_000;

/** A sentence for the worker. Undefined: the hello is as it must be. */
export function helloProblem(hello: Hello, mostBytes: number): string | undefined {
  const { worker_id, service, actions, in_flight, token } = hello;
  let bytes = 0;
  for (const text of [worker_id, service, token, ...actions, ...in_flight]) bytes += Buffer.byteLength(text);
  if (bytes > mostBytes) return `the hello has ${bytes} bytes of text, more than ${mostBytes}`;
  for (const [name, id] of Object.entries({ worker_id, service }))
    if (!ID.test(id)) return `${name} ${misfit.unlike(misfit.ID_PATTERN)}`;
  for (const [name, { length }] of Object.entries({ actions, in_flight }))
    if (length > HELLO_NAMES) return `${name} ${misfit.tooManyItems(HELLO_NAMES)}`;
  const nth = actions.findIndex((name) => !ACTION.test(name));
  return nth < 0
    ? undefined
    : `actions[${nth}] ${misfit.unlike(misfit.ID_PATTERN)}, or such a name with @ and a version`;
}
