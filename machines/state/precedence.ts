// Precedence: what a start says of the turn of its run among those that wait for the same worker or slot. The law of the turns of levels is here, because
// the queue of calls and the function `grant_in_turn` of Postgres follow the same one. It holds no queue.

/** A storage format, and one of messages between nodes: it stands in the identity of a run, on its tickets, and in what asks for a worker. */
export interface Precedence {
  /** From 1, the highest, to 5. Absent: 3. */
  readonly priority?: number;
  /** Keys of a level share by their weights. Absent: one key together with all others that have none. */
  readonly key?: string;
  /** Of the key. Absent: 1. */
  readonly weight?: number;
}

export const LEVELS = 5;
export const WEIGHTS = { min: 0.001, max: 1_000 };
export const MAX_FAIRNESS_KEY = 256;
export const USUAL_PRIORITY = 3;

/** Undefined: nothing is given that differs from no precedence at all. A weight counts with a key alone. */
export function precedenceOf({ priority, key, weight }: Precedence): Precedence | undefined {
  const given = {
    ...(priority !== undefined && priority !== USUAL_PRIORITY && { priority }),
    ...(key !== undefined && { key, ...(weight !== undefined && weight !== 1 && { weight }) }),
  };
  return Object.keys(given).length > 0 ? given : undefined;
}

/** The turns of a cycle: 16 of level 1, 8 of level 2, 4, 2, and 1 of level 5, spread as evenly as may be. */
const LEVEL_TURNS = 31;

/** The level whose turn the `nth` (from 1 to 31) is: 1 2 1 3 1 2 1 4 … */
export function levelOfTurn(nth: number): number {
  return 32 - Math.clz32(nth & -nth);
}

/** The next turn, after the `last` one (0: none), of a level with something waiting. There must be one. */
export function nextTurn(last: number, isWaiting: (level: number) => boolean): number {
  let turn = last;
  do turn = (turn % LEVEL_TURNS) + 1;
  while (!isWaiting(levelOfTurn(turn)));
  return turn;
}
