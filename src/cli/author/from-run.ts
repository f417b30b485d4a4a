// `saga test --from-run`: a finished run as a test that repeats it, with its inputs, mocks of all that answered it, and its end. It reads over the API and
// writes nothing; what the audit log does not have is said.
import { stepBook } from "../../../machines/index.js";
import { mocksFromRun, type Recorded } from "../../sdk/define/testing/index.js";
import { EXIT, Failure } from "../exit.js";
import type { JsonObject } from "../frame/input.js";
import type { Service } from "../frame/service.js";
import { ENDED, pathOf, type Run, type RunEvent } from "../runs/run.js";
import type { Expected, TestFile } from "./rehearsals.js";

const MOST_CHILDREN = 1_000;
const MOST_EVENTS = 20_000;
const STEP_FACTS = stepBook();

interface Step {
  readonly id: string;
  readonly type: string;
}

export interface Repeatable {
  readonly file: TestFile & { readonly missing?: readonly string[] };
  /** What could not be found out. */
  readonly missing: readonly string[];
}

/** Throws Failure for a run that has not ended. */
export async function testOf(service: Service, id: string): Promise<Repeatable> {
  const run = await service.get<Run>(pathOf(id));
  if (!ENDED.includes(run.state))
    throw new Failure(`run ${id} is ${run.state}: only one that has ended can be repeated`, EXIT.refused);
  if (run.parent_run_id !== undefined)
    throw new Failure(
      `run ${id} is a branch, an item or a sub-saga: name its root ${run.root_run_id ?? run.parent_run_id}`,
      EXIT.refused,
    );
  const definition = await service.get<JsonObject>(`/workflows/${encodeURIComponent(run.workflow_id)}`, {
    version: run.version,
  });
  const unread: string[] = [];
  const { mocks, missing: unrecorded } = mocksFromRun(definition, await recordsOf(service, run, unread));
  const missing = [...unread, ...unrecorded];
  const test = { name: `run ${id}`, inputs: run.inputs ?? {}, ...extras(run), mocks, expect: endOf(run) };
  const { created_at, warnings, ...workflow } = definition;
  const rules = [...stepsIn(definition).values()].filter(({ type }) =>
    STEP_FACTS.get(type)?.mentions.some(({ what }) => what === "rule"),
  );
  if (rules.length > 0)
    missing.push(`the rules of the decisions ${rules.map((rule) => rule.id).join(", ")}: add them as "rules"`);
  const file = { workflow, tests: [test], ...(missing.length > 0 && { missing }) };
  return { file, missing };
}

function stepsIn({ steps }: JsonObject): ReadonlyMap<string, Step> {
  return new Map((Array.isArray(steps) ? (steps as Step[]) : []).map((step) => [step.id, step]));
}

const extras = ({ dry_run }: Run) => (dry_run ? { dry_run } : {});

/** Messages have ids and times in them, so that only the code of an error is compared. */
function endOf({ state, output, error }: Run): Expected {
  return {
    state,
    ...(state === "succeeded" && output !== undefined && { output }),
    ...(error && { error: { code: error.code, ...(error.step_id !== undefined && { step_id: error.step_id }) } }),
  };
}

/** With its children, and those of branches and items, which have steps of the same workflow. */
async function recordsOf(service: Service, run: Run, missing: string[]): Promise<Recorded[]> {
  const events: RunEvent[] = [];
  for await (const event of service.items<RunEvent>(pathOf(run.id, "/events"), {}, MOST_EVENTS)) events.push(event);
  if (events.length === MOST_EVENTS) missing.push(`audit events of run ${run.id} beyond the first ${MOST_EVENTS}`);
  const records: Recorded[] = [{ run, events }];
  let children = 0;
  for await (const child of service.items<Run>(pathOf(run.id, "/children"), {}, MOST_CHILDREN)) {
    if (++children === MOST_CHILDREN)
      missing.push(`branches and items of run ${run.id} beyond the first ${MOST_CHILDREN}`);
    const isOwn = child.definition_id === run.definition_id;
    records.push(...(isOwn ? await recordsOf(service, child, missing) : [{ run: child, events: [] }]));
  }
  return records;
}
