// `saga import`: workflows of AWS Step Functions and of Conductor as workflows of this service, and a report of what has no equivalent. It asks no
// service, and publishes nothing.
import { mkdir, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  compileWorkflow,
  DIALECTS,
  type Dialect,
  dialectOf,
  type Imported,
  type ImportFinding,
  importWorkflow,
  type Json,
  type JsonObject,
  Schemas,
} from "../../../machines/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { jsonFile } from "../frame/input.js";
import { safe } from "../frame/text.js";

/** One document of a file, and what has become of it. A member of the report. */
interface Outcome {
  readonly file: string;
  readonly id: string;
  readonly dialect: Dialect;
  readonly written: boolean;
  readonly findings: readonly ImportFinding[];
}

interface Read extends Imported {
  readonly file: string;
}

/** Its exit code is 1 unless every document means the same as before. */
export async function importFiles(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const read: Read[] = [];
  for (const file of context.arguments(0)) read.push(...(await documentsOf(file, context)));
  const out = context.text("out");
  if (read.length > 1 && context.text("id") !== undefined)
    throw context.wrong("--id names one workflow, and these are several");
  if (read.length > 1 && out === undefined) throw context.wrong("several workflows need a folder: give --out");
  refuseTwins(read);
  if (out !== undefined) await written(out, () => mkdir(out, { recursive: true }));
  const outcomes: Outcome[] = [];
  for (const each of read) outcomes.push(await outcome(each, out, context));
  const report = context.text("report");
  if (report !== undefined) await written(report, () => writeFile(report, `${JSON.stringify(outcomes, null, 2)}\n`));
  else for (const { file, findings } of outcomes) for (const finding of findings) terminal.note(lineOf(file, finding));
  const faithful = outcomes.filter(isFaithful).length;
  const count = outcomes.filter((each) => each.written).length;
  terminal.note(`${outcomes.length} workflows: ${count} written, ${faithful} with the same meaning`);
  return faithful === outcomes.length ? EXIT.succeeded : EXIT.failed;
}

const isFaithful = ({ findings }: Outcome): boolean => findings.every(({ weight }) => weight === "note");

/** A file has one document, or a list of those of Conductor. */
async function documentsOf(file: string, context: Context): Promise<readonly Read[]> {
  const json = (await jsonFile(file)) as Json;
  const from = dialectGiven(context);
  const id = context.text("id");
  const name = basename(file).replace(/(\.asl)?\.json5?$/, "");
  return (Array.isArray(json) ? (json as readonly Json[]) : [json]).map((document) => {
    const imported = importWorkflow(document, { name, ...(from && { from }), ...(id !== undefined && { id }) });
    if (imported) return { file, ...imported };
    const is = dialectOf(document);
    const found =
      is === undefined
        ? "neither a state machine (StartAt, States) nor a workflow of Conductor (name, tasks)"
        : `of the dialect ${is}`;
    throw new Failure(`${file} is ${found}`, EXIT.failed);
  });
}

function dialectGiven(context: Context): Dialect | undefined {
  const given = context.text("from");
  return DIALECTS.find((dialect) => dialect === given);
}

/** Two workflows of one id would be one file, and two versions of one workflow. */
function refuseTwins(read: readonly Read[]): void {
  const twin = read.find(({ id }, index) => read.findIndex((each) => each.id === id) < index);
  if (twin)
    throw new Failure(
      `${twin.file} is a second workflow with the id ${twin.id}: import it alone, with --id`,
      EXIT.failed,
    );
}

async function outcome(imported: Read, out: string | undefined, context: Context): Promise<Outcome> {
  const { file, id, dialect, workflow, faithful } = imported;
  const invalid = problemsOf(workflow);
  const findings = [...imported.findings, ...invalid];
  const write = invalid.length === 0 && (faithful || context.flag("partial"));
  const text = JSON.stringify(workflow, null, 2);
  if (write && out === undefined) context.terminal.print(text);
  if (write && out !== undefined) {
    const path = join(out, `${id.replaceAll(":", "_")}.workflow.json`);
    await written(path, () => writeFile(path, `${text}\n`));
  }
  return { file, id, dialect, written: write, findings };
}

/** A source that is not valid itself, such as one with a Next that leads nowhere, gives a workflow that is not valid. */
function problemsOf(workflow: JsonObject): readonly ImportFinding[] {
  const schemas = new Schemas();
  const { problems } = compileWorkflow(workflow, { schemaProblems: (schema) => schemas.problems(schema) });
  return problems.map(({ path, message }) => ({
    ...{ pointer: "", weight: "refused" as const, what: `the workflow at ${path}`, why: message },
    instead: "it is not written",
  }));
}

async function written(path: string, write: () => Promise<unknown>): Promise<void> {
  await write().catch((error: NodeJS.ErrnoException) => {
    throw new Failure(`${path} cannot be written (${error.code})`);
  });
}

const lineOf = (file: string, { pointer, weight, what, why, instead }: ImportFinding): string =>
  safe(`${file}: ${weight}: ${pointer === "" ? "/" : pointer} ${what}: ${why}; instead: ${instead}`);
