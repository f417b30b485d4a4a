// The acts of an operator on a run, or on many in a bulk job: what each is called, what it will do, and what it asks for. Whether an act
// may be done now, the service says; nothing is sent here.
import type { OperatorActName } from "../../../machines/index.js";
import type { OperationId } from "../session/needs.js";

export type ActName = OperatorActName | "cancel" | "release" | "rerun" | "fork" | "signal" | "erase";

/** One run, or each run of a bulk job. */
export type Where = "run" | "bulk";

export interface Field {
  readonly name: string;
  readonly label: string;
  /** `object`: JSON that must be an object. */
  readonly kind: "text" | "number" | "json" | "object" | "check";
  readonly required?: true;
  /** Asked for there alone. */
  readonly only?: Where;
  readonly hint?: string;
}

export interface Act {
  readonly name: ActName;
  /** On one run, it is for those who may do this. */
  readonly needs: OperationId;
  readonly button: string;
  readonly title: string;
  /** What will happen to the run. */
  readonly words: string;
  readonly fields: readonly Field[];
  readonly isDangerous?: true;
  /** No bulk job does it. */
  readonly isAlone?: true;
  /** Nothing brings back what it takes: a person says in a word that it is meant. */
  readonly isForGood?: true;
}

const REASON: Field = { name: "reason", label: "Reason", kind: "text", hint: "It is kept in the audit log." };
const ORDINAL: Field = {
  ...{ name: "ordinal", label: "Number in the undo list", kind: "number" },
  hint: "Empty: the undo at which the rollback stands.",
};

export const ACTS: readonly Act[] = [
  {
    ...{ name: "retry_step", needs: "retrySagaStep", button: "Retry step", title: "Retry the step" },
    words:
      "The step is evaluated anew, with the variables as corrected here, and a new series of attempts begins at once. It keeps its idempotency key.",
    fields: [
      {
        name: "variables",
        label: "Corrected variables",
        kind: "object",
        hint: 'For example {"amount": 12}. Others stay. In an item of a foreach, its own name corrects the item.',
      },
    ],
  },
  {
    ...{ name: "skip_step", needs: "skipSagaStep", button: "Skip step", title: "Skip the step" },
    words:
      "The step counts as succeeded with this output, and the run goes on. If the run rolls back later, the step is undone like any other.",
    fields: [{ name: "output", label: "Output", kind: "json", hint: "JSON. Empty: null." }],
  },
  {
    ...{ name: "fail", needs: "failSaga", button: "Let it fail", title: "Let the step fail" },
    words:
      "The error takes its course: to a catch around the step, to the join or foreach of a child, or to a rollback of the run.",
    fields: [REASON],
    isDangerous: true,
  },
  {
    ...{ name: "compensations/retry", needs: "retrySagaCompensation", button: "Retry undo", title: "Retry the undo" },
    words: "The undo at which the rollback stands begins anew, with what is registered for its action now.",
    fields: [ORDINAL],
  },
  {
    ...{ name: "compensations/skip", needs: "skipSagaCompensation", button: "Skip undo", title: "Skip the undo" },
    words: "The undo counts as failed, the run is marked for a manual review, and the rollback goes on.",
    fields: [ORDINAL],
    isDangerous: true,
  },
  {
    ...{ name: "signal", needs: "signalSaga", button: "Send signal", title: "Send a signal" },
    words:
      "The run takes the signal if it waits for it, or one of its branches or items does. Otherwise it is kept for a later wait.",
    fields: [
      { name: "signal_name", label: "Signal", kind: "text", required: true },
      { name: "payload", label: "Payload", kind: "object", hint: "A JSON object. Empty: {}." },
    ],
  },
  {
    ...{ name: "pause", needs: "pauseSaga", button: "Pause", title: "Pause the run" },
    words: "The run and its children begin nothing new until they are resumed. What a worker has is not taken from it.",
    fields: [REASON],
  },
  {
    ...{ name: "resume", needs: "resumeSaga", button: "Resume", title: "Resume the run" },
    words: "The run and its children go on. Signals, submits and timeouts that came meanwhile take effect now.",
    fields: [REASON],
  },
  {
    ...{ name: "release", needs: "releaseSaga", button: "Release", title: "Release the run from quarantine" },
    words: "The run goes on. If it ends another trial process, it comes back to quarantine.",
    fields: [],
  },
  {
    ...{ name: "migrate", needs: "migrateSaga", button: "Migrate", title: "Move the run to another version" },
    words: "The run goes on under another published version of its workflow. What has begun goes on as it began.",
    fields: [
      { name: "version", label: "Version", kind: "number", required: true },
      { name: "steps", label: "Renamed steps", kind: "object", hint: 'Old id to new id, as {"hold": "wait"}.' },
    ],
  },
  {
    ...{ name: "rerun", needs: "rerunSaga", button: "Run again", title: "Run again" },
    words:
      "A new run of the same workflow begins, with the inputs that the run was started with unless you change them here.",
    fields: [
      { name: "version", label: "Version", kind: "number", hint: "Empty: the latest published one." },
      { name: "inputs", label: "Inputs", kind: "object", hint: "A JSON object. Empty: those of the run." },
      {
        name: "labels",
        label: "Labels",
        kind: "object",
        only: "bulk",
        hint: "A JSON object. Empty: those of the run.",
      },
    ],
  },
  {
    ...{ name: "fork", needs: "forkSaga", button: "Fork", title: "Fork the run from a step" },
    words:
      "A new run begins at a step at the top level, with the outputs before it, and owes the undo of what was done before it. This run, if it waits, is terminated at once.",
    fields: [
      { name: "step", label: "Step", kind: "text", required: true, hint: "The id of a step that the run has entered." },
      {
        name: "entry",
        label: "Entry",
        kind: "number",
        hint: "Of a step that was entered several times, from 1. Empty: the last.",
      },
      { name: "version", label: "Version", kind: "number", hint: "Empty: that of the run." },
      { name: "inputs", label: "Inputs", kind: "object", hint: "A JSON object. Empty: those of the run." },
      {
        ...{ name: "variables", label: "Variables", kind: "object" },
        hint: "A JSON object: all variables that the new run begins with. Empty: as they were at the step.",
      },
      {
        name: "assume_effects",
        label: "Effects before the step stand, or do not matter: inherit no undo",
        kind: "check",
      },
    ],
    isAlone: true,
  },
  {
    ...{ name: "cancel", needs: "cancelSaga", button: "Cancel", title: "Cancel the run" },
    words: "The run undoes its completed steps, the newest first, and then is cancelled.",
    fields: [REASON, { name: "skip_undo", label: "Undo nothing: end at once", kind: "check" }],
    isDangerous: true,
  },
  {
    ...{ name: "terminate", needs: "terminateSaga", button: "Terminate", title: "Terminate the run" },
    words:
      "The run ends without waiting for anything. What is still owed is not undone, and the run is marked for a manual review.",
    fields: [{ ...REASON, required: true }],
    isDangerous: true,
  },
];

/** In a bulk job alone: on its page, a run has a dialog for it. */
const ERASE: Act = {
  ...{ name: "erase", needs: "eraseSaga", button: "Erase", title: "Erase the run" },
  words:
    "The run is erased with its branches, items and sub-sagas, and with everything of them. This cannot be undone. A run that has not ended refuses, and so does a child: it is erased with its root.",
  fields: [],
  isDangerous: true,
  isForGood: true,
};

const BULK_ACTS: readonly Act[] = [...ACTS, ERASE];

/** Those of a bulk job, for a principal who may do them. */
export const bulkActsFor = (may: (operation: OperationId) => boolean): readonly Act[] =>
  BULK_ACTS.filter(({ needs, isAlone }) => !isAlone && may(needs));

/** Those that are possible, for a principal who may do them. */
export const actsFor = (
  isPossible: (name: ActName) => boolean,
  may: (operation: OperationId) => boolean,
): readonly Act[] => ACTS.filter(({ name, needs }) => isPossible(name) && may(needs));

/** The title of an act, by the name that the API has for it. */
export const actTitle = (name: string): string => BULK_ACTS.find((act) => act.name === name)?.title ?? name;

/** Those that the act asks for at one run, or in a bulk job. */
export const fieldsOf = ({ fields }: Act, where: Where): readonly Field[] =>
  fields.filter(({ only = where }) => only === where);
