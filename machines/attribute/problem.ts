// A fault of a document, with the place it stands at. Validation lists every one of them; it never stops at the first.
export interface Problem {
  /** A JSON path: `$.steps[2].next`. */
  readonly path: string;
  readonly message: string;
}

/** Where a parser stands in the document, and where it reports. */
export class Place {
  constructor(
    readonly path: string,
    private readonly problems: Problem[],
    private readonly warnings: Problem[],
    /** The names that an expression may see somewhere in the document; undefined: any. */
    private readonly names?: ReadonlySet<string>,
  ) {}

  /** The place of a member or an item below this one. */
  at(key: string | number): Place {
    const plain = typeof key === "string" && /^[A-Za-z_]\w*$/.test(key);
    const step = plain ? `.${key}` : `[${JSON.stringify(key)}]`;
    return this.below(step);
  }

  /** The place that a path found below this one leads to, such as that of a value that cannot be stored. */
  below(path: string): Place {
    return new Place(`${this.path}${path}`, this.problems, this.warnings, this.names);
  }

  /** Whether no scope of the document has the name. */
  isUnknown(name: string): boolean {
    return this.names !== undefined && !this.names.has(name);
  }

  /** Problems of the whole document so far. */
  get faults(): number {
    return this.problems.length;
  }

  /** Reports a problem; returns undefined, so that a parser can end with it. */
  problem(message: string): undefined {
    this.problems.push({ path: this.path, message });
    return undefined;
  }

  warn(message: string): void {
    this.warnings.push({ path: this.path, message });
  }
}
