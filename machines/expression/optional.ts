// Optional values: what `a.?b`, `a[?b]` and `optional.of(x)` make. Members of an optional are optional, too.
import type { CelValue } from "@bufbuild/cel";

/** A value of CEL like any other, which the library's types do not know. */
export class Optional {
  private constructor(readonly value: CelValue | undefined) {}

  static readonly none = new Optional(undefined) as unknown as CelValue;

  /** None if there is no value. */
  static of(value: CelValue | undefined): CelValue {
    return value === undefined ? Optional.none : (new Optional(value) as unknown as CelValue);
  }
}
