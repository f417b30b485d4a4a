// The report of an import: what of the source has no equivalent, and what was put in its place. It decides nothing: `refused` findings keep a
// document from being written unless the caller takes it in part.
import type { FieldPath } from "../values/json-path.js";

/**
 * `refused`: it has no equivalent, and what stands in its place means something else. `note`: the meaning is kept, and something outside of the
 * document has to be known or done for it.
 */
export type ImportWeight = "refused" | "note";

export interface ImportFinding {
  /** A JSON pointer into the source. */
  readonly pointer: string;
  readonly weight: ImportWeight;
  /** The construct, as the source names it. */
  readonly what: string;
  readonly why: string;
  /** What the written workflow has in its place. */
  readonly instead: string;
}

export const pointerOf = (path: FieldPath): string =>
  path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

export class Report {
  private readonly found = new Map<string, ImportFinding>();

  refuse(path: FieldPath, what: string, why: string, instead = "it is left out"): void {
    this.add({ pointer: pointerOf(path), weight: "refused", what, why, instead });
  }

  note(path: FieldPath, what: string, why: string, instead: string): void {
    this.add({ pointer: pointerOf(path), weight: "note", what, why, instead });
  }

  get findings(): readonly ImportFinding[] {
    return [...this.found.values()];
  }

  get faithful(): boolean {
    return this.findings.every(({ weight }) => weight === "note");
  }

  /** A construct that is read twice is one finding. */
  private add(finding: ImportFinding): void {
    this.found.set(JSON.stringify([finding.pointer, finding.what, finding.why]), finding);
  }
}

/** A construct without an equivalent, found deep in an expression. Its place is known where it is caught. */
export class NoEquivalent extends Error {
  constructor(
    readonly what: string,
    readonly why: string,
  ) {
    super(`${what}: ${why}`);
  }
}
