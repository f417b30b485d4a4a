// What a case of the conformance is. The cases themselves are in `cases/`, what they talk to is the bench, how they end is in rule.ts.
import type { Bench } from "./bench.js";

/** A rule of the protocol, and the program that finds out whether a worker keeps it. */
export interface Case {
  /** Words with hyphens. Never changes: people write it into their CI. */
  readonly name: string;
  /** What the protocol wants, in one sentence. */
  readonly rule: string;
  /** The anchor of its section in docs/protocol.md. */
  readonly section: string;
  /** What to change in a worker that fails. */
  readonly advice: string;
  /** Throws Violation or NotApplicable. */
  run(bench: Bench): Promise<void>;
}
