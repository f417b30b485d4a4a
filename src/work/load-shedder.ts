// The load shedder: whether this node accepts more work, decided before the work is read or stored. A refused request gets 503 and may
// be sent again; accepted work is finished. The shedder measures nothing itself, and reads and probes never ask it.
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import type { PressureSample } from "./pressure.js";

/** `new`: a start, a signal, a cancel … `answer`: a report about work in progress. It completes work, and is refused last. */
export type WorkKind = "new" | "answer";
export type Shortage = "runs" | "bodies" | "event_loop" | "heap";

export interface LoadLimits {
  /** Busy runs, and open requests whose body is whole. */
  readonly runs: number;
  /** Delay of the event loop. */
  readonly loopMs: number;
  /** Percent of the heap's limit. */
  readonly heapPercent: number;
  /** Bytes that have arrived of the bodies of open requests, of each kind. A single request is never too large. */
  readonly bodyBytes?: number;
}

export interface LoadShedderOptions {
  readonly limits: LoadLimits;
  /** Runs with commands, a load or a commit in progress. */
  readonly busyRuns: () => number;
  readonly pressure: () => PressureSample;
  readonly metrics: Pick<Metrics, "loadShed" | "overloaded">;
  readonly log: Logger;
}

/** A request that was accepted: what has arrived of its body counts from then on, the request itself once its body is whole. */
export interface AdmittedWork {
  /** So many bytes more have arrived. Throws 503 if the bodies of others leave no room for them. */
  receive(bytes: number): void;
  /** The work begins. Throws 503 if too much is in progress. */
  begin(): void;
  /** The work is done, or given up. A repeat changes nothing. */
  release(): void;
}

const BODY_BYTES = 64 * 1024 * 1024;
/** Answers are refused at this multiple of the limit for new work. */
const ANSWER_FACTOR = 4;
/** Hysteresis: shedding ends well below the point where it began. */
const RECOVERED = 0.5;
const HEAP_RECOVERED_PERCENT = 10;

/** What an accepted request holds. */
interface Held {
  bytes: number;
  requests: number;
}

export class LoadShedder {
  private requests = 0;
  /** Workers' answers have a budget of their own: other requests cannot fill it. */
  private readonly bytes: Record<WorkKind, number> = { new: 0, answer: 0 };
  private shortage: Shortage | undefined;

  constructor(private readonly options: LoadShedderOptions) {}

  /** Why new work is refused now; undefined: it is accepted. */
  get shedding(): Shortage | undefined {
    this.update();
    return this.shortage;
  }

  /** Accepts a request before its body is read. Throws 503. */
  admit(kind: WorkKind): AdmittedWork {
    const shortage = kind === "new" ? this.shedding : this.answerShortage();
    if (shortage) throw this.refusal(shortage);
    const held: Held = { bytes: 0, requests: 0 };
    return {
      receive: (bytes) => this.receive(kind, held, bytes),
      begin: () => this.begin(kind, held),
      release: () => {
        this.bytes[kind] -= held.bytes;
        this.requests -= held.requests;
        Object.assign(held, { bytes: 0, requests: 0 });
      },
    };
  }

  private receive(kind: WorkKind, held: Held, bytes: number): void {
    held.bytes += bytes;
    this.bytes[kind] += bytes;
    if (this.bytes[kind] - held.bytes >= this.bodyLimit) throw this.refusal("bodies");
  }

  private begin(kind: WorkKind, held: Held): void {
    if (held.requests === 1) return;
    if (this.load >= this.options.limits.runs * (kind === "new" ? 1 : ANSWER_FACTOR)) throw this.refusal("runs");
    held.requests = 1;
    this.requests++;
  }

  /** The error to answer with; counts it. */
  refusal(shortage: Shortage): Error {
    this.options.metrics.loadShed.inc({ shortage });
    return overloaded(`the node is overloaded (${shortage}); send the request again later`);
  }

  /** Starts or ends shedding, and sets the gauge. Called periodically too: the state must change when no request asks. */
  update(): void {
    const before = this.shortage;
    this.shortage = before ? this.ongoingShortage(before) : this.shortageAt(1);
    if (this.shortage === before) return;
    const { metrics, log, pressure } = this.options;
    metrics.overloaded.set(this.shortage ? 1 : 0);
    const state = { runs: this.load, requestBytes: this.bytes.new, ...pressure(), shortage: this.shortage ?? before };
    log.warn(state, this.shortage ? "shedding load" : "accepting load again");
  }

  private get bodyLimit(): number {
    return this.options.limits.bodyBytes ?? BODY_BYTES;
  }

  private get load(): number {
    return Math.max(this.requests, this.options.busyRuns());
  }

  /** The first shortage at this share of the limits. */
  private shortageAt(share: number): Shortage | undefined {
    const { runs, loopMs, heapPercent } = this.options.limits;
    const { heap, loopMs: delay } = this.options.pressure();
    const heapLimit = share === 1 ? heapPercent : heapPercent - HEAP_RECOVERED_PERCENT;
    if (this.load >= runs * share) return "runs";
    if (this.bytes.new >= this.bodyLimit * share) return "bodies";
    if (delay >= loopMs * share) return "event_loop";
    return heap * 100 >= heapLimit ? "heap" : undefined;
  }

  private ongoingShortage(before: Shortage): Shortage | undefined {
    return this.shortageAt(RECOVERED) && (this.shortageAt(1) ?? before);
  }

  private answerShortage(): Shortage | undefined {
    this.update();
    if (this.shortage === "heap") return this.shortage;
    if (this.bytes.answer >= this.bodyLimit) return "bodies";
    return this.load >= this.options.limits.runs * ANSWER_FACTOR ? "runs" : undefined;
  }
}
