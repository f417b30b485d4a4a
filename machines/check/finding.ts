// A finding: types alone, which users of the package for tests get without the machine.
import type { FindingCode, Severity } from "../values/finding-code.js";

/** What a review says about a definition, at its place. */
export interface Finding {
  /** A JSON path: `$.steps[2].inputs.quantity`. */
  readonly path: string;
  /** The id of the step that it is about. Absent: the document. */
  readonly step?: string;
  readonly code: FindingCode;
  /** `error`: a run that comes there fails, or what is written cannot happen. */
  readonly severity: Severity;
  readonly message: string;
}
