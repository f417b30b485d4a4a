// Mocks: what stands in for the outside of a run, by step. Not what is done with one: that is the rehearsal's to play.
import { Place, type Problem } from "../definition/problem.js";
import { isObject, type Json, measure } from "../json.js";
import type { Program } from "../program.js";

export interface MockError {
  /** `timeout`: nobody answers in time. */
  readonly code: string;
  readonly message?: string;
  /** Default: true. */
  readonly retryable?: boolean;
  /** Default: false. */
  readonly outcome_unknown?: boolean;
}

export type Mock = { readonly output: Json } | { readonly error: MockError };

/**
 * By step id; `<step>~undo` for the step's compensation, `<workflow>/<step>` for a step of another workflow. The nth attempt takes
 * the nth mock, and the last one stays.
 */
export type Mocks = Readonly<Record<string, readonly Mock[]>>;

const UNDO = "~undo";
const MAX_MOCKS = 10_000;

/** Whether the answer has to be an object, of each type that asks the outside for one. */
const ANSWERS: ReadonlyMap<string, "object" | "any"> = new Map([
  ["action", "object"],
  ["http_request", "object"],
  ["manual_approval", "object"],
  ["collect_input", "object"],
  ["wait_for_signal", "any"],
  ["wait_for_event", "any"],
  ["sub_saga", "any"],
]);
/** Of these nobody hears of a failure: they are answered, or they are not. */
const WAITS: ReadonlySet<string> = new Set(["manual_approval", "collect_input", "wait_for_signal", "wait_for_event"]);

const ERROR_MEMBERS: Readonly<Record<string, "string" | "boolean">> = {
  code: "string",
  message: "string",
  retryable: "boolean",
  outcome_unknown: "boolean",
};

/** The mocks of a document, or every problem that they have. */
export function readMocks(raw: unknown, program: Program, path = "$.mocks"): { mocks: Mocks; problems: Problem[] } {
  const problems: Problem[] = [];
  const place = new Place(path, problems, []);
  if (!isObject(raw)) {
    place.problem("must be an object of step ids");
    return { mocks: {}, problems };
  }
  const size = measure(raw);
  if (typeof size !== "number") place.below(size.path).problem(size.message);
  else for (const [key, list] of Object.entries(raw)) checkList(key, list, program, place.at(key));
  return { mocks: raw as unknown as Mocks, problems };
}

function checkList(key: string, list: Json, program: Program, place: Place): void {
  const type = typeOf(key, program, place);
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_MOCKS) {
    place.problem(`must be a list of 1 to ${MAX_MOCKS} mocks`);
    return;
  }
  list.forEach((mock: Json, index) => {
    checkMock(mock, type, place.at(index));
  });
}

/** The type of the step that a key names; undefined where it cannot be known, or is at fault. */
function typeOf(key: string, program: Program, place: Place): string | undefined {
  const [workflow = "", step] = key.includes("/") ? key.split("/", 2) : [program.workflowId, key];
  if (workflow !== program.workflowId) return undefined;
  const undo = step?.endsWith(UNDO) ?? false;
  const id = undo ? step?.slice(0, -UNDO.length) : step;
  const plan = program.steps.get(id ?? "");
  if (!plan) return place.problem(`there is no step "${String(id).slice(0, 128)}"`);
  const { name } = plan.type;
  if (undo) return plan.compensation ? "action" : place.problem(`the step "${id}" has no compensation`);
  return ANSWERS.has(name) ? name : place.problem(`a ${name} asks nobody, so it has no mocks`);
}

function checkMock(mock: Json, type: string | undefined, place: Place): void {
  const members = isObject(mock) ? Object.keys(mock) : [];
  if (!isObject(mock) || members.length !== 1 || (members[0] !== "output" && members[0] !== "error"))
    place.problem("must be {output} or {error}");
  else if (members[0] === "error") checkError(mock.error, type, place.at("error"));
  else if (type !== undefined && ANSWERS.get(type) === "object" && !isObject(mock.output))
    place.at("output").problem("must be an object");
}

function checkError(error: Json | undefined, type: string | undefined, place: Place): void {
  if (!isObject(error)) {
    place.problem("must be an object with a code");
    return;
  }
  for (const [name, value] of Object.entries(error)) {
    const wanted = Object.hasOwn(ERROR_MEMBERS, name) ? ERROR_MEMBERS[name] : undefined;
    if (wanted === undefined) place.at(name).problem("is unknown");
    else if (typeof value !== wanted) place.at(name).problem(`must be a ${wanted}`);
  }
  if (!error.code) place.at("code").problem("is required");
  else if (type !== undefined && WAITS.has(type) && error.code !== "timeout")
    place.at("code").problem(`must be "timeout": nothing else can happen to a ${type}`);
}

/** Gives out the mocks of each step in their order. */
export class Script {
  private readonly taken = new Map<string, number>();

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
    const nth = this.taken.get(key) ?? 0;
    this.taken.set(key, nth + 1);
    const list = this.mocks[key] ?? [];
    return list[Math.min(nth, list.length - 1)];
  }

  private find(workflowId: string, step: string): string | undefined {
    const named = `${workflowId}/${step}`;
    if (Object.hasOwn(this.mocks, named)) return named;
    return workflowId === this.workflowId && Object.hasOwn(this.mocks, step) ? step : undefined;
  }
}
