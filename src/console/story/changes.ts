// What each step changed in the variables, as far as audit rows and the definition tell. Rows have outputs, so what an output became is
// known; what a step assigned by itself is known by name only.
import { attributesIn, namesIn } from "../../../machines/attribute/mention.js";
import type { StepBook, StepFacts } from "../../../machines/index.js";
import type { StepDocument } from "../graph/blocks.js";
import { failureOf, isUndo, kindOf, type Row, saidIn, typeOf, willRetry } from "./rows.js";

export interface Change {
  readonly seq: number;
  readonly step?: string;
  readonly name: string;
  /** Absent: no row has it. */
  readonly value?: unknown;
  readonly isKnown: boolean;
  readonly how: "output" | "error" | "set" | "removed" | "corrected";
}

export function changesOf(row: Row, documents: ReadonlyMap<string, StepDocument>, types: StepBook): readonly Change[] {
  if (isUndo(row)) return [];
  if (typeOf(row) === "log") return kindOf(row) === "retry_step" ? corrected(row) : [];
  const document = documents.get(row.step_id ?? "");
  if (!document) return [];
  const facts = types.get(String(document.type));
  switch (typeOf(row)) {
    case "step.started":
      return facts?.variables === "caught" ? variablesIn(document, facts).map((name) => removed(row, name)) : [];
    case "step.succeeded":
      return succeeded(row, document, facts);
    case "step.failed":
      return failed(row, document);
    default:
      return [];
  }
}

/** The names of the variables that a person corrected; their values are in no row. */
function corrected(row: Row): readonly Change[] {
  const names = saidIn(row, "variables");
  return (Array.isArray(names) ? names : []).map((name) => ({
    ...at(row),
    ...{ name: String(name), isKnown: false, how: "corrected" },
  }));
}

const removed = (row: Row, name: string): Change => ({ ...at(row), name, isKnown: true, how: "removed" });

function succeeded(row: Row, document: StepDocument, facts: StepFacts | undefined): readonly Change[] {
  const assigned =
    facts?.variables === "assigned" ? variablesIn(document, facts).map((name) => unknown(row, name)) : [];
  const name = savedAs(document);
  const output = saidIn(row, "output");
  if (name === undefined || output === undefined) return assigned;
  return [...assigned, { ...at(row), name, value: output, isKnown: !isCut(row), how: "output" }];
}

/** Where the run goes on, the step's variable holds the error. */
function failed(row: Row, document: StepDocument): readonly Change[] {
  const name = savedAs(document);
  const goesOn = document.on_error !== undefined && document.on_error !== "fail";
  if (!goesOn || willRetry(row) || name === undefined) return [];
  const { code, message } = failureOf(row);
  const details = saidIn(row, "details");
  const error = { code, message, step_id: row.step_id, ...(details !== undefined && { details }) };
  return [{ ...at(row), name, value: { error }, isKnown: true, how: "error" }];
}

const unknown = (row: Row, name: string): Change => ({ ...at(row), name, isKnown: false, how: "set" });

const at = ({ seq, step_id }: Row) => ({ seq, ...(step_id !== undefined && { step: step_id }) });

function savedAs({ id, save_as }: StepDocument): string | undefined {
  return save_as === null ? undefined : (text(save_as) ?? text(id));
}

/** The variables that the attributes name. */
function variablesIn(document: StepDocument, { mentions }: StepFacts): readonly string[] {
  const attributes = attributesIn(document);
  return mentions.filter(({ what }) => what === "variable").flatMap((mention) => namesIn(attributes, mention));
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** A long output is cut in the row, which says so. */
const isCut = (row: Row): boolean => saidIn(row, "truncated") !== undefined;
