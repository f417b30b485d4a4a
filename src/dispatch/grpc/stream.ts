// One worker's stream: hello first, then answers in and steps out, never more of them unanswered than its credit. Which
// steps it gets and what becomes of its answers is decided by the transport.

import { status } from "@grpc/grpc-js";
import { isUuid } from "../../ids.js";
import type { ActionName, DispatchLimits, Log } from "../transport.js";
import type { CoordinatorMessage, Hello, StepFailure, StepResult, WorkerCall, WorkerMessage } from "./messages.js";

/** Whether a worker's token is accepted, and if not, why: the reason is told to the worker. */
export type Authenticate = (token: string) => AuthenticationAnswer | Promise<AuthenticationAnswer>;

export type AuthenticationAnswer = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/** What a stream tells the transport. `answered` resolves when the answer is dealt with; until then it counts as unread. */
export interface StreamOwner {
  greeted(stream: WorkerStream, inFlight: readonly string[]): void;
  answered(stream: WorkerStream, report: StepResult | StepFailure): Promise<void>;
  heartbeat(stream: WorkerStream, dispatchId: string): void;
  drained(stream: WorkerStream): void;
  ended(stream: WorkerStream): void;
}

const ID = /^[A-Za-z0-9_.:-]{1,128}$/;

/** Answers being recorded for one stream before no more are read from it, beyond its credit. */
const ANSWERS_UNDER_WAY = 64;

/** Actions and claims that one hello may name. */
const HELLO_NAMES = 10_000;

export class WorkerStream {
  workerId = "";
  service = "";
  draining = false;
  /** Dispatches that take credit: reserved, or handed over and unanswered. At most `#maxInFlight`, claims aside. */
  readonly slots = new Set<string>();
  /** Dispatches that go elsewhere if this stream is lost: `slots`, and those answered but not yet recorded. */
  readonly held = new Set<string>();
  /** When it last got a step, on the transport's count: ties go round. */
  turn = 0;
  #maxInFlight = 1;
  #actions: ReadonlySet<string> = new Set();
  #state: "new" | "authenticating" | "open" | "ended" = "new";
  #answersUnderWay = 0;
  #saidAll = false;
  /** What the worker is too slow to read. */
  readonly #unread: CoordinatorMessage[] = [];
  #blocked = false;
  #stallTimer: NodeJS.Timeout | undefined;
  readonly #helloTimer: NodeJS.Timeout;

  constructor(
    readonly call: WorkerCall,
    private readonly owner: StreamOwner,
    private readonly limits: DispatchLimits,
    private readonly log: Log,
    private readonly authenticate: Authenticate | undefined,
  ) {
    this.#helloTimer = setTimeout(
      () => this.close(status.INVALID_ARGUMENT, "no hello came in time"),
      limits.helloMs,
    ).unref();
    call.on("data", (message: WorkerMessage) => this.#receive(message));
    call.on("drain", () => this.#flush());
    call.on("end", () => this.#halfClosed());
    call.on("cancelled", () => this.#end());
    call.on("close", () => this.#end());
    call.on("error", () => this.#end());
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  get free(): number {
    return this.draining || !this.isOpen ? 0 : this.#maxInFlight - this.slots.size;
  }

  serves(name: ActionName): boolean {
    const actions = this.#actions;
    return actions.size === 0 || actions.has(name.action) || actions.has(`${name.action}@${name.version}`);
  }

  /** Order is kept; what the worker is too slow to read is kept back, within bounds. */
  write(message: CoordinatorMessage): void {
    if (this.#state === "ended") return;
    if (!this.#blocked) {
      this.#push(message);
      return;
    }
    this.#unread.push(message);
    // Steps and cancels are bounded by the credit, acknowledgements by the answers read: more means that it does not read.
    if (this.#unread.length > this.limits.unread + 4 * this.#maxInFlight) this.#stalled();
  }

  /** What was written before still goes out first. A worker that never reads it keeps only what gRPC has buffered. */
  close(code: status, details: string): void {
    if (this.#state === "ended") return;
    if (code === status.OK) this.call.end();
    else this.call.emit("error", { code, details });
    this.#end();
  }

  #receive(message: WorkerMessage): void {
    if (this.#state === "ended") return;
    if (this.#state === "new") {
      if (!message.hello) this.close(status.INVALID_ARGUMENT, "the first message must be a hello");
      else void this.#greet(message.hello);
      return;
    }
    switch (message.message) {
      case "hello":
        this.close(status.INVALID_ARGUMENT, "hello was said already");
        break;
      case "result":
        this.#report(message.result);
        break;
      case "failure":
        this.#report(message.failure);
        break;
      case "heartbeat":
        this.#beat(message.heartbeat?.dispatch_id);
        break;
      case "drain":
        this.draining = true;
        this.owner.drained(this);
        break;
      default:
      // A message of a newer protocol: passed over, as protobuf passes over fields it does not know.
    }
  }

  async #greet(hello: Hello): Promise<void> {
    clearTimeout(this.#helloTimer);
    this.#state = "authenticating";
    if (!ID.test(hello.worker_id) || !ID.test(hello.service)) {
      return this.close(status.INVALID_ARGUMENT, "worker_id and service must match [A-Za-z0-9_.:-]{1,128}");
    }
    if (hello.actions.length > HELLO_NAMES || hello.in_flight.length > HELLO_NAMES) {
      return this.close(status.INVALID_ARGUMENT, `a hello names at most ${HELLO_NAMES} actions and dispatches`);
    }
    if (!(await this.#admit(hello.token))) return;
    this.workerId = hello.worker_id;
    this.service = hello.service;
    this.#actions = new Set(hello.actions);
    this.#maxInFlight = Math.min(Math.max(hello.max_in_flight, 1), this.limits.maxInFlight);
    this.#state = "open";
    this.owner.greeted(this, hello.in_flight.filter(isUuid));
    this.call.resume();
  }

  async #admit(token: string): Promise<boolean> {
    if (!this.authenticate) return true;
    // Nothing is read while the token is checked.
    this.call.pause();
    try {
      const answer = await this.authenticate(token);
      if (!answer.ok) this.close(status.UNAUTHENTICATED, answer.reason);
    } catch (error) {
      this.log.error({ err: error }, "a worker's token could not be checked");
      this.close(status.UNAVAILABLE, "the token could not be checked");
    }
    return this.#state === "authenticating";
  }

  #report(report: StepResult | StepFailure | undefined): void {
    if (!report || !isUuid(report.dispatch_id)) {
      this.#refuseId();
      return;
    }
    this.#answersUnderWay++;
    if (this.#answersUnderWay >= this.#maxInFlight + ANSWERS_UNDER_WAY) this.call.pause();
    void this.owner.answered(this, report).finally(() => {
      this.#answersUnderWay--;
      if (this.#state === "ended") return;
      this.call.resume();
      if (this.#saidAll) this.#halfClosed();
    });
  }

  /** The worker says nothing more: its answers are still acknowledged, then what it has not answered may be claimed. */
  #halfClosed(): void {
    this.#saidAll = true;
    this.draining = true;
    if (this.#answersUnderWay === 0) this.close(status.OK, "");
  }

  #beat(dispatchId: string | undefined): void {
    if (isUuid(dispatchId)) this.owner.heartbeat(this, dispatchId);
    else this.#refuseId();
  }

  #refuseId(): void {
    this.close(status.INVALID_ARGUMENT, "dispatch_id is no uuid");
  }

  #push(message: CoordinatorMessage): void {
    if (this.call.write(message)) return;
    this.#blocked = true;
    this.#stallTimer = setTimeout(() => this.#stalled(), this.limits.stallMs).unref();
  }

  #flush(): void {
    this.#blocked = false;
    clearTimeout(this.#stallTimer);
    while (!this.#blocked && this.#state !== "ended") {
      const message = this.#unread.shift();
      if (!message) return;
      this.#push(message);
    }
  }

  #stalled(): void {
    this.log.warn({ workerId: this.workerId, unread: this.#unread.length }, "a worker does not read its stream");
    this.close(status.RESOURCE_EXHAUSTED, "the stream is not read");
  }

  #end(): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    clearTimeout(this.#helloTimer);
    clearTimeout(this.#stallTimer);
    this.#unread.length = 0;
    this.owner.ended(this);
  }
}
