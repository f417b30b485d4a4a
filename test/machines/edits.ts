// Random edits of a workflow document, as its author might make the next version of it: steps renamed, added, removed, wrapped, of another
// type, with other attributes.
import { compileWorkflow, type JsonObject, type Program } from "../../machines/index.js";
import type { StepDocument } from "./definitions.js";
import type { Random } from "./scheduler.js";

export interface Edited {
  readonly document: JsonObject;
  /** Steps that have another id after the edit. */
  readonly renamed: Readonly<Record<string, string>>;
}

interface Draft {
  steps: StepDocument[];
  start: string;
  head: Record<string, unknown>;
  renamed: Record<string, string>;
}

type Edit = (draft: Draft, at: StepDocument, random: Random) => void;

/** Every mention of a step's id, but not the `id` of the step itself. */
function redirect(draft: Draft, from: string, to: string | undefined): void {
  const aimed = (value: unknown): unknown => {
    if (value === from) return to;
    if (Array.isArray(value)) return value.map(aimed);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === "id" ? inner : aimed(inner)]));
  };
  draft.steps = draft.steps.map((step) => aimed(step) as StepDocument);
  if (draft.start === from && to !== undefined) draft.start = to;
}

/** In place, under its id. */
function replace(draft: Draft, step: StepDocument): void {
  draft.steps = draft.steps.map((each) => (each.id === step.id ? step : each));
}

const rename: Edit = (draft, { id }) => {
  const to = `${id}-2`;
  redirect(draft, id, to);
  draft.steps = draft.steps.map((step) => (step.id === id ? { ...step, id: to } : step));
  const [first = id] = Object.entries(draft.renamed).find(([, step]) => step === id) ?? [];
  draft.renamed[first] = to;
};

const renameMany: Edit = (draft, _, random) => {
  for (const step of draft.steps.filter(() => random() < 0.6)) rename(draft, step, random);
};

const insert: Edit = (draft, step) => {
  if (step.type === "parallel" || step.next === undefined) return;
  const id = `new-${draft.steps.length}`;
  replace(draft, { ...step, next: id });
  draft.steps.push({ id, type: "noop", next: step.next });
};

const insertCharge: Edit = (draft, step, random) => {
  insert(draft, step, random);
  const added = draft.steps.at(-1);
  if (added?.id.startsWith("new-"))
    replace(draft, { ...added, type: "action", action: "shop.charge", compensation: { action: "shop.notify" } });
};

const remove: Edit = (draft, { id, next }) => {
  draft.steps = draft.steps.filter((step) => step.id !== id);
  redirect(draft, id, next as string | undefined);
};

const retype: Edit = (draft, { id, next }) => {
  replace(draft, { id, type: "noop", ...(next !== undefined && { next }) });
};

const wrap: Edit = (draft, step) => {
  const id = `try-${draft.steps.length}`;
  const { next, ...inner } = step;
  redirect(draft, step.id, id);
  replace(draft, inner as StepDocument);
  const rescue = { id: `${id}-catch`, type: "noop" };
  draft.steps.push(
    { id, type: "try_catch", try: step.id, catch: rescue.id, ...(next !== undefined && { next }) },
    rescue,
  );
};

const withoutTimes: Edit = (draft, { timeout_ms: _, on_timeout: __, due_in_ms: ___, due_at: ____, ...step }) => {
  replace(draft, step as StepDocument);
};

const otherWait: Edit = (draft, step) => {
  if (step.type === "wait_for_signal") replace(draft, { ...step, signal_name: "other" });
  if (step.type === "wait_for_event") replace(draft, { ...step, match: "event.payload.n > 2" });
  if (step.type === "collect_input") replace(draft, { ...step, form_schema: { required: ["m"] } });
  if (step.type === "wait_duration") replace(draft, { ...step, duration_ms: 70 });
};

const otherAction: Edit = (draft, step) => {
  if (step.type === "action") replace(draft, { ...step, action: "shop.notify" });
};

const otherUndo: Edit = (draft, step, random) => {
  const { compensation: _, ...without } = step;
  replace(draft, (random() < 0.5 ? without : { ...step, compensation: { action: "shop.notify" } }) as StepDocument);
};

/** All compensations at once: what was done under the old version must not notice. */
const otherUndos: Edit = (draft, _, random) => {
  for (const step of draft.steps) otherUndo(draft, step, random);
};

const otherHead: Edit = (draft, _, random) => {
  draft.head = { ...draft.head, on_failure: random() < 0.5 ? "incident" : "rollback" };
};

/** With their weights. */
const EDITS: readonly (readonly [Edit, number])[] = [
  ...([[rename, 2] as const, [renameMany, 4], [insert, 2], [insertCharge, 2], [remove, 2], [retype, 2]] as const),
  ...([
    [wrap, 2] as const,
    [withoutTimes, 2],
    [otherWait, 2],
    [otherAction, 2],
    [otherUndos, 4],
    [otherHead, 3],
  ] as const),
];
const LOTS = EDITS.flatMap(([edit, weight]) => Array.from({ length: weight }, () => edit));

/** The document after some edits: those that would make it invalid are left out. */
export function edited({ document }: Program, random: Random): Edited {
  const { steps, start, ...head } = structuredClone(document) as JsonObject & { steps: StepDocument[]; start: string };
  let kept: Draft = { steps, start, head, renamed: {} };
  for (let count = Math.floor(random() * 4); count > 0; count--) {
    const draft = structuredClone(kept);
    const at = draft.steps[Math.floor(random() * draft.steps.length)] as StepDocument;
    (LOTS[Math.floor(random() * LOTS.length)] as Edit)(draft, at, random);
    if (compileWorkflow(documentOf(draft)).program) kept = draft;
  }
  return { document: documentOf(kept), renamed: kept.renamed };
}

function documentOf({ steps, start, head }: Draft): JsonObject {
  return { ...head, start, steps: steps as unknown as JsonObject[] } as JsonObject;
}
