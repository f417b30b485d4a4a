// All cases, in the order in which they are played. The worker's stop is the last one.
import type { Case } from "../case.js";
import { ANSWERS } from "./answers.js";
import { START } from "./start.js";
import { STREAMS } from "./streams.js";

export const CASES: readonly Case[] = [...START, ...ANSWERS, ...STREAMS];
