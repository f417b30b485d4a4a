// Versioned documents over HTTP: workflows and rules are posted, published and read in the same way; a `DocumentKind` has the
// differences. The store numbers versions and guards their changes; a compiler checks the documents.
import type { Sql } from "postgres";
import * as Type from "typebox";
import { isObject, type JsonObject } from "../../machines/index.js";
import { type ErrorDetail, invalidConfig, notFound } from "../errors.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { StoredVersion } from "../store/lists/versions.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, NoMembers, shaped } from "./http/body.js";
import { closeSignal } from "./http/close-signal.js";
import { Id, PageParameters, pageOf, path, query, Version } from "./http/parameters.js";
import { one, page, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import type { Resource } from "./schemas.js";

/** What this room needs of the store's `Versions`. */
export interface VersionStore<Draft> {
  /** `stored` is false if a version with the same content exists. */
  store(sql: Sql, draft: Draft): Promise<{ readonly document: StoredVersion; readonly stored: boolean }>;
  publish(sql: Sql, name: string, version: number, published: boolean): Promise<StoredVersion | undefined>;
  /** The version, or the latest published one. */
  read(sql: Sql, name: string, version?: number): Promise<StoredVersion | undefined>;
  exists(sql: Sql, name: string): Promise<boolean>;
  list(sql: Sql, page: PageQuery): Promise<Page<JsonObject>>;
  versions(sql: Sql, name: string, page: PageQuery): Promise<Page<JsonObject>>;
}

/** The ports that checking a document needs. */
export type Compiling = Pick<ApiDeps, "compile" | "catalog">;

type Problems = readonly ErrorDetail[];

export interface Report<Draft> {
  /** The document, ready for the store; absent if it has problems. */
  readonly draft?: Draft;
  readonly problems: Problems;
  readonly warnings: Problems;
}

export interface DocumentKind<Draft> {
  /** The word for the kind in sentences: `workflow`. */
  readonly noun: string;
  /** Below /api/v1, and the tag in the OpenAPI document: `workflows`. */
  readonly collection: string;
  /** The path parameter that holds the name all versions share: `wf_id`. */
  readonly parameter: string;
  /** The use of a published version, as a participle: `started`. */
  readonly use: string;
  readonly resource: Resource;
  /** Describes a posted document in the OpenAPI document. */
  readonly description: string;
  readonly store: VersionStore<Draft>;
  check(document: unknown, compiling: Compiling): Promise<Report<Draft>>;
}

/** The members that documents of every kind have about their storage. */
export function storageOf({ version, published, created_by: createdBy }: JsonObject) {
  return {
    version: typeof version === "number" ? version : undefined,
    publish: published === true,
    createdBy: typeof createdBy === "string" ? createdBy : undefined,
  };
}

export class VersionedResource<Draft> {
  constructor(private readonly kind: DocumentKind<Draft>) {}

  /** Stores the draft; `stored` is false if a version with the same content exists. */
  store(sql: Sql, draft: Draft): Promise<{ readonly document: StoredVersion; readonly stored: boolean }> {
    return this.kind.store.store(sql, draft);
  }

  /** Names the document in a log line. */
  label(document: StoredVersion): Readonly<Record<string, unknown>> {
    return { [`${this.kind.noun}_id`]: document.key, version: document.version };
  }

  /** The valid document and its warnings. Throws 400 `invalid_config` with every problem. */
  async draftOf(
    document: unknown,
    compiling: Compiling,
  ): Promise<{ readonly draft: Draft; readonly warnings: Problems }> {
    const { draft, problems, warnings } = await this.kind.check(document, compiling);
    if (draft !== undefined) return { draft, warnings };
    const [first] = problems;
    throw invalidConfig(`the ${this.kind.noun} is not valid: ${first?.path} ${first?.message}`, problems);
  }

  /** The version, or the latest published one. Throws 404. */
  async find(sql: Sql, name: string, version?: number): Promise<StoredVersion> {
    const found = await this.kind.store.read(sql, name, version);
    if (!found) throw this.missing(name, version);
    return found;
  }

  /** Throws 404 if the document has no version at all. */
  async mustExist(sql: Sql, name: string): Promise<void> {
    if (!(await this.kind.store.exists(sql, name))) throw this.missing(name);
  }

  missing(name: string, version?: number, published = version === undefined) {
    const which = version === undefined ? "version" : `version ${version}`;
    return notFound(`there is no ${published ? "published " : ""}${which} of ${this.kind.noun} ${name}`);
  }

  /** Create, publish, unpublish, list, get, versions. */
  routes(app: Api, deps: ApiDeps): void {
    this.createRoute(app, deps);
    this.publishRoute(app, deps, true);
    this.publishRoute(app, deps, false);
    this.listRoute(app, deps);
    this.getRoute(app, deps);
    this.versionsRoute(app, deps);
  }

  validateRoute(app: Api, deps: Compiling): void {
    const problem = Type.Object({ path: Type.String(), message: Type.String() });
    const report = Type.Object({ valid: Type.Boolean(), errors: Type.Array(problem), warnings: Type.Array(problem) });
    const response = responses({ 200: { description: "Every problem and warning.", ...report } }, 400, 413, 415);
    const schema = this.schema(`Validate a ${this.kind.noun} without storing it`, { body: this.body(), response });
    app.post(`${this.url}/validate`, { schema }, async ({ body }) => {
      const { problems, warnings } = await this.kind.check(withoutWarnings(body), deps);
      return { valid: problems.length === 0, errors: problems, warnings };
    });
  }

  private createRoute(app: Api, deps: ApiDeps): void {
    const { noun, store } = this.kind;
    const response = responses({ 200: this.one(), 201: this.one() }, 400, 409, 413, 415);
    const schema = this.schema(`Store a version of a ${noun}`, { body: this.body(), response });
    app.post(this.url, { schema }, async (request, reply) => {
      const { draft, warnings } = await this.draftOf(withoutWarnings(request.body), deps);
      const { document, stored } = await store.store(deps.sql, draft);
      await deps.catalog.refresh();
      const about = { ...this.label(document), stored, warnings: warnings.length, request_id: request.id };
      request.log.info(about, `${noun} posted`);
      const location = `${this.url}/${document.key}?version=${document.version}`;
      reply.status(stored ? 201 : 200).header("Location", location);
      return withWarnings(document, warnings);
    });
  }

  private publishRoute(app: Api, deps: ApiDeps, published: boolean): void {
    const [act, effect] = published ? ["publish", "can"] : ["unpublish", "can no longer"];
    const summary = `${published ? "Publish" : "Unpublish"} a version: it ${effect} be ${this.kind.use}`;
    const params = path({ [this.kind.parameter]: Id, version: Version });
    const response = responses({ 200: this.one() }, 400, 404, 413, 415);
    const schema = this.schema(summary, { params, body: NoMembers, response });
    app.post(`${this.item}/versions/:version/${act}`, { schema }, async ({ params }) => {
      const [name, version] = [this.name(params), Number(params.version)];
      const warnings = published ? await this.warningsOf(deps, name, version) : [];
      const document = await this.kind.store.publish(deps.sql, name, version, published);
      if (!document) throw this.missing(name, version);
      await deps.catalog.refresh();
      return withWarnings(document, warnings);
    });
  }

  /** A draft may have been stored by a release that allowed more: it is refused. What is published already stays, whatever is wrong with it. */
  private async warningsOf(deps: ApiDeps, name: string, version: number): Promise<Problems> {
    const stored = await this.kind.store.read(deps.sql, name, version);
    if (!stored) return [];
    const { warnings } = stored.published
      ? await this.kind.check(stored.item, deps)
      : await this.draftOf(stored.item, deps);
    return warnings;
  }

  private listRoute(app: Api, { readPool }: ApiDeps): void {
    const { collection, store } = this.kind;
    const response = responses({ 200: this.page() }, 400);
    const summary = `List ${collection}, each by its latest published version`;
    const schema = this.schema(summary, { querystring: PageParameters, response });
    app.get(this.url, { schema }, async ({ query }, reply) =>
      readPool.run(closeSignal(reply), (sql) => store.list(sql, pageOf(query))),
    );
  }

  private getRoute(app: Api, { readPool }: ApiDeps): void {
    const schema = this.schema(`Get the latest published version of a ${this.kind.noun}, or the version asked for`, {
      params: this.parameters(),
      querystring: query({ version: Version }),
      response: responses({ 200: this.one() }, 400, 404),
    });
    app.get(this.item, { schema }, async ({ params, query }, reply) => {
      const { item } = await readPool.look(closeSignal(reply), (sql) =>
        this.find(sql, this.name(params), query.version),
      );
      return item;
    });
  }

  private versionsRoute(app: Api, { readPool }: ApiDeps): void {
    const schema = this.schema(`List a ${this.kind.noun}'s versions, newest first`, {
      params: this.parameters(),
      querystring: PageParameters,
      response: responses({ 200: this.page() }, 400, 404),
    });
    app.get(`${this.item}/versions`, { schema }, async ({ params, query }, reply) => {
      const name = this.name(params);
      return readPool.run(closeSignal(reply), async (sql) => {
        await this.mustExist(sql, name);
        return this.kind.store.versions(sql, name, pageOf(query));
      });
    });
  }

  private get url(): string {
    return `/api/v1/${this.kind.collection}`;
  }

  private get item(): string {
    return `${this.url}/:${this.kind.parameter}`;
  }

  private parameters() {
    return path({ [this.kind.parameter]: Id });
  }

  private name(params: Readonly<Record<string, unknown>>): string {
    return String(params[this.kind.parameter]);
  }

  private schema<S extends object>(summary: string, schema: S) {
    return { tags: [this.kind.collection], summary, ...schema };
  }

  private one() {
    return one(`The ${this.kind.noun}.`, this.kind.resource);
  }

  private page() {
    return page(`A page of ${this.kind.collection}.`, this.kind.resource);
  }

  /** Only the compiler checks the document: it names every problem, even if the document is not an object. */
  private body() {
    return shaped<unknown>(AnyObject({ description: this.kind.description }), () => ANYTHING);
  }
}

const withWarnings = ({ item }: StoredVersion, warnings: Problems) =>
  warnings.length > 0 ? { ...item, warnings } : item;

/** An answer can be posted as it came: its warnings are about the document, and not of it. */
function withoutWarnings(body: unknown): unknown {
  if (!isObject(body) || !Object.hasOwn(body, "warnings")) return body;
  const { warnings: _, ...document } = body;
  return document;
}

const ANYTHING = Type.Unknown();
