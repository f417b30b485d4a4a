// Faults by their names, with the chance of each: how much of each a story has, and which of them happens now.
import type { Chance } from "../world/world.js";

export type Faults<Name extends string> = Readonly<Record<Name, number>>;

/** The chance of each named fault in this story. Half of them are none at all: a fault that is always rare never meets another. */
export function drawn<Name extends string>(
  chance: Chance,
  most: Faults<Name>,
  without: ReadonlySet<string>,
): Faults<Name> {
  const names = Object.keys(most) as Name[];
  const faults = names.map((name) => {
    const [isThere, much] = [chance() < 0.5, chance()];
    return [name, isThere && !without.has(name) ? much * most[name] : 0];
  });
  return Object.fromEntries(faults) as Faults<Name>;
}

/** Which of the faults happens now, if any: a number below the sum of their chances. */
export function turnOf<Name extends string>(
  drawn: number,
  faults: Faults<Name>,
  names: readonly Name[],
): Name | undefined {
  let rest = drawn;
  for (const name of names) {
    if (rest < faults[name]) return name;
    rest -= faults[name];
  }
  return undefined;
}

export const asText = (faults: Readonly<Record<string, number>>): string =>
  Object.entries(faults)
    .flatMap(([name, much]) => (much > 0 ? `${name} ${much.toFixed(3)}` : []))
    .join(", ");
