// Problems of a document, each with its place. Validation lists all of them; it does not stop at the first.

import type { Slices } from "../values/slices.js";
import { type Budget, DOCUMENT_BUDGET } from "./budget.js";
import { Suggestions } from "./suggestion.js";

export interface Problem {
  /** A JSON path: `$.steps[2].next`. */
  readonly path: string;
  readonly message: string;
}

/** What the document as a whole says about names in expressions. Undefined: any name will do. */
export interface DocumentNames {
  /** The names that some scope gives to expressions. */
  readonly scope?: ReadonlySet<string>;
  /** The variables that some step sets. */
  readonly variables?: ReadonlySet<string>;
}

interface Later {
  readonly check: () => Slices<void>;
  readonly listedAt: number;
}

/** A place in a document: where a parser reads, and where it reports. */
export class Place {
  constructor(
    readonly path: string,
    private readonly problems: Problem[],
    private readonly warnings: Problem[],
    private readonly names: DocumentNames = {},
    private readonly suggestions = new Suggestions(),
    private readonly budget?: Budget,
    private readonly open: Later[] = [],
  ) {}

  /** The path as people write it in a sentence: `steps[2].inputs`. Undefined: the place is not in a document. */
  get inDocument(): string | undefined {
    return this.path.startsWith("$.") ? this.path.slice(2) : undefined;
  }

  /** The place of a member or an item below this one. */
  at(key: string | number): Place {
    const plain = typeof key === "string" && /^[A-Za-z_]\w*$/.test(key);
    const step = plain ? `.${key}` : `[${JSON.stringify(key)}]`;
    return this.below(step);
  }

  /** The place at a path below this one, such as that of a value that cannot be stored. */
  below(path: string): Place {
    const { problems, warnings, names, suggestions, budget, open } = this;
    return new Place(`${this.path}${path}`, problems, warnings, names, suggestions, budget, open);
  }

  /** Leaves a check that may take long to `checks`. What it reports is listed as if it were carried out now. */
  later(check: () => Slices<void>): void {
    this.open.push({ check, listedAt: this.problems.length });
  }

  /** The checks of the whole document that were left. Of a document over its budget none is carried out. */
  *checks(): Slices<void> {
    let moved = 0;
    for (const { check, listedAt } of this.open.splice(0)) {
      if (this.budget?.isOver) return;
      const before = this.problems.length;
      yield* check();
      const found = this.problems.splice(before);
      this.problems.splice(listedAt + moved, 0, ...found);
      moved += found.length;
    }
  }

  /** Warns of a name that no scope of the document gives. */
  warnOfName(name: string): void {
    const { scope } = this.names;
    if (scope && !scope.has(name))
      this.warn(`there is no name "${name.slice(0, 64)}" in any scope${this.suggest(name, scope)}`);
  }

  /** Warns of a variable that no step sets. It may come with the start of a run, so it is no problem. */
  warnOfVariable(name: string): void {
    const { variables } = this.names;
    if (variables && !variables.has(name))
      this.warn(`nothing in this definition sets vars.${name.slice(0, 128)}${this.suggest(name, variables)}`);
  }

  /** ` (did you mean "x"?)`, or nothing. */
  suggest(name: string, known: Iterable<string>): string {
    return this.suggestions.for(name, known);
  }

  /** False: the document is over its budget, which is reported where it ran out, and nothing more of it is compiled. */
  weigh(units: number): boolean {
    if (!this.budget) return true;
    const wasOver = this.budget.isOver;
    if (this.budget.spend(units)) return true;
    if (!wasOver)
      this.problem(
        `here the document is over its budget of ${DOCUMENT_BUDGET} units: expressions, schemas, patterns and edges together`,
      );
    return false;
  }

  /** The document is new, and is held to the rules of this release; a stored one has passed those of its own. */
  get isPosted(): boolean {
    return this.budget !== undefined;
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
