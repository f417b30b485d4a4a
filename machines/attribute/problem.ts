// The places of a document, where parsers read and report. Validation does not stop at the first problem; findings.ts has the list.

import type { FindingCode } from "../values/finding-code.js";
import { pathElement } from "../values/json-path.js";
import type { Slices } from "../values/slices.js";
import { type Budget, DOCUMENT_BUDGET } from "./budget.js";
import { Findings } from "./findings.js";
import { Suggestions } from "./suggestion.js";

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

/** What all places of a document share. */
interface Document {
  readonly problems: Findings;
  readonly warnings: Findings;
  readonly names: DocumentNames;
  readonly suggestions: Suggestions;
  readonly budget?: Budget;
  readonly open: Later[];
}

export interface DocumentOptions {
  readonly problems?: Findings;
  readonly warnings?: Findings;
  readonly names?: DocumentNames;
  readonly budget?: Budget;
}

/** A place in a document: where a parser reads, and where it reports. Its path is put together when there is something to report. */
export class Place {
  private constructor(
    private readonly document: Document,
    /** An index, or the text of a path. */
    private readonly element: string | number,
    private readonly parent?: Place,
  ) {}

  /** The place of a document itself. */
  static of(path: string, options: DocumentOptions = {}): Place {
    const { problems = new Findings("problems"), warnings = new Findings("warnings"), names = {}, budget } = options;
    return new Place({ problems, warnings, names, suggestions: new Suggestions(), budget, open: [] }, path);
  }

  get path(): string {
    const { element, parent } = this;
    const text = typeof element === "number" ? pathElement(element) : element;
    return parent ? parent.path + text : text;
  }

  /** The path as people write it in a sentence: `steps[2].inputs`. Undefined: the place is not in a document. */
  get inDocument(): string | undefined {
    const { path } = this;
    return path.startsWith("$.") ? path.slice(2) : undefined;
  }

  /** The place of a member or an item below this one. */
  at(key: string | number): Place {
    return new Place(this.document, typeof key === "number" ? key : pathElement(key), this);
  }

  /** The place at a path below this one, such as that of a value that cannot be stored. */
  below(path: string): Place {
    return new Place(this.document, path, this);
  }

  /** Leaves a check that may take long to `checks`. What it reports is listed as if it were carried out now. */
  later(check: () => Slices<void>): void {
    const { open, problems } = this.document;
    open.push({ check, listedAt: problems.end });
  }

  /** The checks of the whole document that were left. Of a document over its budget none is carried out. */
  *checks(): Slices<void> {
    const { open, problems, budget } = this.document;
    let moved = 0;
    for (const { check, listedAt } of open.splice(0)) {
      if (budget?.isOver) return;
      const before = problems.end;
      yield* check();
      moved += problems.move(before, listedAt + moved);
    }
  }

  /** Warns of a name that no scope of the document gives. */
  warnOfName(name: string): void {
    const { scope } = this.document.names;
    if (scope && !scope.has(name))
      this.warn("name_unknown", `there is no name "${name.slice(0, 64)}" in any scope${this.suggest(name, scope)}`);
  }

  /** Warns of a variable that no step sets. It may come with the start of a run, so it is no problem. */
  warnOfVariable(name: string): void {
    const { variables } = this.document.names;
    if (variables && !variables.has(name))
      this.warn(
        "variable_unset",
        `nothing in this definition sets vars.${name.slice(0, 128)}${this.suggest(name, variables)}`,
      );
  }

  /** ` (did you mean "x"?)`, or nothing. */
  suggest(name: string, known: Iterable<string>): string {
    return this.document.suggestions.for(name, known);
  }

  /** False: the document is over its budget, which is reported where it ran out, and nothing more of it is compiled. */
  weigh(units: number): boolean {
    const { budget } = this.document;
    if (!budget) return true;
    const wasOver = budget.isOver;
    if (budget.spend(units)) return true;
    if (!wasOver)
      this.report(
        `here the document is over its budget of ${DOCUMENT_BUDGET} units: expressions, schemas, patterns and edges together`,
        true,
      );
    return false;
  }

  /** The number of problems of the whole document so far. */
  get problemCount(): number {
    return this.document.problems.count;
  }

  /** Reports a problem; returns undefined, so that a parser can end with it. */
  problem(message: string): undefined {
    this.report(message);
    return undefined;
  }

  /** Reports one problem for each item, as far as problems are listed; the others are counted. */
  problems<Item>(items: readonly Item[], report: (item: Item) => void): void {
    const { problems } = this.document;
    for (const [index, item] of items.entries()) {
      if (problems.isFull) return problems.addUnlisted(items.length - index);
      report(item);
    }
  }

  warn(code: FindingCode, message: string): void {
    this.document.warnings.add(() => ({ path: this.path, message, code }));
  }

  private report(message: string, always?: boolean): void {
    this.document.problems.add(() => ({ path: this.path, message }), always);
  }
}
