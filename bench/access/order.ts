// The order of the services in a turn: none is always after the same one.

/** Each is first, in the middle and last equally often. */
export function inOrder<T>(all: readonly T[], nth: number): readonly T[] {
  const first = nth % all.length;
  const turned = [...all.slice(first), ...all.slice(0, first)];
  return Math.floor(nth / all.length) % 2 === 0 ? turned : turned.reverse();
}
