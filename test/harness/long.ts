// What a test asks about the run that it is in. The short form has every behaviour once, with few seeds, rounds and kills; the long form has many
// of them (forms.ts). SEED and CASES play chosen random cases.
import { inject } from "vitest";

export const LONG = inject("form") !== "short";

/** The number of seeds, rounds, runs or kills for this form of the suite. */
export const long = <T>(shortForm: T, longForm: T): T => (LONG ? longForm : shortForm);

/** The number of random cases: CASES if it is set, else that of this form. */
export const cases = (shortForm: number, longForm: number): number =>
  Number(process.env.CASES ?? long(shortForm, longForm));

/** Where random cases begin: SEED if it is set, so that one can be played again. */
export const firstSeed = (fallback = Math.floor(Math.random() * 2 ** 31)): number =>
  Number(process.env.SEED ?? fallback);
