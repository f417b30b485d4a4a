// What a worker does that opens no stream to a node, whatever brings it its steps: it does a step once, remembers what came of each dispatch, and reports over
// the API until a node has recorded it. It shares the ledger with the workers of the streams.
import type { Command } from "../../../machines/index.js";
import { asRunId, parseDispatchId } from "../../../machines/index.js";
import { EVERYTHING } from "../../../src/access/index.js";
import { SagaError } from "../../../src/errors.js";
import { type Cluster, isUnavailable } from "../cluster.js";
import { turnOf } from "../trouble/faults.js";
import type { Chance } from "../world/world.js";
import type { StepAsked } from "./stream-worker.js";

/** The members of the message of a step that a worker looks at. */
export interface Message extends StepAsked {
  readonly dispatch_id: string;
  readonly step_id: string;
  readonly attempt: number;
  readonly service: string;
  readonly action: string;
  readonly callback_url: string;
  readonly deadline_at: string;
}

/** What comes of a dispatch. */
type Fate = "done" | "refused" | "declined" | "unknown";

export interface PushWorkerFaults {
  readonly pushRefused: number;
  readonly pushDeclined: number;
  readonly pushUnknown: number;
  readonly slowWork: number;
  /** What is to be reported is reported twice. */
  readonly reportedTwice: number;
}

export const NO_PUSH_WORKER_FAULTS: PushWorkerFaults = {
  ...{ pushRefused: 0, pushDeclined: 0, pushUnknown: 0, slowWork: 0, reportedTwice: 0 },
};

export type Answer =
  | { readonly result: { readonly receipt: string } }
  | {
      readonly error: {
        readonly code: string;
        readonly message: string;
        readonly retryable: boolean;
        readonly outcome_unknown: boolean;
      };
    };

const FATES = { pushRefused: "refused", pushDeclined: "declined", pushUnknown: "unknown", none: "done" } as const;
const WORK_MS = 40;
const SLOW_MS = 8_000;
const AGAIN_MS = 500;

export class PushWorker {
  faults: PushWorkerFaults = NO_PUSH_WORKER_FAULTS;
  readonly seen: Record<string, number> = {};
  /** By dispatch. It arrives again: it is answered again. */
  private readonly fates = new Map<string, Fate>();
  private reporting = 0;

  constructor(
    private readonly cluster: Cluster,
    private readonly chance: Chance,
  ) {}

  /** Reports that no node has recorded yet. */
  get isReporting(): boolean {
    return this.reporting > 0;
  }

  /** The dispatch has come before. */
  knows(dispatchId: string): boolean {
    return this.fates.has(dispatchId);
  }

  /** A step has come. What comes of it is told after a while. */
  take(step: Message, told: (answer: Answer) => void = () => {}): void {
    const { world, ledger } = this.cluster;
    const { dispatch_id: id } = step;
    ledger.note(step);
    const fate = this.fates.get(id) ?? this.fateOf(step);
    this.fates.set(id, fate);
    const ms = this.chance() < this.faults.slowWork ? this.chance() * SLOW_MS : this.chance() * WORK_MS;
    world.later(ms, () => told(this.outcome(step, fate)), null);
  }

  /** Again until a node has answered. */
  async report(step: Message, answer: Answer): Promise<void> {
    const times = this.chance() < this.faults.reportedTwice ? 2 : 1;
    this.reporting++;
    try {
      await Promise.all(Array.from({ length: times }, () => this.reported(step, answer)));
    } catch (error) {
      this.cluster.ledger.broken.push(`a report of ${step.dispatch_id}: ${error}`);
    } finally {
      this.reporting--;
    }
  }

  private fateOf({ phase, idempotency_key: key }: Message): Fate {
    if (phase === "COMPENSATION" || this.cluster.ledger.resultOf(key)) return "done";
    return FATES[turnOf(this.chance(), this.faults, ["pushRefused", "pushDeclined", "pushUnknown"]) ?? "none"];
  }

  private outcome(step: Message, fate: Fate): Answer {
    const { ledger } = this.cluster;
    this.count(`${step.service} ${fate}`);
    if (fate === "unknown") {
      ledger.mayHaveHappened(step);
      if (this.chance() < 0.5) ledger.perform(step);
    }
    if (fate === "done") return { result: JSON.parse(ledger.perform(step).toString()) };
    const [retryable, outcome_unknown] = [fate !== "declined", fate === "unknown"];
    return { error: { code: fate, message: "", retryable, outcome_unknown } };
  }

  private async reported(step: Message, answer: Answer): Promise<void> {
    const { cluster } = this;
    const command = commandOf(step, answer);
    while (true) {
      const answered = await cluster.ask((core) => {
        const arrivedAt = core.foundations.clock.now();
        return core.router.command(asRunId(step.run_id), { ...command, arrivedAt }, { reach: EVERYTHING });
      });
      if (answered && "value" in answered) {
        const { value } = answered;
        if (value.type === "report" && !value.stale) cluster.ledger.recorded.add(step.dispatch_id);
        return;
      }
      if (answered && cluster.losses > 0 && isGone(answered.error)) return;
      if (answered && !isUnavailable(answered.error)) throw answered.error;
      this.count("reported again");
      await cluster.sleep(AGAIN_MS * (0.5 + this.chance()));
    }
  }

  private count(what: string): void {
    this.seen[what] = (this.seen[what] ?? 0) + 1;
  }
}

/** As the API makes it of the body of a report. */
function commandOf(step: Message, answer: Answer): Command<"result" | "failure"> {
  const dispatch = {
    stepId: step.step_id,
    attempt: step.attempt,
    dispatchId: parseDispatchId(step.dispatch_id),
    actor: "api",
  };
  if ("result" in answer) return { ...dispatch, type: "result", result: { ...answer.result } };
  const { outcome_unknown: outcomeUnknown, ...error } = answer.error;
  return { ...dispatch, type: "failure", ...error, outcomeUnknown };
}

/** The store has forgotten the run. */
const isGone = (error: unknown): boolean => error instanceof SagaError && error.status === 404;

/** The message as it was sent, in JSON. */
export function messageOf(body: string): Message {
  return { forward_idempotency_key: "", ...(JSON.parse(body) as Omit<Message, "forward_idempotency_key">) };
}
