// Admission: whether this node takes on more work, said before anything of it is read or stored. What is refused hears 503
// and may come again; what is taken on is finished. It measures nothing itself, and reads and probes never ask it.
import { overloaded } from "../errors.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics.js";
import type { PressureSample } from "../pressure.js";

/** `new`: a start, a signal, a cancel … `answer`: a report on work that is under way; it ends work, and is refused last. */
export type WorkKind = "new" | "answer";
export type Shortage = "runs" | "bodies" | "event_loop" | "heap";

export interface AdmissionLimits {
  /** Runs and requests in hand. */
  readonly runs: number;
  /** Lateness of the event loop. */
  readonly loopMs: number;
  /** Of the heap's limit, in percent. */
  readonly heapPercent: number;
  /** Bytes of the bodies of requests in hand. One request alone is never too large. */
  readonly bodyBytes?: number;
}

export interface AdmissionOptions {
  readonly limits: AdmissionLimits;
  /** Runs in hand: each with commands, a load or a commit under way. */
  readonly runsInHand: () => number;
  readonly pressure: () => PressureSample;
  readonly metrics: Pick<Metrics, "loadShed" | "overloaded">;
  readonly log: Logger;
}

const BODY_BYTES = 64 * 1024 * 1024;
/** Answers are refused at this many times the runs in hand at which new work is. */
const ANSWERS = 4;
/** Once it sheds, it goes on until it is well below what made it begin: it does not flicker. */
const RECOVERED = 0.5;
const HEAP_RECOVERED_PERCENT = 10;

export class Admission {
  private requests = 0;
  private bytes = 0;
  private shortage: Shortage | undefined;

  constructor(private readonly options: AdmissionOptions) {}

  /** Why new work is refused now; undefined: it is not. */
  get shedding(): Shortage | undefined {
    this.look();
    return this.shortage;
  }

  /** Takes on a request of so many bytes; what it answers gives the place back, once. Throws 503 `overloaded`. */
  admit(kind: WorkKind, bytes = 0): () => void {
    const refused = kind === "new" ? this.shedding : this.refusesAnswers();
    if (refused) throw this.refusal(refused);
    this.requests++;
    this.bytes += bytes;
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.requests--;
      this.bytes -= bytes;
    };
  }

  /** Counts it. */
  refusal(shortage: Shortage): Error {
    this.options.metrics.loadShed.inc({ shortage });
    return overloaded(`the node is overloaded (${shortage}); send it again later`);
  }

  /** Sets the gauge; the state changes also where nobody asks any more. */
  look(): void {
    const before = this.shortage;
    this.shortage = before ? this.still(before) : this.found(1);
    if (this.shortage === before) return;
    const { metrics, log, pressure } = this.options;
    metrics.overloaded.set(this.shortage ? 1 : 0);
    const about = { runs: this.inHand, requestBytes: this.bytes, ...pressure(), shortage: this.shortage ?? before };
    log.warn(about, this.shortage ? "load is shed" : "load is taken on again");
  }

  private get inHand(): number {
    return Math.max(this.requests, this.options.runsInHand());
  }

  /** The first of what is short, at `share` of the limits. */
  private found(share: number): Shortage | undefined {
    const { runs, loopMs, heapPercent, bodyBytes = BODY_BYTES } = this.options.limits;
    const { heap, loopMs: late } = this.options.pressure();
    const heapLimit = share === 1 ? heapPercent : heapPercent - HEAP_RECOVERED_PERCENT;
    if (this.inHand >= runs * share) return "runs";
    if (this.bytes >= bodyBytes * share) return "bodies";
    if (late >= loopMs * share) return "event_loop";
    return heap * 100 >= heapLimit ? "heap" : undefined;
  }

  private still(before: Shortage): Shortage | undefined {
    return this.found(RECOVERED) && (this.found(1) ?? before);
  }

  private refusesAnswers(): Shortage | undefined {
    this.look();
    if (this.shortage === "heap" || this.shortage === "bodies") return this.shortage;
    return this.inHand >= this.options.limits.runs * ANSWERS ? "runs" : undefined;
  }
}
