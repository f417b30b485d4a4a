// Problems of a document, each with its place. Validation lists all of them; it does not stop at the first.
export interface Problem {
  /** A JSON path: `$.steps[2].next`. */
  readonly path: string;
  readonly message: string;
}

/** A place in a document: where a parser reads, and where it reports. */
export class Place {
  constructor(
    readonly path: string,
    private readonly problems: Problem[],
    private readonly warnings: Problem[],
    /** The names that some scope of the document gives to expressions. Undefined: any name. */
    private readonly names?: ReadonlySet<string>,
  ) {}

  /** The place of a member or an item below this one. */
  at(key: string | number): Place {
    const plain = typeof key === "string" && /^[A-Za-z_]\w*$/.test(key);
    const step = plain ? `.${key}` : `[${JSON.stringify(key)}]`;
    return this.below(step);
  }

  /** The place at a path below this one, such as that of a value that cannot be stored. */
  below(path: string): Place {
    return new Place(`${this.path}${path}`, this.problems, this.warnings, this.names);
  }

  /** Whether no scope of the document gives this name. */
  isUnknown(name: string): boolean {
    return this.names !== undefined && !this.names.has(name);
  }

  /** The number of problems of the whole document so far. */
  get problemCount(): number {
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
