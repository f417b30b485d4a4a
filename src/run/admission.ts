// Admission: whether this node accepts more work, decided before the work is read or stored. A refused request gets 503 and may
// be sent again; accepted work is finished. Admission measures nothing itself, and reads and probes never ask it.
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import type { PressureSample } from "../pressure.js";

/** `new`: a start, a signal, a cancel … `answer`: a report about work in progress. It completes work, and is refused last. */
export type WorkKind = "new" | "answer";
export type Shortage = "runs" | "bodies" | "event_loop" | "heap";

export interface AdmissionLimits {
  /** Busy runs, and open requests. */
  readonly runs: number;
  /** Delay of the event loop. */
  readonly loopMs: number;
  /** Percent of the heap's limit. */
  readonly heapPercent: number;
  /** Bytes in the bodies of open requests. A single request is never too large. */
  readonly bodyBytes?: number;
}

export interface AdmissionOptions {
  readonly limits: AdmissionLimits;
  /** Runs with commands, a load or a commit in progress. */
  readonly busyRuns: () => number;
  readonly pressure: () => PressureSample;
  readonly metrics: Pick<Metrics, "loadShed" | "overloaded">;
  readonly log: Logger;
}

const BODY_BYTES = 64 * 1024 * 1024;
/** Answers are refused at this multiple of the limit for new work. */
const ANSWER_FACTOR = 4;
/** Hysteresis: shedding ends well below the point where it began. */
const RECOVERED = 0.5;
const HEAP_RECOVERED_PERCENT = 10;

export class Admission {
  private requests = 0;
  private bytes = 0;
  private shortage: Shortage | undefined;

  constructor(private readonly options: AdmissionOptions) {}

  /** Why new work is refused now; undefined: it is accepted. */
  get shedding(): Shortage | undefined {
    this.update();
    return this.shortage;
  }

  /** Accepts a request with a body of so many bytes. Call the returned function when the request is done. Throws 503. */
  admit(kind: WorkKind, bytes = 0): () => void {
    const shortage = kind === "new" ? this.shedding : this.answerShortage();
    if (shortage) throw this.refusal(shortage);
    this.requests++;
    this.bytes += bytes;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.requests--;
      this.bytes -= bytes;
    };
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
    const state = { runs: this.load, requestBytes: this.bytes, ...pressure(), shortage: this.shortage ?? before };
    log.warn(state, this.shortage ? "shedding load" : "accepting load again");
  }

  private get load(): number {
    return Math.max(this.requests, this.options.busyRuns());
  }

  /** The first shortage at this share of the limits. */
  private shortageAt(share: number): Shortage | undefined {
    const { runs, loopMs, heapPercent, bodyBytes = BODY_BYTES } = this.options.limits;
    const { heap, loopMs: delay } = this.options.pressure();
    const heapLimit = share === 1 ? heapPercent : heapPercent - HEAP_RECOVERED_PERCENT;
    if (this.load >= runs * share) return "runs";
    if (this.bytes >= bodyBytes * share) return "bodies";
    if (delay >= loopMs * share) return "event_loop";
    return heap * 100 >= heapLimit ? "heap" : undefined;
  }

  private ongoingShortage(before: Shortage): Shortage | undefined {
    return this.shortageAt(RECOVERED) && (this.shortageAt(1) ?? before);
  }

  private answerShortage(): Shortage | undefined {
    this.update();
    if (this.shortage === "heap" || this.shortage === "bodies") return this.shortage;
    return this.load >= this.options.limits.runs * ANSWER_FACTOR ? "runs" : undefined;
  }
}
