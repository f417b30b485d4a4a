// Mocks that repeat a run that has ended, made of what the API says of it. It asks no service.
import { repeatingMock } from "../../../../machines/index.js";
import type { Mock, Mocks } from "../../../../machines/rehearsal/mock.js";
import type { JsonObject } from "../../../../machines/values/json.js";
import { documentOf } from "./document.js";
import { type Mark, Outcomes } from "./outcomes.js";
import { RehearsalError } from "./rehearse.js";

/** As the client and `GET /api/v1/sagas/{id}` answer it, as far as it is read. */
export interface RecordedRun {
  readonly id: string;
  readonly definition_id: string;
  readonly state: string;
  readonly variables?: object | undefined;
  readonly parent_run_id?: string | undefined;
  readonly parent_step_id?: string | undefined;
  readonly error?: { readonly code: string; readonly message: string } | undefined;
}

/** As the client and `GET /api/v1/sagas/{id}/events` answer it. */
export interface RecordedEvent {
  readonly seq: number;
  readonly event_type: string;
  readonly attempt: number;
  readonly step_id?: string | undefined;
  readonly metadata?: object | undefined;
}

export interface Recorded {
  readonly run: RecordedRun;
  /** All of them, in their order. */
  readonly events: readonly RecordedEvent[];
}

export interface RepeatingMocks {
  readonly mocks: Mocks;
  /** What the records do not have, in sentences. Where it is the output of a step, its mock is `{ output: {} }`. */
  readonly missing: readonly string[];
}

interface Step {
  readonly id: string;
  readonly type: string;
  readonly save_as?: string | null;
}

/**
 * `workflow`: the document or saga of the run's version. `records`: the run, then its children, and those of branches and items. Of sub-sagas the
 * events are not needed: their steps are mocked by what they gave, or by the error that they failed with. The audit log has long outputs cut; such a one is taken from the variable of its step. Throws
 * RehearsalError unless the first one is a whole run that has ended.
 */
export function mocksFromRun(workflow: object, records: readonly Recorded[]): RepeatingMocks {
  const [root] = records;
  if (!root) throw new RehearsalError("the records have no run");
  const { id, state, parent_run_id: parent, definition_id: definition } = root.run;
  if (!ENDED.has(state)) throw new RehearsalError(`run ${id} is ${state}: only one that has ended can be repeated`);
  if (parent !== undefined)
    throw new RehearsalError(`run ${id} is a branch, an item or a sub-saga of ${parent}: begin with its root`);
  const { steps = [] } = documentOf(workflow) as { readonly steps?: readonly Step[] };
  const failures = records.flatMap(({ run }) => (run.definition_id !== definition && run.error ? [run] : []));
  const recorder = new Recorder(new Map(steps.map((step) => [step.id, step])), failures, undosAbove(records));
  for (const record of records) if (record.run.definition_id === definition) recorder.take(record);
  return recorder;
}

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

/** By run and step: the undos that a run above it has made. */
function undosAbove(records: readonly Recorded[]): ReadonlyMap<string, Map<string, number>> {
  const undos = new Map<string, Map<string, number>>();
  for (const { event_type, step_id = "", metadata } of records.flatMap(({ events }) => events)) {
    const { phase, child_run_id: child } = (metadata ?? {}) as JsonObject;
    if (event_type !== "step.started" || phase !== "compensation" || typeof child !== "string") continue;
    const ofChild = undos.get(child) ?? new Map<string, number>();
    undos.set(child, ofChild.set(step_id, (ofChild.get(step_id) ?? 0) + 1));
  }
  return undos;
}

class Recorder implements RepeatingMocks {
  readonly mocks: Record<string, Mock[]> = {};
  readonly missing: string[] = [];

  constructor(
    private readonly steps: ReadonlyMap<string, Step>,
    /** Sub-sagas that have failed, in their order. */
    private readonly failures: RecordedRun[],
    private readonly undos: ReadonlyMap<string, ReadonlyMap<string, number>>,
  ) {}

  take({ run, events }: Recorded): void {
    if (events[0]?.seq !== 1) this.missing.push(`the first audit events of run ${run.id}`);
    const outcomes = new Outcomes((step) =>
      this.missing.push(`which failures of ${step} may have happened: only some of its entries were undone`),
    );
    for (const event of events) {
      const metadata = (event.metadata ?? {}) as JsonObject;
      outcomes.see({ ...event, metadata }, this.add(run, event, metadata));
    }
    outcomes.close(this.undos.get(run.id) ?? new Map());
  }

  /** Adds the mock that repeats the event, if one does. Gives what marks it as a failure of unknown outcome. */
  private add(run: RecordedRun, event: RecordedEvent, metadata: JsonObject): Mark | undefined {
    const { step_id: id, event_type } = event;
    if (id === undefined || (event_type !== "step.succeeded" && event_type !== "step.failed")) return undefined;
    const isUndo = metadata.phase === "compensation";
    const type = isUndo ? undefined : (this.steps.get(id)?.type ?? "");
    const repeated = repeatingMock(type, { ...event, metadata });
    if (!repeated) return undefined;
    const { mock, lacks } = repeated;
    const key = isUndo ? `${id}~undo` : id;
    if (lacks !== undefined) this.missing.push(`${lacks} to ${key}`);
    const whole =
      "error" in mock && !isUndo && metadata.code === "child_failed"
        ? this.failureOf(run, id, mock)
        : "output" in mock && isCut(metadata)
          ? this.whole(key, run)
          : mock;
    const list = this.mocks[key] ?? [];
    const index = list.push(whole) - 1;
    this.mocks[key] = list;
    if (!("error" in whole)) return undefined;
    return () => {
      list[index] = { error: { ...whole.error, outcome_unknown: true } };
    };
  }

  /** What the child of a sub-saga failed with: the audit log of its parent says only that it failed. */
  private failureOf(run: RecordedRun, step: string, mock: Mock): Mock {
    const nth = this.failures.findIndex((child) => child.parent_run_id === run.id && child.parent_step_id === step);
    const [{ error } = {}] = nth < 0 ? [] : this.failures.splice(nth, 1);
    if (!error) this.missing.push(`the error of the child of ${step}: add the child to the records`);
    return error ? { error: { code: error.code, message: error.message } } : mock;
  }

  /** A variable has the latest output of its step, if no other step has set it since. */
  private whole(key: string, { variables = {} }: RecordedRun): Mock {
    const step = this.steps.get(key);
    const name = step && step.save_as !== null ? (step.save_as ?? step.id) : "";
    const variable = Object.hasOwn(variables, name) ? (variables as JsonObject)[name] : undefined;
    if (step === undefined || variable === undefined) {
      this.missing.push(`the output of ${key}: the audit log has it cut, and no variable has it. Complete its mock`);
      return { output: {} };
    }
    this.missing.push(
      `the output of ${key} was taken from its variable, because the audit log has it cut: an earlier entry may have had another`,
    );
    const event = { event_type: "step.succeeded", attempt: 1, metadata: { output: variable } };
    return repeatingMock(step.type, event)?.mock ?? { output: variable };
  }
}

const isCut = ({ truncated }: JsonObject): boolean => Array.isArray(truncated) && truncated.includes("output");
