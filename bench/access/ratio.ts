// The ratio of two costs that were measured in rounds, its 95 % interval, and the verdict on a bound. It measures nothing.

/** Costs of one round: what is judged, and what it is judged against. */
export interface Pair {
  readonly judged: number;
  readonly against: number;
}

export interface Ratio {
  readonly ratio: number;
  /** The ends of the 95 % interval. */
  readonly low: number;
  readonly high: number;
  readonly rounds: number;
}

export type Verdict = "within" | "not within" | "not decided";

/** With fewer rounds the interval says little. */
export const LEAST_ROUNDS = 10;

/** The mean of the logarithms of the rounds' ratios, and Student's interval about it: a round counts as it is, and a half and a double cancel. */
export function ratioOf(pairs: readonly Pair[]): Ratio {
  const logs = pairs.map(({ judged, against }) => Math.log(judged / against));
  const mean = sumOf(logs) / logs.length;
  const variance = sumOf(logs.map((log) => (log - mean) ** 2)) / (logs.length - 1);
  const half = student95(logs.length - 1) * Math.sqrt(variance / logs.length);
  const [ratio, low, high] = [mean, mean - half, mean + half].map(Math.exp) as [number, number, number];
  return { ratio, low, high, rounds: logs.length };
}

/** Whether more rounds are needed: the interval is not narrower than the bound. */
export const isWide = ({ low, high, rounds }: Ratio, bound: number): boolean =>
  rounds < LEAST_ROUNDS || !(high - low < bound);

/** `bound`: 0.05 is 5 %. Within: the upper end of the interval is. */
export function verdictOf(ratio: Ratio, bound: number): Verdict {
  if (isWide(ratio, bound)) return "not decided";
  return ratio.high <= 1 + bound ? "within" : "not within";
}

/** The 97.5 % quantile of Student's distribution, by its expansion about the normal one: 0.1 % off with five degrees of freedom, and less with more. */
export function student95(freedom: number): number {
  const z = 1.959964;
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
  ];
  return terms.reduce((sum, term, nth) => sum + term / freedom ** (nth + 1), z);
}

const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);
