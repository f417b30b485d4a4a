// The edges that a run took, read from its audit rows. The rows name steps and how they ended; the chart has the edges between
// them. No row names an edge, so one of several with the same source and target is as good as another.
import type { AuditType } from "../messages/audit.js";
import type { RunState } from "../state/lifecycle.js";
import type { JsonObject } from "../values/json.js";
import { type ChartGraph, isReturn, type StateEdge, statePathOf } from "./graph.js";

/** What the trace needs of an audit row. */
export interface TracedRow {
  readonly type: AuditType;
  readonly to: RunState;
  readonly stepId?: string | undefined;
  readonly metadata?: JsonObject | undefined;
}

export interface Move {
  /** Absent: rows are missing, or another version of the workflow wrote them; the run is there all the same. */
  readonly label?: string;
  /** Where it leads: the path of a state. */
  readonly path: string;
}

type StepOutcome = "entered" | "succeeded" | "skipped" | "failed";

/** A step has ended of which it is not certain that the run came to it: a container may be closed from inside. */
interface Visit {
  readonly path: string;
  readonly outcome: StepOutcome;
  /** It was cut off together with what is in it. */
  readonly cut: boolean;
}

/** Blocks nest ten deep. */
const MAX_VISITS = 12;

const OUTCOMES: Partial<Record<AuditType, StepOutcome>> = {
  "step.succeeded": "succeeded",
  "step.skipped": "skipped",
  "step.failed": "failed",
};

const ENDS: Partial<Record<AuditType, string>> = {
  "run.succeeded": "succeeded",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
};

/** The edges that an outcome leads to, in the order in which they are tried. All others come after them. */
const LIKELY: Readonly<Record<StepOutcome, RegExp>> = {
  entered: /^(begin\.|try$|while$|catch)/,
  succeeded: /^(next$|branch\.|case\.|default$|done\.|timeout$)/,
  skipped: /^(skip$|done\.)/,
  failed: /^(continue$|error$|raise\.)/,
};

/** The edges on which a run leaves a container without a row: it went into the next round, or to its catch. */
const SILENT = /^(while|catch$|raise\.)/;

export class Trace {
  private at = "pending";
  private outcome: StepOutcome = "entered";
  private visits: Visit[] = [];

  /** `begin`: the edge along which the run begins, if it is known. */
  constructor(
    private readonly graph: ChartGraph,
    private begin = "",
  ) {}

  get path(): string {
    return this.at;
  }

  /** The moves that the row shows, in their order. Never throws: it may be given rows of any run. */
  take(row: TracedRow): readonly Move[] {
    const { type, to, stepId, metadata } = row;
    const end = ENDS[type];
    if (end !== undefined) return this.goTo(end);
    if (type === "saga.started") this.begins(metadata);
    if (metadata?.phase === "compensation") return [];
    if (type === "compensation.started" || to === "compensating") return this.isActive ? this.goTo("undoing") : [];
    const path = stepId === undefined ? undefined : statePathOf(stepId);
    if (path === undefined || !this.graph.has(path) || !this.mayMove) return [];
    return this.atStep(row, path);
  }

  /** The run is known to be there, whatever its rows say. */
  jump(path: string): readonly Move[] {
    return path === this.at ? [] : this.arrived([{ path }], path);
  }

  private get isActive(): boolean {
    return this.at.startsWith("active.");
  }

  private get mayMove(): boolean {
    return this.isActive || this.at === "pending";
  }

  private begins({ entrypoint }: JsonObject = {}): void {
    if (this.begin === "") this.begin = `begin.${entrypoint || "default"}`;
  }

  private atStep({ type, metadata = {} }: TracedRow, path: string): readonly Move[] {
    if (type === "step.started") return this.isEntered(path) ? [] : this.goTo(path);
    const outcome = OUTCOMES[type];
    if (outcome === undefined) return type === "step.paused" || type === "step.dispatched" ? this.visit(path) : [];
    // The step stays open: it is tried again, or a person decides.
    if (metadata.will_retry === true || metadata.incident !== undefined) return this.visit(path);
    if (this.visits.length === 0 && path === this.at) {
      this.outcome = outcome;
      return [];
    }
    if (this.graph.isContainer(path)) {
      this.visits = [...this.visits, { path, outcome, cut: isCut(metadata) }].slice(-MAX_VISITS);
      return [];
    }
    const moves = this.visit(path);
    this.outcome = outcome;
    return moves;
  }

  private isEntered(path: string): boolean {
    return path === this.at && this.outcome === "entered" && this.visits.length === 0;
  }

  private visit(path: string): readonly Move[] {
    return path === this.at ? [] : this.goTo(path);
  }

  private goTo(target: string): readonly Move[] {
    if (target === this.at && !this.isActive) return [];
    const way = this.through({ path: this.at, outcome: this.outcome }, this.visits, target);
    return this.arrived(way ?? (this.graph.has(target) ? [{ path: target }] : []), target);
  }

  private arrived(moves: readonly Move[], target: string): readonly Move[] {
    if (moves.length > 0) this.at = target;
    this.outcome = "entered";
    this.visits = [];
    return moves;
  }

  /** The moves to the target by way of the steps that ended on the way, or past those that were closed from inside. */
  private through(
    from: Pick<Visit, "path" | "outcome">,
    [visit, ...later]: readonly Visit[],
    target: string,
  ): readonly Move[] | undefined {
    if (!visit) return this.wayTo(from, target);
    const past = () => this.through(from, later, target);
    const by = () => {
      const way = this.wayTo(from, visit.path, visit.outcome);
      const rest = way && this.through(visit, later, target);
      return way && rest && [...way, ...rest];
    };
    return this.isClosed(from, visit, target) ? (past() ?? by()) : (by() ?? past());
  }

  /** Whether the container ended with what is in it: by a cancel, or by an `end` inside. */
  private isClosed({ path, outcome }: Pick<Visit, "path" | "outcome">, { cut }: Visit, target: string): boolean {
    if (target !== "succeeded") return cut && !isStep(target);
    return outcome === "succeeded" && this.graph.from(path).some((edge) => edge.target === target);
  }

  /** One edge, or several through containers that write no row then. `then`: what becomes of the target. */
  private wayTo(
    { path, outcome }: Pick<Visit, "path" | "outcome">,
    target: string,
    then: StepOutcome = "entered",
  ): readonly Move[] | undefined {
    const edges = this.ranked(path, outcome, then);
    const direct = edges.find((edge) => edge.target === target);
    if (direct) return [asMove(direct)];
    for (const edge of edges.filter(({ label }) => isReturn(label))) {
      const silent = this.silently(edge.target, target);
      if (silent) return [asMove(edge), ...silent];
    }
    return undefined;
  }

  private silently(container: string, target: string): readonly Move[] | undefined {
    const edges = this.graph.from(container);
    const direct = edges.find((edge) => edge.target === target && (SILENT.test(edge.label) || !isStep(target)));
    return direct && [asMove(direct)];
  }

  private ranked(path: string, outcome: StepOutcome, then: StepOutcome): readonly StateEdge[] {
    const rank = ({ label }: StateEdge) => {
      if (label === this.begin) return -1;
      if (outcome === "failed" && then === "failed" && label.startsWith("raise.")) return -1;
      return LIKELY[outcome].test(label) ? 0 : 1;
    };
    return [...this.graph.from(path)].sort((left, right) => rank(left) - rank(right));
  }
}

const isStep = (path: string): boolean => path.startsWith("active.");

const asMove = ({ label, target }: StateEdge): Move => ({ label, path: target });

/** Whether a cancel or the end of the run's time cut it off: no error came out of it. */
function isCut({ code, message }: JsonObject): boolean {
  if (code === "cancelled") return message !== "the try around it timed out";
  return code === "timeout" && message === "the run did not end in time";
}
