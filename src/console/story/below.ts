// Incidents below a run, at the steps of its own graph: through which step each hangs, and where it stands if a branch or an item of the run
// stands there. Pure: which runs there are, the page reads.

/** A run of a family, as far as it says where it belongs. */
export interface Member {
  readonly id: string;
  readonly parent_run_id?: string | undefined;
  readonly parent_step_id?: string | undefined;
  /** Of a branch or an item, which has the steps of its parent's graph. A sub-saga has none. */
  readonly parent_branch_id?: string | undefined;
  readonly current_step?: string | undefined;
}

/** Where an incident is seen in the graph of a run above it. */
export interface Place {
  /** The steps whose branches, items and sub-sagas lead to it, the outermost first. */
  readonly through: readonly string[];
  /** The step that it stands at. Absent: it is a step of another graph. */
  readonly at?: string;
}

/** Undefined: a run between the two is not known. `members`: those between, by their ids. */
export function placeOf(
  rootId: string,
  incident: Member,
  members: ReadonlyMap<string, Member> = new Map(),
): Place | undefined {
  const chain = chainOf(rootId, incident, members);
  if (chain === undefined) return undefined;
  const through: string[] = [];
  for (const { parent_step_id: step, parent_branch_id: branch } of chain) {
    if (step !== undefined) through.push(step);
    if (branch === undefined) return { through };
  }
  const { current_step: at } = incident;
  return { through, ...(at !== undefined && { at }) };
}

/** From the child of the run down to the incident. */
function chainOf(
  rootId: string,
  incident: Member,
  members: ReadonlyMap<string, Member>,
): readonly Member[] | undefined {
  const chain: Member[] = [];
  for (let at: Member | undefined = incident; at; at = members.get(at.parent_run_id ?? "")) {
    chain.unshift(at);
    if (at.parent_run_id === rootId) return chain;
  }
  return undefined;
}

/** Every step where some incident is seen. */
export const stepsOf = ({ through, at }: Place): readonly string[] => (at === undefined ? through : [...through, at]);
