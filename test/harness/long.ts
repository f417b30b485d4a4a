// What the environment says about a run of the tests, read here only. `npm test` runs the short form: every behaviour once, with few
// seeds, rounds and kills. `npm run test:long` sets SAGA_TEST_LONG=true: the long form of each test that has one. SEED and CASES
// play chosen random cases.
import { describe, it } from "vitest";

export const LONG = process.env.SAGA_TEST_LONG === "true";

/** `npm run test:alone`: the tests that need the whole machine (`*.alone.test.ts`), in their long form. */
export const ALONE = process.env.SAGA_TEST_ALONE === "true";

/** The npm scripts build first and set SAGA_TEST_BUILT=true: tests import the compiled modules. See built.ts. */
export const BUILT = process.env.SAGA_TEST_BUILT === "true";

/** The number of seeds, rounds, runs or kills for this form of the suite. */
export const long = <T>(shortForm: T, longForm: T): T => (LONG ? longForm : shortForm);

/** Defines nothing, so that the tests of the other form do not count as skipped. */
const leftOut = Object.assign(() => {}, { each: () => () => {} });

/** `it` and `describe` of the long form only. */
export const itLong = (LONG ? it : leftOut) as typeof it;
export const describeLong = (LONG ? describe : leftOut) as typeof describe;

/** `it` and `describe` of the short form only: what has no long form of its own and takes seconds, in a file with tests that have one. */
export const itShort = (LONG ? leftOut : it) as typeof it;
export const describeShort = (LONG ? leftOut : describe) as typeof describe;

/** The number of random cases: CASES if it is set, else that of this form. */
export const cases = (shortForm: number, longForm: number): number =>
  Number(process.env.CASES ?? long(shortForm, longForm));

/** Where random cases begin: SEED if it is set, so that one can be played again. */
export const firstSeed = (fallback = Math.floor(Math.random() * 2 ** 31)): number =>
  Number(process.env.SEED ?? fallback);
