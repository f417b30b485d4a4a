// What every function and macro does, for docs/functions.md. A test evaluates the examples, and compares the names with those that can
// be called.
import type { Chapter } from "./chapter.js";
import { LISTS, LOOPS } from "./lists.js";
import { CONVERSIONS, DECIMALS, MATH } from "./numbers.js";
import { OPTIONALS, TIMES } from "./optionals-and-times.js";
import { TEXT } from "./text.js";

export const CATALOGUE: readonly Chapter[] = [TEXT, CONVERSIONS, DECIMALS, MATH, LISTS, LOOPS, OPTIONALS, TIMES];
