// Which steps of a definition are run by children: the branches of a parallel and the items of a foreach. Blocks that the run itself
// executes are ways of its chart and need no such list.
import type { Chart } from "../../../machines/index.js";

/** A step as it is posted. Its attributes may stand in `inputs`. */
export type StepDocument = Readonly<Record<string, unknown>>;

/** The container whose children run a step. */
export interface BlockOwner {
  readonly container: string;
  /** The step that waits for the children: the join, or the foreach itself. */
  readonly waits: string;
}

export interface ChildBlock {
  readonly name: string;
  readonly start: string;
}

export function childBlocks(step: StepDocument): readonly ChildBlock[] {
  if (step.type === "foreach") return blockFrom("each item", attribute(step, "body"));
  if (step.type !== "parallel") return [];
  const branches = attribute(step, "branches");
  if (typeof branches !== "object" || branches === null) return [];
  return Object.entries(branches).flatMap(([name, branch]) =>
    blockFrom(name, (branch as { next?: unknown } | null)?.next),
  );
}

const blockFrom = (name: string, start: unknown): ChildBlock[] =>
  typeof start === "string" && start !== "" ? [{ name, start }] : [];

function attribute(step: StepDocument, name: string): unknown {
  return step[name] ?? (step.inputs as StepDocument | undefined)?.[name];
}

/** By step: the innermost container whose children run it. Blocks share no steps, so each has one. */
export function blockOwners(
  chart: Chart,
  steps: readonly StepDocument[],
  ids: ReadonlyMap<string, string>,
): ReadonlyMap<string, BlockOwner> {
  const documents = new Map(steps.map((step) => [String(step.id), step]));
  const targets = targetsOf(chart, ids);
  const owners = new Map<string, BlockOwner>();
  const open = steps.flatMap((step) => startsOf(step));
  // An outer block does not reach into an inner one, because no edge of the chart enters it: each start is walked by itself.
  for (let next = open.pop(); next; next = open.pop()) {
    const { step, owner } = next;
    if (owners.has(step) || step === owner.waits || step === owner.container || !documents.has(step)) continue;
    owners.set(step, owner);
    open.push(...(targets.get(step) ?? []).map((to) => ({ step: to, owner })));
  }
  return owners;
}

function startsOf(step: StepDocument): { step: string; owner: BlockOwner }[] {
  const container = String(step.id);
  const waits = step.type === "parallel" && typeof step.next === "string" ? step.next : container;
  return childBlocks(step).map(({ start }) => ({ step: start, owner: { container, waits } }));
}

function targetsOf(chart: Chart, ids: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(chart.states.active.states).map(([key, { on }]) => [
      ids.get(key) ?? key,
      Object.values(on ?? {}).flatMap(({ target }) => ids.get(target) ?? []),
    ]),
  );
}
