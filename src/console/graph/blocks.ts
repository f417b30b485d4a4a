// Which steps of a definition are run by children: branches and items. Blocks that the run itself executes are ways of its chart and need no
// such list.
import { attributesIn, namesAt } from "../../../machines/attribute/mention.js";
import type { Chart, StepBook } from "../../../machines/index.js";

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

export function childBlocks(step: StepDocument, types: StepBook): readonly ChildBlock[] {
  const block = types.get(String(step.type))?.block;
  if (!block || !(block.kind in CHILD_NAMES)) return [];
  return namesAt(attributesIn(step), block.starts)
    .filter(({ name }) => name !== "")
    .map(({ name: start, at }) => ({ name: CHILD_NAMES[block.kind] ?? String(at.at(-2)), start }));
}

/** Blocks that are runs of their own, by kind. A branch has a name of its own, the member above its first step. */
const CHILD_NAMES: Readonly<Record<string, string | undefined>> = { branch: undefined, item: "each item" };

/** The innermost container whose children run a step, by step. Blocks share no steps, so each has one. */
export function blockOwners(
  chart: Chart,
  steps: readonly StepDocument[],
  ids: ReadonlyMap<string, string>,
  types: StepBook,
): ReadonlyMap<string, BlockOwner> {
  const documents = new Map(steps.map((step) => [String(step.id), step]));
  const targets = targetsOf(chart, ids);
  const owners = new Map<string, BlockOwner>();
  const open = steps.flatMap((step) => startsOf(step, types));
  // An outer block does not reach into an inner one, because no edge of the chart enters it: each start is walked by itself.
  for (let next = open.pop(); next; next = open.pop()) {
    const { step, owner } = next;
    if (owners.has(step) || step === owner.waits || step === owner.container || !documents.has(step)) continue;
    owners.set(step, owner);
    open.push(...(targets.get(step) ?? []).map((to) => ({ step: to, owner })));
  }
  return owners;
}

function startsOf(step: StepDocument, types: StepBook): { step: string; owner: BlockOwner }[] {
  const container = String(step.id);
  const forks = types.get(String(step.type))?.forks === true;
  const waits = forks && typeof step.next === "string" ? step.next : container;
  return childBlocks(step, types).map(({ start }) => ({ step: start, owner: { container, waits } }));
}

function targetsOf(chart: Chart, ids: ReadonlyMap<string, string>): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(chart.states.active.states).map(([key, { on }]) => [
      ids.get(key) ?? key,
      Object.values(on ?? {}).flatMap(({ target }) => ids.get(target) ?? []),
    ]),
  );
}
