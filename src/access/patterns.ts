// Lists of ids in a credential: an id, a prefix and `*`, or `*` for all. An empty list names nothing.

export class Patterns {
  readonly ids: readonly string[];
  /** All that begins with one of them is matched. */
  readonly prefixes: readonly string[];
  private readonly exact: ReadonlySet<string>;

  constructor(readonly texts: readonly string[]) {
    this.ids = texts.filter((text) => !text.endsWith("*"));
    this.prefixes = texts.filter((text) => text.endsWith("*")).map((text) => text.slice(0, -1));
    this.exact = new Set(this.ids);
  }

  match(id: string): boolean {
    return this.exact.has(id) || this.prefixes.some((prefix) => id.startsWith(prefix));
  }

  /** Whether each id that `others` match is matched here, too. */
  contain(others: Patterns): boolean {
    const isWithin = (prefix: string) => this.prefixes.some((own) => prefix.startsWith(own));
    return others.prefixes.every(isWithin) && [...others.exact].every((id) => this.match(id));
  }

  get matchesAll(): boolean {
    return this.prefixes.includes("");
  }
}

export const NOTHING = new Patterns([]);
export const ALL = new Patterns(["*"]);
