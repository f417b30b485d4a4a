// The step types of the service that these pages belong to. The build writes them in.
import type { StepBook, StepFacts } from "../../../machines/index.js";

declare const STEP_FACTS: readonly StepFacts[];

export const STEP_BOOK: StepBook = new Map(STEP_FACTS.map((facts) => [facts.type, facts]));
