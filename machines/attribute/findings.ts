// The problems, or the warnings, of one document: the first thousand, and how many more there are. A document of 2 MiB has room for a
// million, which take long to find and to read.
import type { FindingCode } from "../values/finding-code.js";

export interface Problem {
  /** A JSON path: `$.steps[2].next`. */
  readonly path: string;
  readonly message: string;
  /** Of a warning. Problems have none. */
  readonly code?: FindingCode;
}

export const MOST_LISTED = 1_000;

export class Findings {
  private readonly list: Problem[] = [];
  private unlisted = 0;

  constructor(private readonly noun: "problems" | "warnings") {}

  /** The number of all findings, listed or not. */
  get count(): number {
    return this.list.length + this.unlisted;
  }

  /** What is found now is counted only. */
  get isFull(): boolean {
    return this.list.length >= MOST_LISTED;
  }

  /** `always`: it is listed in any case. */
  add(found: () => Problem, always = false): void {
    if (this.isFull && !always) this.unlisted++;
    else this.list.push(found());
  }

  addUnlisted(count: number): void {
    this.unlisted += count;
  }

  /** Where the next one is listed. */
  get end(): number {
    return this.list.length;
  }

  /** Moves the problems from index `from` on to index `to`. Returns how many there are. */
  move(from: number, to: number): number {
    const found = this.list.splice(from);
    this.list.splice(to, 0, ...found);
    return found.length;
  }

  all(): readonly Problem[] {
    if (this.unlisted === 0) return this.list;
    return [...this.list, { path: "$", message: `has ${this.unlisted} more ${this.noun}, which are not listed` }];
  }
}
