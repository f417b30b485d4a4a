// A diagnosis of `saga doctor`: one thing that was looked at, and what it is like.

export interface Diagnosis {
  readonly name: string;
  /** `skipped`: it could not be looked at from here. */
  readonly state: "ok" | "warning" | "bad" | "skipped";
  readonly says: string;
}
