// The project's definitions and triggers: read when their files change, published when they are other than before. The service alone says whether one is right; a
// wrong one changes nothing there.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseJsonFile } from "../../json-text.js";
import { type Kind, kindOf, NO_DOCUMENT, type Problem } from "../modules/documents.js";
import { type Exported, type ModulesOptions, readModules, SOURCE } from "../modules/modules.js";
import type { Api, Document, Posted, Refused } from "./api.js";
import type { Printer } from "./printer.js";
import { isModule, type Project } from "./project.js";
import { type Applied, Triggers } from "./triggers.js";

interface Definition {
  readonly kind: Kind;
  /** Of a trigger: where it is from. */
  readonly id: string;
  readonly text: string;
  /** The file, and behind `#` the export of a module. */
  readonly from: string;
}

export interface DefinitionsOptions extends ModulesOptions {
  readonly api: Api;
  readonly printer: Printer;
  /** It has a file of which triggers have been made. */
  readonly dataDir: string;
}

const NOTHING: ReadonlySet<string> = new Set();
const MOST_PROBLEMS = 20;

export class Definitions {
  /** What was posted last of each, by kind and id. */
  private readonly posted = new Map<string, string>();
  private readonly triggers: Triggers;
  /** What was said last of a trigger that is refused: it is tried again with each change, because it needs its workflow. */
  private readonly refused = new Map<string, string>();
  /** Problems of files that have been said. */
  private said = new Map<string, string>();
  private exported: Exported | undefined;
  private modules: readonly string[] = [];
  private wasEmpty = false;

  constructor(private readonly options: DefinitionsOptions) {
    this.triggers = new Triggers(options.api, options.dataDir);
  }

  /** Whether something that is published may be other now. */
  concerns(changed: ReadonlySet<string>, { isDefinition }: Project): boolean {
    return (
      [...changed].some(isDefinition) ||
      this.exported?.loads.has(changed) === true ||
      (this.hasFailed && hasSource(changed))
    );
  }

  /** A module that could not be loaded may lack a file that is there now. */
  private get hasFailed(): boolean {
    return [...(this.exported?.modules.values() ?? [])].some(({ error }) => error !== undefined);
  }

  /** Reads all, publishes what is new. Never rejects: what is wrong is printed, and read again with the next change. */
  async refresh(project: Project, signal: AbortSignal, changed: ReadonlySet<string> = NOTHING): Promise<void> {
    const { printer } = this.options;
    const isEmpty = project.definitions.length === 0;
    if (isEmpty && !this.wasEmpty)
      printer.say("info", `no definitions: looked for .json, .ts and .js files in ${project.patterns.join(", ")}`);
    this.wasEmpty = isEmpty;
    const problems = new Map<string, string>();
    const found = await this.read(project, signal, changed, problems);
    if (signal.aborted) return;
    for (const [file, problem] of problems)
      if (this.said.get(file) !== problem) printer.say("error", `${file}: ${problem}`, { file }, "definitions");
    this.said = problems;
    for (const definition of found) if (!signal.aborted) await this.publish(definition, signal);
    await this.withdraw(found, problems, signal);
  }

  private async read(
    project: Project,
    signal: AbortSignal,
    changed: ReadonlySet<string>,
    problems: Map<string, string>,
  ): Promise<Definition[]> {
    const found: Definition[] = [];
    for (const path of project.definitions.filter((file) => !isModule(file))) {
      try {
        const document = parseJsonFile(await readFile(join(project.folder, path)));
        const definition = definitionOf(document, path);
        if (definition) found.push(definition);
        else problems.set(path, `${NO_DOCUMENT}: nothing is published of it`);
      } catch (error) {
        // Gone since the folder was read.
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") problems.set(path, (error as Error).message);
      }
    }
    for (const [path, { documents, error }] of (await this.readModules(project, signal, changed)).modules) {
      if (error !== undefined) problems.set(path, error);
      for (const { name, text } of documents) {
        const definition = definitionOf(JSON.parse(text), `${path}#${name}`);
        if (definition) found.push(definition);
      }
    }
    return withoutRepeats(found, problems);
  }

  /** Again only if one of the modules, or what they load, has changed. */
  private async readModules(project: Project, signal: AbortSignal, changed: ReadonlySet<string>): Promise<Exported> {
    const modules = project.definitions.filter(isModule);
    const isSame = modules.join("\n") === this.modules.join("\n");
    if (this.exported && isSame && !this.exported.loads.has(changed) && !(this.hasFailed && hasSource(changed)))
      return this.exported;
    const exported = await readModules(modules, this.options, signal);
    if (!signal.aborted) {
      this.exported = exported;
      this.modules = modules;
    }
    return exported;
  }

  private async publish(definition: Definition, signal: AbortSignal): Promise<void> {
    const { kind, id, text, from } = definition;
    const { api, printer } = this.options;
    const key = `${kind}/${id}`;
    if (this.posted.get(key) === text) return;
    const document: Document = JSON.parse(text);
    let report: () => void;
    try {
      if (kind === "trigger") {
        const applied = await this.triggers.apply(from, document, signal);
        if ("refusal" in applied) return this.refuseTrigger(from, applied);
        this.refused.delete(from);
        report = () => this.reportTrigger(from, document, applied);
      } else {
        const posted = await api.publish(kind, id, document, signal);
        report = () => this.report(definition, posted);
      }
    } catch (error) {
      if (signal.aborted) return;
      return printer.say(
        "error",
        `${from}: ${id} could not be published: ${reasonOf(error)}`,
        { file: from, id },
        "definitions",
      );
    }
    this.posted.set(key, text);
    report();
  }

  private reportTrigger(
    from: string,
    { workflow_id: workflow }: Document,
    { id, done }: Exclude<Applied, Refused>,
  ): void {
    const message = `trigger ${id} of ${workflow} is ${done} (${from})`;
    this.options.printer.say("info", message, { file: from, id, done }, "definitions");
  }

  private refuseTrigger(from: string, refused: Refused): void {
    const message = refusalText(`${from}: the trigger`, refused);
    if (this.refused.get(from) === message) return;
    this.refused.set(from, message);
    this.options.printer.say("error", message, { file: from, problems: refused.problems }, "definitions");
  }

  /** What a file that cannot be read has made stays. */
  private async withdraw(
    found: readonly Definition[],
    problems: ReadonlyMap<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const { printer } = this.options;
    const there = new Set(found.map(({ from }) => from));
    const isGone = (from: string) =>
      !there.has(from) && !problems.has(from) && !problems.has(from.replace(/#[^#]*$/, ""));
    try {
      for (const [from, id] of await this.triggers.withdraw(isGone, signal)) {
        this.posted.delete(`trigger/${from}`);
        printer.say("info", `trigger ${id} is deleted: ${from} is gone`, { file: from, id }, "definitions");
      }
    } catch (error) {
      if (signal.aborted) return;
      printer.say("error", `a trigger could not be deleted: ${reasonOf(error)}`, {}, "definitions");
    }
  }

  private report({ id, from }: Definition, outcome: Posted): void {
    const { printer } = this.options;
    if ("refusal" in outcome) {
      const message = refusalText(`${from}: ${id}`, outcome);
      return printer.say("error", message, { file: from, id, problems: outcome.problems }, "definitions");
    }
    const { version, isNew, warnings } = outcome;
    const done = isNew ? `version ${version} is published` : `version ${version} is as it was`;
    printer.say("info", `${id}: ${done} (${from})`, { file: from, id, version, new: isNew }, "definitions");
    if (warnings.length > 0)
      printer.say(
        "warn",
        [`${from}: ${id}`, ...linesOf(warnings)].join("\n"),
        { file: from, id, problems: warnings },
        "definitions",
      );
  }
}

const hasSource = (changed: ReadonlySet<string>) => [...changed].some((path) => SOURCE.test(path));

function refusalText(subject: string, { refusal, problems }: Refused): string {
  const lines = problems.length > 0 ? linesOf(problems) : [refusal];
  return [`${subject} is not valid, and is not published:`, ...lines].join("\n");
}

function linesOf(problems: readonly Problem[]): string[] {
  const shown = problems.slice(0, MOST_PROBLEMS).map(({ path, message }) => `${path} ${message}`);
  return problems.length > MOST_PROBLEMS ? [...shown, `and ${problems.length - MOST_PROBLEMS} more`] : shown;
}

function definitionOf(document: unknown, from: string): Definition | undefined {
  const kind = kindOf(document);
  if (kind === undefined) return undefined;
  const { id, rule_id: rule } = document as Document;
  const ids: Readonly<Record<Kind, unknown>> = { workflow: id, rule, trigger: from };
  return { kind, id: String(ids[kind]), text: JSON.stringify(document), from };
}

/** Rules before the workflows that name them, sub-sagas as they come, triggers behind their workflows. */
const ORDER: readonly Kind[] = ["rule", "workflow", "trigger"];

/** Of one id in two files the first counts. */
function withoutRepeats(found: readonly Definition[], problems: Map<string, string>): Definition[] {
  const first = new Map<string, Definition>();
  for (const definition of found) {
    const key = `${definition.kind}/${definition.id}`;
    const other = first.get(key);
    if (other) problems.set(definition.from, `${definition.id} is in ${other.from}, too: that one is published`);
    else first.set(key, definition);
  }
  return [...first.values()].sort((left, right) => ORDER.indexOf(left.kind) - ORDER.indexOf(right.kind));
}

/** `fetch` hides why under its cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error & { cause?: { code?: string } };
  return cause?.code ?? message;
}
