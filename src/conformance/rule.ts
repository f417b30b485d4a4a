// How a case ends, and the report of all of them. What a case is, is in case.ts.

/** The worker broke the rule. The message says what was seen. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** The worker does not say that it has the ability, or the case cannot be played. The message says why. */
export class NotApplicable extends Error {
  override readonly name = "NotApplicable";
}

export type Verdict = "passed" | "failed" | "not_applicable";

/** JSON of `saga conformance -o json`: its members never change. */
export interface CaseReport {
  readonly name: string;
  readonly verdict: Verdict;
  readonly rule: string;
  /** "docs/protocol.md#credit". */
  readonly section: string;
  /** What was seen, of a failure; why it was not played, of a case that is not applicable. */
  readonly seen?: string;
  /** What to do about a failure. */
  readonly advice?: string;
  readonly ms: number;
}

export interface Report {
  /** No case failed. */
  readonly conforms: boolean;
  /** Of the worker's last hello; absent if it never said one. */
  readonly worker_id?: string;
  readonly cases: readonly CaseReport[];
  readonly ms: number;
}
