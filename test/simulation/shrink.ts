// The smallest story that breaks a law as one does: faults are left out one after the other, and the storm is made shorter, as long as some law is still
// broken. The seed stays, so what is left can be told again.

import { ALL_FAULTS, type StoryOptions, type Told, tell } from "./story.js";
import type { Base } from "./world/base.js";

export interface Smallest {
  readonly told: Told;
  readonly without: readonly string[];
  readonly stormMs: number;
}

const SHORTEST_MS = 500;

export async function shrink(
  base: Base,
  first: Told,
  { stormMs, without = new Set() }: StoryOptions,
): Promise<Smallest> {
  let smallest: Smallest = { told: first, without: [...without], stormMs };
  const attempt = async (changed: Partial<Omit<Smallest, "told">>): Promise<boolean> => {
    const options = { ...smallest, ...changed };
    const told = await tell(base, first.seed, { stormMs: options.stormMs, without: new Set(options.without) });
    const isBroken = told.violations.length > 0;
    if (isBroken) smallest = { ...options, told };
    return isBroken;
  };
  // Short stories first: they make all other attempts cheap.
  while (smallest.stormMs / 2 >= SHORTEST_MS && (await attempt({ stormMs: Math.round(smallest.stormMs / 2) })));
  for (const fault of ALL_FAULTS) if (!without.has(fault)) await attempt({ without: [...smallest.without, fault] });
  while (smallest.stormMs * 0.8 >= SHORTEST_MS && (await attempt({ stormMs: Math.round(smallest.stormMs * 0.8) })));
  return smallest;
}

/** The command that tells it again. */
export function commandOf({ told: { seed }, without, stormMs }: Smallest): string {
  const left = without.length > 0 ? ` --without ${without.join(",")}` : "";
  return `npm run simulate -- --seed ${seed} --seeds 1 --storm ${stormMs / 1_000}${left} --story`;
}
