// What a page needs to know of step types, as JSON: the console draws and explains definitions that nothing has compiled, in a browser that has
// neither CEL nor the steps themselves. The build of the console writes it into the pages.
import type { Mention } from "../attribute/mention.js";
import { STEP_TYPES } from "./index.js";
import type { BlockRules, StepType } from "./step.js";

export interface StepFacts {
  readonly type: string;
  /** What it does, in a sentence. */
  readonly summary: string;
  readonly mentions: readonly Mention[];
  readonly block?: Pick<BlockRules, "kind" | "starts">;
  readonly variables?: StepType["variables"];
  /** Its `next` is a join, which waits for its branches. */
  readonly forks?: true;
  readonly alwaysFails?: true;
  /** It waits for an answer from outside, which a mock can give. */
  readonly isMocked?: true;
  /** Its answer from outside cannot be an error; it can fail to come in time. */
  readonly onlyTimesOut?: true;
  /** The member of a task's result that two buttons give. */
  readonly decides?: string;
}

/** Step types by name. */
export type StepBook = ReadonlyMap<string, StepFacts>;

export function stepBook(types: Iterable<StepType> = STEP_TYPES.values()): StepBook {
  return new Map([...types].map((type) => [type.name, factsOf(type)]));
}

function factsOf({ name, summary, mentions, block, variables, forks, alwaysFails, mock, task }: StepType): StepFacts {
  return {
    ...{ type: name, summary, mentions },
    ...(block && { block: { kind: block.kind, starts: block.starts } }),
    ...(variables && { variables }),
    ...(forks && { forks }),
    ...(alwaysFails && { alwaysFails }),
    ...(mock && { isMocked: true }),
    ...(mock?.failures === "timeout" && { onlyTimesOut: true }),
    ...(task?.granted !== undefined && { decides: task.granted }),
  };
}
