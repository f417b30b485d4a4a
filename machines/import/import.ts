// The door of the importers: a document of another system as a workflow of this one, with a report. It decides which dialect a document is in, and
// that a document with a part that has no equivalent is refused unless the caller takes it in part.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { MachineImport } from "./asl/machine.js";
import { WorkflowImport } from "./conductor/workflow.js";
import { idOf } from "./names.js";
import { type ImportFinding, Report } from "./report.js";

export const DIALECTS = ["asl", "conductor"] as const;
export type Dialect = (typeof DIALECTS)[number];

export interface ImportOptions {
  readonly from?: Dialect;
  /** Of the workflow; that of the document, if it has one, or else made of `name`. */
  readonly id?: string;
  /** A name for a document without one, such as that of its file. */
  readonly name: string;
}

export interface Imported {
  readonly dialect: Dialect;
  readonly id: string;
  /** A workflow document. What has no equivalent is replaced as the report says. */
  readonly workflow: JsonObject;
  readonly findings: readonly ImportFinding[];
  /** Whether everything means the same. Otherwise the workflow is written only if a part is asked for. */
  readonly faithful: boolean;
}

/** Undefined: it is none that is known. */
export function dialectOf(document: Json): Dialect | undefined {
  if (!isObject(document)) return undefined;
  if (typeof document.StartAt === "string" && isObject(document.States)) return "asl";
  if (typeof document.name === "string" && Array.isArray(document.tasks)) return "conductor";
  return undefined;
}

/** The workflow of one document. Undefined: its dialect is none that is known. */
export function importWorkflow(document: Json, { from, id, name }: ImportOptions): Imported | undefined {
  const dialect = from ?? dialectOf(document);
  if (dialect === undefined || !isObject(document) || dialectOf(document) !== dialect) return undefined;
  const report = new Report();
  const own = dialect === "conductor" && typeof document.name === "string" ? document.name : name;
  const chosen = id ?? idOf(own);
  const workflow = (
    dialect === "asl" ? new MachineImport(document, report) : new WorkflowImport(document, report)
  ).workflow(chosen, own);
  return { dialect, id: chosen, workflow, findings: report.findings, faithful: report.faithful };
}
