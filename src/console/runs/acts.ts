// What can be done to many runs at once: the acts of a bulk job, in words, and what each asks for. It sends nothing.

export interface ActField {
  readonly name: string;
  readonly label: string;
  readonly kind: "text" | "number" | "flag" | "json";
  readonly isRequired?: boolean;
  /** What the service takes an absent flag for. */
  readonly isOn?: boolean;
}

export interface Act {
  readonly name: string;
  /** After "This will": what happens to each run. */
  readonly does: string;
  readonly fields: readonly ActField[];
}

const REASON: ActField = { name: "reason", label: "Reason", kind: "text" };
const VERSION: ActField = { name: "version", label: "Version", kind: "number" };
const ORDINAL: ActField = { name: "ordinal", label: "Only the undo with this ordinal", kind: "number" };

export const ACTS: readonly Act[] = [
  {
    name: "retry_step",
    does: "try the step that the run stands at again, at once",
    fields: [{ name: "variables", label: "Corrected variables (JSON object)", kind: "json" }],
  },
  {
    name: "skip_step",
    does: "take the step that the run stands at for done, and go on after it",
    fields: [{ name: "output", label: "Output of the step (JSON)", kind: "json" }],
  },
  { name: "fail", does: "let the step fail for good, so that the run takes its catch or rolls back", fields: [REASON] },
  { name: "compensations/retry", does: "try the undo that failed again", fields: [ORDINAL] },
  { name: "compensations/skip", does: "leave out the undo that failed, and roll back the rest", fields: [ORDINAL] },
  { name: "pause", does: "take no new step until the run is resumed", fields: [REASON] },
  { name: "resume", does: "go on, if an operator has paused the run", fields: [REASON] },
  {
    name: "cancel",
    does: "end the run",
    fields: [REASON, { name: "compensate", label: "Undo the completed steps first", kind: "flag", isOn: true }],
  },
  {
    name: "terminate",
    does: "end the run at once; what it still owes is not undone",
    fields: [{ ...REASON, isRequired: true }],
  },
  {
    name: "signal",
    does: "send the run a signal",
    fields: [
      { name: "signal_name", label: "Name of the signal", kind: "text", isRequired: true },
      { name: "payload", label: "Payload (JSON object)", kind: "json" },
    ],
  },
  {
    name: "rerun",
    does: "start the run again as a new one, if it has ended",
    fields: [
      VERSION,
      { name: "inputs", label: "Other inputs (JSON object)", kind: "json" },
      { name: "labels", label: "Other labels (JSON object)", kind: "json" },
    ],
  },
  {
    name: "migrate",
    does: "go on under another version of the workflow",
    fields: [
      { ...VERSION, isRequired: true },
      { name: "steps", label: "Steps that have another id there (JSON object)", kind: "json" },
    ],
  },
  { name: "release", does: "leave quarantine", fields: [] },
];

export type Params = Readonly<Record<string, unknown>>;

/** What the act can do without is left out. */
export const paramsOf = ({ fields }: Act, given: Params): Params =>
  Object.fromEntries(
    fields.flatMap(({ name }) => (given[name] === undefined || given[name] === "" ? [] : [[name, given[name]]])),
  );
