// Versioned documents over HTTP: workflows and rules are posted, published and read in the same way; a `DocumentKind` has the
// differences. The store numbers versions and guards their changes; a compiler checks the documents.
import type { Sql } from "postgres";
import * as Type from "typebox";
import { isObject, isUuid, type JsonObject, type NeededRights } from "../../machines/index.js";
import { isAnyone, ownerFor, type Principal, type Reach, type Role, reachOf, tenantsOf } from "../access/index.js";
import { conflict, type ErrorDetail, invalidConfig, notFound } from "../errors.js";
import type { Page, PageQuery } from "../store/lists/page.js";
import type { Reach as ReadReach } from "../store/lists/reach.js";
import type { Claim, Posted, StoredVersion } from "../store/lists/versions.js";
import type { Tenants } from "../store/owners.js";
import { refuseForeign } from "./authoring.js";
import type { ApiDeps } from "./deps.js";
import { AnyObject, NoMembers, shaped } from "./http/body.js";
import { Id, PageParameters, pageOf, path, query, Version } from "./http/parameters.js";
import { readerOf } from "./http/reader.js";
import { one, page, responses } from "./http/responses.js";
import type { Api } from "./http/validation.js";
import type { Resource } from "./schemas.js";

/** What this room needs of the store's `Versions`. */
export interface VersionStore<Draft> {
  /** Throws 409. */
  store(sql: Sql, draft: Draft, claim: Claim): Promise<Posted>;
  /** `id`: of the content that was checked. Undefined: another one has taken its place. */
  publish(sql: Sql, name: string, version: number, published: boolean, id: string): Promise<StoredVersion | undefined>;
  /** The version, or the latest published one. */
  read(sql: Sql, name: string, version?: number, reach?: ReadReach): Promise<StoredVersion | undefined>;
  /** Whether it is within the reach, in any version. */
  isSeen(sql: Sql, reach: ReadReach, name: string): Promise<boolean>;
  list(sql: Sql, reach: ReadReach, page: PageQuery): Promise<Page<JsonObject>>;
  versions(sql: Sql, reach: ReadReach, name: string, page: PageQuery): Promise<Page<JsonObject>>;
}

/** The ports that checking a document needs. */
export type Compiling = Pick<ApiDeps, "compile" | "catalog">;

type Problems = readonly ErrorDetail[];

export interface Report<Draft> {
  /** The document, ready for the store; absent if it has problems. */
  readonly draft?: Draft;
  /** What it needs rights for. Absent: nothing. */
  readonly needs?: NeededRights;
  readonly problems: Problems;
  readonly warnings: Problems;
}

/** What all drafts have. */
export interface AnyDraft {
  readonly key: string;
  readonly forTenant?: string;
  readonly publish: boolean;
}

/** A document that someone posts, publishes or unpublishes. */
export interface Change {
  readonly principal: Principal;
  readonly key: string;
  /** Null: the platform's. */
  readonly owner: string | null;
  readonly needs?: NeededRights;
  readonly publishes: boolean;
}

export interface DocumentKind<Draft extends AnyDraft> {
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
  /** `tenants`: whose registrations and rules exist for who asks. */
  check(document: unknown, compiling: Compiling, tenants: Tenants): Promise<Report<Draft>>;
  /** Throws 403. */
  authorize(change: Change, deps: ApiDeps): void;
  exists(reach: Reach, version: StoredVersion): boolean;
}

/** The members that documents of every kind have about their storage. */
export function storageOf({ version, published, created_by: createdBy }: JsonObject) {
  return {
    version: typeof version === "number" ? version : undefined,
    publish: published === true,
    createdBy: typeof createdBy === "string" ? createdBy : undefined,
  };
}

/** For whom a document is stored that names this tenant, or none. With access off each is what it says. Throws 403. */
export function claimOf(principal: Principal, forTenant: string | undefined): Claim {
  // No run can have another: see `tenant` in machines/attribute/kinds.ts.
  const named = forTenant !== undefined && isUuid(forTenant) ? forTenant : undefined;
  if (isAnyone(principal)) return { tenantId: named ?? null, exclusive: false };
  const isOther = forTenant !== undefined && named === undefined && principal.tenantId !== undefined;
  return { tenantId: ownerFor(principal, isOther ? forTenant : named) ?? null, exclusive: true };
}

export class VersionedResource<Draft extends AnyDraft> {
  constructor(private readonly kind: DocumentKind<Draft>) {}

  /** Throws 403, 409. */
  store(sql: Sql, draft: Draft, principal: Principal) {
    return this.kind.store.store(sql, draft, claimOf(principal, draft.forTenant));
  }

  /** Names the document in a log line. */
  label(document: StoredVersion): Readonly<Record<string, unknown>> {
    return { [`${this.kind.noun}_id`]: document.key, version: document.version };
  }

  /** The valid document and its warnings. Throws 400 `invalid_config` with every problem. */
  async draftOf(
    document: unknown,
    compiling: Compiling,
    tenants: Tenants,
  ): Promise<Report<Draft> & { readonly draft: Draft }> {
    const { draft, ...report } = await this.kind.check(document, compiling, tenants);
    if (draft !== undefined) return { draft, ...report };
    const { problems } = report;
    const [first] = problems;
    throw invalidConfig(`the ${this.kind.noun} is not valid: ${first?.path} ${first?.message}`, problems);
  }

  /** The version, or the latest published one. Throws 404. */
  async find(sql: Sql, reach: ReadReach, name: string, version?: number): Promise<StoredVersion> {
    const found = await this.kind.store.read(sql, name, version, reach);
    if (!found) throw this.missing(name, version);
    return found;
  }

  /** Throws 404 if the document has no version at all. */
  async mustExist(sql: Sql, reach: ReadReach, name: string): Promise<void> {
    if (!(await this.kind.store.isSeen(sql, reach, name))) throw this.missing(name);
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
    const schema = this.schema("operator", `Validate a ${this.kind.noun} without storing it`, {
      body: this.body(),
      response,
    });
    app.post(`${this.url}/validate`, { schema }, async ({ body, principal }) => {
      const { problems, warnings } = await this.kind.check(withoutWarnings(body), deps, tenantsOf(principal));
      return { valid: problems.length === 0, errors: problems, warnings };
    });
  }

  private createRoute(app: Api, deps: ApiDeps): void {
    const { noun, store } = this.kind;
    const response = responses({ 200: this.one(), 201: this.one() }, 400, 409, 413, 415);
    const schema = this.schema("author", `Store a version of a ${noun}`, { body: this.body(), response });
    app.post(this.url, { schema }, async (request, reply) => {
      const { principal } = request;
      const { draft, warnings, needs } = await this.draftOf(withoutWarnings(request.body), deps, tenantsOf(principal));
      const claim = claimOf(principal, draft.forTenant);
      const { key, publish: publishes } = draft;
      this.kind.authorize({ principal, key, owner: claim.tenantId, publishes, ...(needs && { needs }) }, deps);
      const { document, stored, published } = await store.store(deps.sql, draft, claim);
      await deps.catalog.refresh();
      const about = { ...this.label(document), stored, warnings: warnings.length, request_id: request.id };
      request.log.info(about, `${noun} posted`);
      if (published) request.did(`${noun} published`, this.label(document));
      const location = `${this.url}/${document.key}?version=${document.version}`;
      reply.status(stored ? 201 : 200).header("Location", location);
      return withWarnings(document, warnings);
    });
  }

  private publishRoute(app: Api, deps: ApiDeps, published: boolean): void {
    const [act, effect] = published ? ["publish", "can"] : ["unpublish", "can no longer"];
    const summary = `${published ? "Publish" : "Unpublish"} a version: it ${effect} be ${this.kind.use}`;
    const params = path({ [this.kind.parameter]: Id, version: Version });
    const response = responses({ 200: this.one() }, 400, 404, 409, 413, 415);
    const schema = this.schema("author", summary, { params, body: NoMembers, response });
    app.post(`${this.item}/versions/:version/${act}`, { schema }, async (request) => {
      const { params, principal } = request;
      const [name, version] = [this.name(params), Number(params.version)];
      const stored = await this.kind.store.read(deps.sql, name, version);
      if (!stored || !this.kind.exists(reachOf(principal), stored)) throw this.missing(name, version);
      const { warnings, needs } = published ? await this.reportOn(stored, deps, principal) : NOTHING_TO_REPORT;
      const { key, tenantId: owner } = stored;
      refuseForeign(principal, owner);
      this.kind.authorize({ principal, key, owner, publishes: published, ...(needs && { needs }) }, deps);
      const document = await this.kind.store.publish(deps.sql, name, version, published, stored.id);
      if (!document)
        throw conflict(`version ${version} of ${this.kind.noun} ${name} was replaced meanwhile: look at it again`);
      await deps.catalog.refresh();
      request.did(`${this.kind.noun} ${published ? "published" : "unpublished"}`, this.label(document));
      return withWarnings(document, warnings);
    });
  }

  /**
   * A draft may have been stored by a release that allowed more: it is refused. What is published already stays, whatever is wrong with it, and whoever
   * publishes it once more.
   */
  private async reportOn(stored: StoredVersion, deps: ApiDeps, principal: Principal): Promise<Report<Draft>> {
    const tenants = tenantsOf(principal);
    if (!stored.published) return this.draftOf(stored.item, deps, tenants);
    const { problems, warnings } = await this.kind.check(stored.item, deps, tenants);
    return { problems, warnings };
  }

  private listRoute(app: Api, { readPool }: ApiDeps): void {
    const { collection, store } = this.kind;
    const response = responses({ 200: this.page() }, 400);
    const summary = `List ${collection}, each by its latest published version`;
    const schema = this.schema("viewer", summary, { querystring: PageParameters, response });
    app.get(this.url, { schema }, async (request, reply) =>
      readPool.run(readerOf(request, reply), (sql, reach) => store.list(sql, reach, pageOf(request.query))),
    );
  }

  private getRoute(app: Api, { readPool }: ApiDeps): void {
    const schema = this.schema(
      "viewer",
      `Get the latest published version of a ${this.kind.noun}, or the version asked for`,
      {
        params: this.parameters(),
        querystring: query({ version: Version }),
        response: responses({ 200: this.one() }, 400, 404),
      },
    );
    app.get(this.item, { schema }, async (request, reply) => {
      const { params, query } = request;
      const { item } = await readPool.look(readerOf(request, reply), (sql, reach) =>
        this.find(sql, reach, this.name(params), query.version),
      );
      return item;
    });
  }

  private versionsRoute(app: Api, { readPool }: ApiDeps): void {
    const schema = this.schema("viewer", `List a ${this.kind.noun}'s versions, newest first`, {
      params: this.parameters(),
      querystring: PageParameters,
      response: responses({ 200: this.page() }, 400, 404),
    });
    app.get(`${this.item}/versions`, { schema }, async (request, reply) => {
      const name = this.name(request.params);
      return readPool.run(readerOf(request, reply), async (sql, reach) => {
        await this.mustExist(sql, reach, name);
        return this.kind.store.versions(sql, reach, name, pageOf(request.query));
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

  private schema<S extends object>(role: Role, summary: string, schema: S) {
    return { tags: [this.kind.collection], "x-saga-role": role, summary, ...schema };
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

const NOTHING_TO_REPORT: Report<never> = { problems: [], warnings: [] };

/** Codes of warnings are for programs that check files; the wire has the message, which says it in words. */
export const onWire = (warnings: Problems): Problems => warnings.map(({ path, message }) => ({ path, message }));

const withWarnings = ({ item }: StoredVersion, warnings: Problems) =>
  warnings.length > 0 ? { ...item, warnings } : item;

/** An answer can be posted as it came: its warnings are about the document, and not of it. */
function withoutWarnings(body: unknown): unknown {
  if (!isObject(body) || !Object.hasOwn(body, "warnings")) return body;
  const { warnings: _, ...document } = body;
  return document;
}

const ANYTHING = Type.Unknown();
