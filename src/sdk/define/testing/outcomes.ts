// Which failures of a run were of unknown outcome. The audit log does not say it of an attempt, but a step that failed is undone only if it may have
// happened. It reads events, and makes no mocks.
import type { JsonObject } from "../../../../machines/values/json.js";

interface SeenEvent {
  readonly event_type: string;
  readonly step_id?: string | undefined;
  readonly attempt: number;
  readonly metadata: JsonObject;
}

/** Makes the mock of a failure say that its outcome was unknown. */
export type Mark = () => void;

/** A step entry. */
interface Entry {
  /** It is on the undo list for certain: it succeeded, or an attempt was not answered. */
  isSure: boolean;
  /** Of its last failure. */
  mark?: Mark | undefined;
}

interface Step {
  /** The entry that is not over. */
  current: Entry;
  /** Those that are over and not undone, the newest last. */
  over: Entry[];
  /** Undos since the last entry was over. */
  undos: number;
}

const UNANSWERED: ReadonlySet<unknown> = new Set(["timeout", "heartbeat_timeout"]);

/** Of one run. */
export class Outcomes {
  private readonly steps = new Map<string, Step>();
  private rollsBack = false;

  /** `unclear` is called with a step of which some failures were undone, and nothing says which. */
  constructor(private readonly unclear: (step: string) => void) {}

  /** The events in their order. `mark`: of the mock that was made of this one. */
  see({ event_type: type, step_id: id, attempt, metadata }: SeenEvent, mark?: Mark): void {
    if (type === "compensation.started") this.rollsBack = true;
    if (id === undefined) return;
    if (metadata.phase === "compensation") {
      if (type === "step.started" && metadata.child_run_id === undefined) this.stepOf(id).undos++;
    } else if (type === "step.succeeded" || type === "step.failed") {
      const step = this.stepOf(id);
      const { current } = step;
      if (mark) current.mark = mark;
      if (type === "step.succeeded" || (attempt > 0 && UNANSWERED.has(metadata.code))) current.isSure = true;
      if (metadata.will_retry === true || metadata.incident === true) return;
      this.settle(id, step, this.rollsBack);
      step.over.push(current);
      step.current = { isSure: false };
    }
  }

  /** `handed`: the undos of its steps by the runs above it, which its list was handed over to. */
  close(handed: ReadonlyMap<string, number>): void {
    for (const [id, step] of this.steps) {
      this.settle(id, step, this.rollsBack);
      step.undos = handed.get(id) ?? 0;
      this.settle(id, step, true);
    }
  }

  private stepOf(id: string): Step {
    const step = this.steps.get(id) ?? { current: { isSure: false }, over: [], undos: 0 };
    this.steps.set(id, step);
    return step;
  }

  /** `isWhole`: all that is on the undo list was undone. The rollback of a try undoes the newest entries. */
  private settle(id: string, step: Step, isWhole: boolean): void {
    const { over, undos } = step;
    if (undos === 0) return;
    const unsure = over.filter(({ isSure }) => !isSure);
    const sure = over.length - unsure.length;
    if (undos >= over.length) for (const { mark } of unsure) mark?.();
    else if (over.slice(-undos).some(({ isSure }) => !isSure) && !(isWhole && undos === sure)) this.unclear(id);
    step.over = over.slice(0, -undos);
    step.undos = 0;
  }
}
