// Files of rehearsals for `saga test`: a workflow, and tests of it with inputs, mocks and what is expected. It reads and judges them; it prints nothing.
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  type RegisteredAction,
  RehearsalError,
  type RehearseOptions,
  rehearse,
} from "../../sdk/define/testing/index.js";
import { EXIT, Failure } from "../exit.js";
import { isObject, type JsonObject, jsonFile } from "../frame/input.js";
import { type Loaded, type Loader, load } from "./load.js";

/** What a test says of the end. What is not named is not compared. */
export interface Expected {
  readonly state?: string;
  /** Objects may have more members than are named; lists are compared whole. */
  readonly output?: unknown;
  readonly error?: unknown;
  readonly variables?: unknown;
  readonly requires_manual_review?: boolean;
  /** The steps that succeeded, in their order. */
  readonly steps?: readonly string[];
  /** The steps that were undone, in their order. */
  readonly undone?: readonly string[];
}

export interface TestCase {
  readonly name: string;
  readonly inputs?: JsonObject;
  readonly entrypoint?: string;
  readonly mocks?: JsonObject;
  readonly dry_run?: boolean;
  readonly features?: Readonly<Record<string, boolean>>;
  readonly start_at?: string;
  readonly expect?: Expected;
}

export interface TestFile {
  /** A file, one export of a module (`order.ts#order`), or the document itself. */
  readonly workflow: string | JsonObject;
  /** Files or documents that sub-sagas and decisions need. */
  readonly workflows?: readonly (string | JsonObject)[];
  readonly rules?: readonly (string | JsonObject)[];
  /** By `service.name`, as in the registry. */
  readonly actions?: Readonly<Record<string, RegisteredAction>>;
  readonly tests: readonly TestCase[];
}

export interface Verdict {
  readonly file: string;
  readonly name: string;
  readonly passed: boolean;
  /** What is not as expected, one a line. */
  readonly problems: readonly string[];
}

export interface Tested {
  readonly verdicts: readonly Verdict[];
  /** The files that it is made of. */
  readonly files: readonly string[];
}

const FILE_MEMBERS = ["$schema", "workflow", "workflows", "rules", "actions", "tests", "missing"];
const TEST_MEMBERS = ["name", "inputs", "entrypoint", "mocks", "dry_run", "features", "start_at", "expect"];
const EXPECTED_MEMBERS = ["state", "output", "error", "variables", "requires_manual_review", "steps", "undone"];

/** Throws Failure if the file cannot be used; a test that fails is a verdict. */
export async function runFile(path: string, loader: Loader): Promise<Tested> {
  const files = new Set([resolve(path)]);
  const file = checkedFile(path, await jsonFile(path));
  const from = dirname(path);
  const documents = async (given: string | JsonObject): Promise<readonly Loaded[]> => {
    if (typeof given !== "string") return [{ kind: "workflow", id: "", document: given, from: path }];
    const [name = "", exported] = given.split("#", 2);
    const loaded = await load([join(from, name)], loader);
    for (const each of loaded.files) files.add(each);
    return exported === undefined
      ? loaded.documents
      : loaded.documents.filter(({ from: at }) => at.endsWith(`#${exported}`));
  };
  const [workflow, ...more] = await documents(file.workflow);
  if (!workflow || more.length > 0)
    throw new Failure(
      `${path}: workflow must name one, and names ${more.length + (workflow ? 1 : 0)}: add #export`,
      EXIT.failed,
    );
  const others = async (list: readonly (string | JsonObject)[] = []) =>
    (await Promise.all(list.map(documents))).flat().map(({ document }) => document);
  const shared = {
    workflows: await others(file.workflows),
    rules: await others(file.rules),
    ...(file.actions && { actions: file.actions }),
  };
  const verdicts = file.tests.map((test): Verdict => {
    const problems = problemsOf(workflow.document, shared, test);
    return { file: path, name: test.name, passed: problems.length === 0, problems };
  });
  return { verdicts, files: [...files] };
}

function checkedFile(path: string, value: unknown): TestFile {
  const wrong = (sentence: string) => new Failure(`${path} is not a file of tests: ${sentence}`, EXIT.failed);
  const onlyKnown = (of: object, known: readonly string[], where: string) => {
    const unknown = Object.keys(of).find((name) => !known.includes(name));
    if (unknown !== undefined) throw wrong(`${where}.${unknown} is unknown: there are ${known.join(", ")}`);
  };
  if (!isObject(value)) throw wrong("it must be an object");
  onlyKnown(value, FILE_MEMBERS, "$");
  if (typeof value.workflow !== "string" && !isObject(value.workflow))
    throw wrong("$.workflow must be a file or a document");
  if (!Array.isArray(value.tests) || value.tests.length === 0) throw wrong("$.tests must be a list of tests");
  value.tests.forEach((test: unknown, index) => {
    if (!isObject(test) || typeof test.name !== "string") throw wrong(`$.tests[${index}].name is required`);
    onlyKnown(test, TEST_MEMBERS, `$.tests[${index}]`);
    if (test.expect !== undefined && !isObject(test.expect)) throw wrong(`$.tests[${index}].expect must be an object`);
    if (isObject(test.expect)) onlyKnown(test.expect, EXPECTED_MEMBERS, `$.tests[${index}].expect`);
  });
  return value as unknown as TestFile;
}

/** Without an `expect` a test passes if the run succeeds. */
function problemsOf(
  document: JsonObject,
  shared: Pick<RehearseOptions, "workflows" | "rules" | "actions">,
  { expect = { state: "succeeded" }, ...test }: TestCase,
): readonly string[] {
  try {
    const { left, events, ...ended } = rehearse(document, {
      ...shared,
      inputs: (test.inputs ?? {}) as NonNullable<RehearseOptions["inputs"]>,
      mocks: (test.mocks ?? {}) as NonNullable<RehearseOptions["mocks"]>,
      ...(test.entrypoint !== undefined && { entrypoint: test.entrypoint }),
      ...(test.dry_run !== undefined && { dryRun: test.dry_run }),
      ...(test.features && { features: test.features }),
      ...(test.start_at !== undefined && { startAt: new Date(test.start_at) }),
    });
    const succeeded = events.filter(
      ({ event_type, step_id }) => event_type === "step.succeeded" && step_id !== undefined,
    );
    const isUndo = ({ metadata }: (typeof events)[number]) => metadata?.phase === "compensation";
    const ids = (list: typeof events) => list.map(({ step_id }) => step_id ?? "");
    const actual: Expected = {
      ...ended,
      steps: ids(succeeded.filter((event) => !isUndo(event))),
      undone: ids(succeeded.filter(isUndo)),
    };
    const differences = Object.entries(expect).flatMap(([name, wanted]) =>
      differencesOf(wanted, actual[name as keyof Expected], name),
    );
    const isUnexpected = differences.length > 0 && ended.error !== undefined && expect.error === undefined;
    return [
      ...differences,
      ...(isUnexpected ? [`the error was ${ended.error?.code}: ${ended.error?.message}`] : []),
      ...(left !== undefined && differences.length > 0 ? [`the run did not end: ${left}`] : []),
    ];
  } catch (error) {
    if (error instanceof RehearsalError) return error.message.split("\n");
    throw error;
  }
}

/** Lists, and everything but objects, are compared whole. */
export function differencesOf(wanted: unknown, actual: unknown, path: string): string[] {
  if (isObject(wanted) && isObject(actual))
    return Object.entries(wanted).flatMap(([name, value]) => differencesOf(value, actual[name], `${path}.${name}`));
  if (isDeepStrictEqual(wanted, actual)) return [];
  return [`${path} is ${shown(actual)}, not ${shown(wanted)}`];
}

const MOST_SHOWN = 200;

function shown(value: unknown): string {
  if (value === undefined) return "absent";
  const text = JSON.stringify(value);
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}
