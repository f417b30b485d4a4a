// Simulated workers over the streams of gRPC, without their sockets: a stream for each node, credit, answers that come late, twice, never or as
// nonsense, and at another node than the one that sent the step. Each worker keeps what it has done under its idempotency key, as the SDK's do.
import { EventEmitter } from "node:events";
import { Metadata } from "@grpc/grpc-js";
import type { WorkerCall } from "../../../src/dispatch/grpc/stream.js";
import type { NodeDispatcher } from "../../../src/dispatch/node-dispatcher.js";
import type { CoordinatorMessage, ExecuteStep, WorkerMessage } from "../../../src/sdk/protocol/index.js";
import type { Deed } from "../../run/family-laws.js";
import { turnOf } from "../trouble/faults.js";
import type { Chance, Life, World } from "../world/world.js";

/** A node's end of a stream, as gRPC gives it to the service. */
class SimulatedCall extends EventEmitter {
  readonly metadata = new Metadata();
  private isPaused = false;
  private readonly unread: WorkerMessage[] = [];

  constructor(
    private readonly node: Life,
    private readonly world: World,
    private readonly told: (message: CoordinatorMessage) => void,
    private readonly closed: () => void,
  ) {
    super();
    this.on("error", () => this.close());
  }

  getPeer(): string {
    return "10.0.0.1:4000";
  }

  write(message: CoordinatorMessage): boolean {
    this.told(message);
    return true;
  }

  end(): void {
    this.close();
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
    for (const message of this.unread.splice(0)) this.receive(message);
  }

  receive(message: WorkerMessage): void {
    if (this.isPaused) this.unread.push(message);
    else this.emit("data", message);
  }

  private close(): void {
    this.world.later(0, () => this.emit("close"), this.node);
    this.closed();
  }
}

interface Stream {
  readonly node: Life;
  readonly call: SimulatedCall;
  /** What it has sent and the worker has not answered, with its deadline, epoch milliseconds. */
  readonly unanswered: Map<string, number>;
  isOpen: boolean;
}

/** A step that the worker is at, or has answered: the stream on which it came last, or to which it was brought. There it is answered, as by the SDK. */
interface Held {
  via: Stream;
  /** Epoch milliseconds. */
  readonly deadlineAt: number;
  /** Absent: the worker is at it. Kept until a node has recorded it. */
  answer?: WorkerMessage;
}

/** What a step does. */
type Fate = "done" | "refused" | "declined" | "unknown" | "silent" | "nonsense";

export interface WorkerFaults {
  readonly refused: number;
  readonly declined: number;
  readonly unknown: number;
  readonly silent: number;
  readonly nonsense: number;
  readonly undoDeclined: number;
  readonly twice: number;
  readonly elsewhere: number;
  readonly late: number;
  readonly broken: number;
}

export const NO_WORKER_FAULTS: WorkerFaults = {
  ...{
    refused: 0,
    declined: 0,
    unknown: 0,
    silent: 0,
    nonsense: 0,
    undoDeclined: 0,
    twice: 0,
    elsewhere: 0,
    late: 0,
    broken: 0,
  },
};

export interface NodeAt {
  readonly life: Life;
  readonly dispatcher: Pick<NodeDispatcher, "workers">;
}

/** What the ledger needs of a step. */
export type StepAsked = Pick<ExecuteStep, "run_id" | "phase" | "idempotency_key" | "forward_idempotency_key">;

/** What all workers of a service have done: they share a ledger, as they would a database. */
export class Ledger {
  /** In the order of their first dispatch. */
  readonly deeds: Deed[] = [];
  /** Keys of what has happened, or may have. Undos are not among them. */
  readonly happened = new Set<string>();
  /** Dispatches of which a node has said that their answer is durable. */
  readonly recorded = new Set<string>();
  /** What nodes have done to workers that they must not do. */
  readonly broken: string[] = [];
  private readonly known = new Set<string>();
  private readonly done = new Map<string, Buffer>();

  /** The first time that a key is asked for. */
  note({ run_id: runId, phase, idempotency_key: key, forward_idempotency_key: forwardKey }: StepAsked): void {
    if (this.known.has(key)) return;
    this.known.add(key);
    const isUndo = phase === "COMPENSATION";
    this.deeds.push({ runId, phase: isUndo ? "compensation" : "forward", key, ...(isUndo && { forwardKey }) });
  }

  resultOf(key: string): Buffer | undefined {
    return this.done.get(key);
  }

  /** An effect under its key, once. */
  perform(step: StepAsked): Buffer {
    const { idempotency_key: key } = step;
    const known = this.done.get(key);
    if (known) return known;
    const result = Buffer.from(JSON.stringify({ receipt: `r${this.done.size}` }));
    this.done.set(key, result);
    this.mayHaveHappened(step);
    return result;
  }

  mayHaveHappened({ phase, idempotency_key: key }: StepAsked): void {
    if (phase !== "COMPENSATION") this.happened.add(key);
  }
}

export interface WorkerOptions {
  readonly name: string;
  readonly service: string;
  readonly maxInFlight: number;
  readonly world: World;
  readonly chance: Chance;
  readonly ledger: Ledger;
  /** The nodes that it can reach now. */
  nodes(): readonly NodeAt[];
}

const LATENCY_MS = 3;
const WORK_MS = 40;
const LATE_MS = 8_000;
const RESEND_MS = 1_000;

export class SimulatedWorker {
  faults: WorkerFaults = NO_WORKER_FAULTS;
  readonly seen: Record<string, number> = {};
  private readonly streams = new Map<Life, Stream>();
  /** By dispatch. */
  private readonly held = new Map<string, Held>();

  constructor(private readonly options: WorkerOptions) {
    this.look();
  }

  /** Its streams to nodes that have gone are gone; it opens one to each node that it can reach. */
  private look(): void {
    const { world, chance } = this.options;
    for (const [life, stream] of this.streams) if (!life.isAlive || !stream.isOpen) this.streams.delete(life);
    for (const node of this.options.nodes()) if (!this.streams.has(node.life)) this.open(node);
    for (const stream of this.streams.values())
      if (chance() < this.faults.broken) this.hangUp(stream);
      else for (const { answer } of this.held.values()) if (answer && chance() < 0.3) this.say(stream, answer);
    world.later(RESEND_MS * (0.5 + chance()), () => this.look(), null);
  }

  private open({ life, dispatcher }: NodeAt): void {
    const { world, chance, name, service, maxInFlight } = this.options;
    const told = (message: CoordinatorMessage) => {
      world.later(chance() * LATENCY_MS, () => stream.isOpen && this.hear(stream, message), null);
    };
    const call = new SimulatedCall(life, world, told, () => {
      stream.isOpen = false;
    });
    const stream: Stream = { node: life, call, unanswered: new Map(), isOpen: true };
    this.streams.set(life, stream);
    world.as(life, () => dispatcher.workers.attach(call as unknown as WorkerCall));
    const hello = {
      ...{ worker_id: name, service, actions: [], max_in_flight: maxInFlight, token: "" },
      in_flight: this.bring(stream),
      ...{ batches: false, credit: false, stream_answers: false },
    };
    this.say(stream, { message: "hello", hello });
  }

  /** What it holds, and no open stream carries, moves to this one. */
  private bring(stream: Stream): string[] {
    const brought: string[] = [];
    for (const [id, held] of this.held) {
      if (held.via.isOpen) continue;
      held.via = stream;
      if (!held.answer) stream.unanswered.set(id, held.deadlineAt);
      brought.push(id);
    }
    return brought;
  }

  private hangUp(stream: Stream): void {
    this.count("broken");
    stream.isOpen = false;
    this.options.world.later(0, () => stream.call.emit("cancelled"), stream.node);
  }

  private say(stream: Stream, message: WorkerMessage): void {
    const { world, chance } = this.options;
    world.later(chance() * LATENCY_MS, () => stream.isOpen && stream.call.receive(message), stream.node);
  }

  private hear(stream: Stream, { execute, recorded }: CoordinatorMessage): void {
    if (recorded) {
      const { dispatch_id: id, stale } = recorded;
      if (!this.held.get(id)?.answer) return;
      if (!stale) this.options.ledger.recorded.add(id);
      this.held.delete(id);
    }
    if (execute) {
      this.countCredit(stream, execute);
      this.work(stream, execute);
    }
  }

  /** The credit of a stream: never more steps than this unanswered. What has passed its deadline is none. */
  private countCredit({ unanswered }: Stream, { dispatch_id: id, deadline_at }: ExecuteStep): void {
    const { world, maxInFlight, ledger, name } = this.options;
    for (const [other, deadline] of unanswered) if (deadline <= world.latestStoreTime) unanswered.delete(other);
    if (!unanswered.has(id) && unanswered.size >= maxInFlight)
      ledger.broken.push(
        `${name} got step ${unanswered.size + 1} at ${world.now} ms on a stream with credit for ${maxInFlight}`,
      );
    unanswered.set(id, Date.parse(deadline_at));
  }

  private work(stream: Stream, step: ExecuteStep): void {
    const { world, chance, ledger } = this.options;
    const { dispatch_id: id, idempotency_key: key } = step;
    ledger.note(step);
    const known = this.held.get(id);
    if (known) known.via = stream;
    if (known?.answer) {
      stream.unanswered.delete(id);
      this.say(stream, known.answer);
    }
    if (known) return;
    const held: Held = { via: stream, deadlineAt: Date.parse(step.deadline_at) };
    this.held.set(id, held);
    const fate = ledger.resultOf(key) ? "done" : this.fateOf(step);
    const ms = chance() < this.faults.late ? chance() * LATE_MS : chance() * WORK_MS;
    world.later(ms, () => this.answer(held, step, fate), null);
  }

  private fateOf({ phase }: ExecuteStep): Fate {
    const { faults } = this;
    const drawn = this.options.chance();
    if (phase === "COMPENSATION") return drawn < faults.undoDeclined ? "declined" : "done";
    return turnOf(drawn, faults, ["refused", "declined", "unknown", "silent", "nonsense"]) ?? "done";
  }

  private answer(held: Held, step: ExecuteStep, fate: Fate): void {
    const { ledger, chance } = this.options;
    const { dispatch_id, run_id, step_id, attempt } = step;
    this.count(fate);
    const about = { dispatch_id, run_id, step_id, attempt };
    if (fate === "unknown" || fate === "silent") {
      ledger.mayHaveHappened(step);
      if (chance() < 0.5) ledger.perform(step);
    }
    if (fate === "silent") return void this.held.delete(dispatch_id);
    if (fate === "nonsense") this.say(held.via, { message: "result", result: { ...about, result_json: NONSENSE } });
    const answer: WorkerMessage =
      fate === "done" || fate === "nonsense"
        ? { message: "result", result: { ...about, result_json: ledger.perform(step) } }
        : {
            message: "failure",
            failure: {
              ...about,
              ...{ code: fate, message: "", retryable: fate !== "declined", outcome_unknown: fate === "unknown" },
            },
          };
    held.answer = answer;
    for (const { unanswered } of this.streams.values()) unanswered.delete(dispatch_id);
    const times = chance() < this.faults.twice ? 2 : 1;
    for (let nth = 0; nth < times; nth++) this.say(this.chosen(held.via), answer);
  }

  /** Mostly the stream that the step came on. */
  private chosen(stream: Stream): Stream {
    if (this.options.chance() >= this.faults.elsewhere) return stream;
    this.count("elsewhere");
    const open = [...this.streams.values()].filter(({ isOpen }) => isOpen);
    return open[Math.floor(this.options.chance() * open.length)] ?? stream;
  }

  private count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }
}

const NONSENSE = Buffer.from("[1, {");
