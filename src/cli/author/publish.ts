// `saga publish` and `saga diff`: documents of files against those of the service. Whether a document is valid is the service's decision.
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { JsonObject } from "../frame/input.js";
import { Refusal, type Service } from "../frame/service.js";
import { safe } from "../frame/text.js";
import type { Problem } from "../modules/documents.js";
import { edits, hunks } from "./line-diff.js";
import { type Loaded, load } from "./load.js";

interface Validated {
  readonly valid: boolean;
  readonly errors: readonly Problem[];
  readonly warnings: readonly Problem[];
}

type Stored = JsonObject & { readonly version: number; readonly warnings?: readonly Problem[] };

interface Published {
  readonly kind: Loaded["kind"];
  readonly id: string;
  readonly version?: number;
  /** `valid`: only checked. */
  readonly result: "published" | "draft" | "unchanged" | "valid";
  readonly warnings: readonly Problem[];
}

/** All documents are checked before the first one is stored. */
export async function publish(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const { documents: loaded } = await load(context.arguments(0), context);
  const service = await context.service();
  const validated = await Promise.all(loaded.map((each) => validate(service, each)));
  const wrong = validated.flatMap(({ errors }, index) => linesOf(loaded[index]?.from ?? "", errors));
  if (wrong.length > 0) throw new Failure(`nothing was published:\n${wrong.join("\n")}`, EXIT.failed);
  const results: Published[] = [];
  for (const [index, each] of loaded.entries()) {
    context.goOn();
    const warnings = validated[index]?.warnings ?? [];
    results.push(
      context.flag("dryRun")
        ? { kind: each.kind, id: each.id, result: "valid", warnings }
        : await store(service, each, context.flag("draft"), warnings),
    );
    for (const line of linesOf(each.from, warnings)) terminal.note(`warning:${line.slice(1)}`);
  }
  if (context.json) terminal.printJson(results);
  else for (const result of results) terminal.print(sentenceOf(result));
  return EXIT.succeeded;
}

/** Rules have no route of their own for it: they are checked when they are stored. */
async function validate(service: Service, { kind, document }: Loaded): Promise<Validated> {
  if (kind === "rule") return { valid: true, errors: [], warnings: [] };
  return service.post<Validated>("/workflows/validate", document);
}

async function store(
  service: Service,
  { kind, id, document }: Loaded,
  isDraft: boolean,
  warnings: readonly Problem[],
): Promise<Published> {
  const path = kind === "workflow" ? "/workflows" : "/rules";
  const before = await latestOf(service, kind, id);
  const stored = await service.post<Stored>(path, { ...document, published: !isDraft });
  const isKnown = before?.version === stored.version && before.published === !isDraft;
  const result = isKnown ? "unchanged" : isDraft ? "draft" : "published";
  return { kind, id, version: stored.version, result, warnings };
}

/** The latest published version. Undefined: there is none. */
async function latestOf(
  service: Service,
  kind: Loaded["kind"],
  id: string,
  version?: number,
): Promise<Stored | undefined> {
  const path = `/${kind === "workflow" ? "workflows" : "rules"}/${encodeURIComponent(id)}`;
  try {
    return await service.get<Stored>(path, version === undefined ? {} : { version });
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return undefined;
    throw error;
  }
}

function sentenceOf({ kind, id, version, result }: Published): string {
  if (result === "valid") return `${kind} ${id} is valid`;
  if (result === "unchanged") return `${kind} ${id} ${version} is unchanged`;
  return result === "draft" ? `${kind} ${id} ${version} is stored as a draft` : `${kind} ${id} ${version} is published`;
}

const linesOf = (from: string, problems: readonly Problem[]): string[] =>
  problems.map(({ path, message }) => `  ${from}: ${safe(`${path} ${message}`)}`);

/** What the service adds to a document, and what a version is called. */
const OF_THE_SERVICE = ["version", "published", "created_at", "warnings"];

/** The documents are compared as JSON with sorted members, because their order means nothing. */
export async function diff(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const { documents: loaded } = await load(context.arguments(0), context);
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const service = await context.service();
  const found: { id: string; kind: string; version?: number; state: string; lines: readonly string[] }[] = [];
  for (const each of loaded) {
    const published = await latestOf(service, each.kind, each.id, version);
    const { tenant_id, id, ...rest } = each.document;
    const ownMembers = each.kind === "rule" ? { id: undefined } : { id };
    const local = { ...rest, ...ownMembers, ...(tenant_id !== undefined && { tenant_id }) };
    const remote = published === undefined ? {} : withoutAdded(published, each);
    const lines = hunks(edits(published === undefined ? [] : text(remote), text(without(local, OF_THE_SERVICE))));
    const state = published === undefined ? "new" : lines.length === 0 ? "same" : "different";
    found.push({ kind: each.kind, id: each.id, ...(published && { version: published.version }), state, lines });
  }
  if (context.json) terminal.printJson(found);
  else
    for (const { kind, id, version, state, lines } of found) {
      if (state === "same") terminal.note(`${kind} ${id} is the same as version ${version}`);
      else terminal.print(`--- ${kind} ${id} ${version ?? "(not published)"}\n+++ ${kind} ${id} (file)`);
      for (const line of lines) terminal.print(painted(line));
    }
  return found.every(({ state }) => state === "same") ? EXIT.succeeded : EXIT.failed;

  function painted(line: string): string {
    const text = safe(line);
    if (line.startsWith("+")) return terminal.paint("green", text);
    if (line.startsWith("-")) return terminal.paint("red", text);
    return line.startsWith("@@") ? terminal.paint("cyan", text) : text;
  }
}

/** `id` of a stored rule is that of its version; `tenant_id` is there if the credential has one. */
function withoutAdded(published: Stored, { kind, document }: Loaded): JsonObject {
  const added = [...OF_THE_SERVICE, ...(kind === "rule" ? ["id"] : [])];
  return without(published, document.tenant_id === undefined ? [...added, "tenant_id"] : added);
}

const without = (document: JsonObject, members: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(document).filter(([name]) => !members.includes(name)));

const text = (document: JsonObject): string[] => JSON.stringify(sorted(document), null, 2).split("\n");

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
}
