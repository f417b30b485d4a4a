// Mocks: the answers from outside in a rehearsal, by step.
import { Findings, type Problem } from "../attribute/findings.js";
import { Place } from "../attribute/problem.js";
import type { Program } from "../chart/program.js";
import type { MockRules } from "../steps/step.js";
import { isObject, type Json, measure } from "../values/json.js";
import * as misfit from "../values/misfit.js";
import type { Mock, Mocks } from "./mock.js";

const UNDO = "~undo";
const MAX_MOCKS = 10_000;

/** What a key names: what its mocks must be. */
interface MockedStep {
  readonly type: string;
  readonly rules: MockRules;
}

/** An undo is an action, whatever the step. */
export const UNDO_RULES: MockRules = { output: "object", failures: "any" };

const ERROR_MEMBERS: Readonly<Record<string, "string" | "boolean">> = {
  code: "string",
  message: "string",
  retryable: "boolean",
  outcome_unknown: "boolean",
};

/** Reads the mocks of a document and lists their problems. */
export function readMocks(
  raw: unknown,
  program: Program,
  path = "$.mocks",
): { mocks: Mocks; problems: readonly Problem[] } {
  const problems = new Findings("problems");
  const place = Place.of(path, { problems });
  if (!isObject(raw)) {
    place.problem("must be an object of step ids");
    return { mocks: {}, problems: problems.all() };
  }
  const size = measure(raw);
  if (typeof size !== "number") {
    place.below(size.path).problem(size.message);
    return { mocks: {}, problems: problems.all() };
  }
  const mocks = Object.entries(raw).map(
    ([key, list]) => [key, Array.isArray(list) ? list.map(present) : list] as const,
  );
  for (const [key, list] of mocks) checkList(key, list, program, place.at(key));
  return { mocks: Object.fromEntries(mocks) as unknown as Mocks, problems: problems.all() };
}

/** The mock without members that are null; an output alone may be null. */
function present(mock: Json): Json {
  if (!isObject(mock) || !("error" in mock)) return mock;
  const { output = null, error, ...others } = mock;
  if (error === null) return { output, ...others };
  const members = isObject(error)
    ? Object.fromEntries(Object.entries(error).filter(([, value]) => value !== null))
    : error;
  return { ...(output !== null && { output }), error: members, ...others } as Json;
}

function checkList(key: string, list: Json, program: Program, place: Place): void {
  const step = mockedStep(key, program, place);
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_MOCKS) {
    place.problem(`must be a list of 1 to ${MAX_MOCKS} mocks`);
    return;
  }
  list.forEach((mock: Json, index) => {
    checkMock(mock, step, place.at(index));
  });
}

/** The step that a key names. Undefined: it is in another workflow, or the key has a problem. */
function mockedStep(key: string, program: Program, place: Place): MockedStep | undefined {
  const [workflow = "", step] = key.includes("/") ? key.split("/", 2) : [program.workflowId, key];
  if (workflow !== program.workflowId) return undefined;
  const undo = step?.endsWith(UNDO) ?? false;
  const id = undo ? step?.slice(0, -UNDO.length) : step;
  const plan = program.steps.get(id ?? "");
  if (!plan) return place.problem(`there is no step "${String(id).slice(0, 128)}"`);
  const { name: type, mock: rules } = plan.type;
  if (undo && !plan.compensation) return place.problem(`the step "${id}" has no compensation`);
  if (undo) return { type, rules: UNDO_RULES };
  return rules ? { type, rules } : place.problem(`a ${type} waits for no answer, so it has no mocks`);
}

function checkMock(mock: Json, step: MockedStep | undefined, place: Place): void {
  const members = isObject(mock) ? Object.keys(mock) : [];
  if (!isObject(mock) || members.length !== 1 || (members[0] !== "output" && members[0] !== "error"))
    place.problem("must be {output} or {error}");
  else if (members[0] === "error") checkError(mock.error, step, place.at("error"));
  else if (step?.rules.output === "object" && !isObject(mock.output))
    place.at("output").problem(misfit.wrongType("object"));
}

function checkError(error: Json | undefined, step: MockedStep | undefined, place: Place): void {
  if (!isObject(error)) {
    place.problem("must be an object with a code");
    return;
  }
  for (const [name, value] of Object.entries(error)) {
    const wanted = Object.hasOwn(ERROR_MEMBERS, name) ? ERROR_MEMBERS[name] : undefined;
    if (wanted === undefined) place.at(name).problem("is unknown");
    else if (typeof value !== wanted) place.at(name).problem(misfit.wrongType(wanted));
  }
  if (!error.code) place.at("code").problem(misfit.REQUIRED);
  else if (step?.rules.failures === "timeout" && error.code !== "timeout")
    place.at("code").problem(`must be "timeout": a ${step.type} has no other failure`);
}

/** The mocks of each step, in their order. */
export class MockScript {
  private readonly uses = new Map<string, number>();

  constructor(
    private readonly mocks: Mocks,
    private readonly workflowId: string,
  ) {}

  has(workflowId: string, step: string): boolean {
    return this.find(workflowId, step) !== undefined;
  }

  next(workflowId: string, step: string, undo = false): Mock | undefined {
    const key = this.find(workflowId, undo ? `${step}${UNDO}` : step);
    if (key === undefined) return undefined;
    const nth = this.uses.get(key) ?? 0;
    this.uses.set(key, nth + 1);
    const list = this.mocks[key] ?? [];
    return list[Math.min(nth, list.length - 1)];
  }

  private find(workflowId: string, step: string): string | undefined {
    const named = `${workflowId}/${step}`;
    if (Object.hasOwn(this.mocks, named)) return named;
    return workflowId === this.workflowId && Object.hasOwn(this.mocks, step) ? step : undefined;
  }
}
