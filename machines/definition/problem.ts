// A fault of a document, with the place it stands at. Validation lists every one of them; it never stops at the first.
export interface Problem {
  /** A JSON path: `$.steps[2].next`. */
  readonly path: string;
  readonly message: string;
}
