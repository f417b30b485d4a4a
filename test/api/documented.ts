// The OpenAPI document as a promise: an answer has a status, a content type and a body that the document gives its operation, and no
// member that it does not name. It sends nothing; the clients of the REST suites hand it what they receive.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { packageRoot } from "../../src/config/package.js";

export interface Heard {
  readonly method: string;
  /** With its query, if it has one. */
  readonly path: string;
  readonly status: number;
  readonly contentType: string | undefined;
  /** Parsed, if it is JSON. */
  readonly body: unknown;
}

interface Response {
  readonly content?: Readonly<Record<string, unknown>>;
}
interface Operation {
  readonly responses: Readonly<Record<string, Response>>;
}
interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}
interface Route {
  /** The name, as the document has it: "GET /api/v1/sagas/{id}". */
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly pattern: RegExp;
  readonly operation: Operation;
}

/** The document does not have this answer. */
export class Undocumented extends Error {
  override readonly name = "Undocumented";
}

const ROOT = "openapi.json";
/** Stricter than the document can say: UTC, with milliseconds. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
/** Answers from before there is a route. */
const WITHOUT_ROUTE: ReadonlySet<number> = new Set([405, 408, 417, 431]);

export class Documented {
  private readonly routes: readonly Route[];
  private readonly ajv = new Ajv2020({ strict: false, validateSchema: false });
  private readonly compiled = new Map<string, ValidateFunction>();

  constructor(document: OpenApi) {
    this.routes = Object.entries(document.paths).flatMap(([path, operations]) => routesOf(path, operations));
    formats.default(this.ajv);
    this.ajv.addFormat("date-time", TIME);
    this.ajv.addSchema(closed(document) as object, ROOT);
  }

  /** The names of all operations. */
  get operations(): readonly string[] {
    return this.routes.map(({ name }) => name);
  }

  /** The operation that answered, or undefined for what is no operation. Throws Undocumented if the document does not have this answer. */
  check(heard: Heard): string | undefined {
    const route = WITHOUT_ROUTE.has(heard.status) ? undefined : this.routeOf(heard);
    if (route) this.checkResponse(route, heard);
    else if (heard.status >= 400) this.conforms("components/schemas/Error", heard);
    return route?.name;
  }

  /** A resource outside of an answer: in the frame of a stream. Throws Undocumented if it is not as the document has it. */
  checkResource(name: string, body: unknown): void {
    this.conforms(`components/schemas/${name}`, { method: "the resource", path: name, status: 0, body });
  }

  private routeOf({ method: sent, path }: Heard): Route | undefined {
    const asked = sent === "HEAD" ? "GET" : sent;
    const bare = path.split("?")[0]?.replace(/(?<=.)\/$/, "") ?? "";
    const alike = this.routes.filter(({ pattern }) => pattern.test(bare));
    // A path without parameters comes first, as in the router.
    const exact = alike.filter(({ path }) => path === bare);
    return [...exact, ...alike].find(({ method }) => method === asked);
  }

  private checkResponse({ name, method, path, operation }: Route, heard: Heard): void {
    const response = operation.responses[heard.status];
    if (!response) throw new Undocumented(`${name} answered ${heard.status}, which the document does not have`);
    const type = heard.contentType?.split(";")[0];
    const declared = Object.keys(response.content ?? {});
    if (declared.length === 0 || heard.method === "HEAD") return mustBeEmpty(name, heard);
    if (type === undefined || !declared.includes(type))
      throw new Undocumented(`${name} answered ${heard.status} with ${type}; the document has ${declared.join(", ")}`);
    const at = ["paths", path, method.toLowerCase(), "responses", heard.status, "content", type, "schema"];
    this.conforms(at.map(pointerPart).join("/"), heard);
  }

  private conforms(pointer: string, { method, path, status, body }: Omit<Heard, "contentType">): void {
    const validate = this.compiled.get(pointer) ?? this.ajv.compile({ $ref: `${ROOT}#/${pointer}` });
    this.compiled.set(pointer, validate);
    if (validate(body)) return;
    const faults = this.ajv.errorsText(validate.errors, { dataVar: "the body" });
    const named = validate.errors?.flatMap(({ params }) => params.additionalProperty ?? []) ?? [];
    throw new Undocumented(
      `${method} ${path}: ${status} is not as the document has it: ${faults} ${named}\n${JSON.stringify(body)}`,
    );
  }
}

let current: Documented | undefined;

/** The operations of docs/openapi.json, which is what the service serves (test/docs). Its schemas are compiled once a process. */
export function documented(): Documented {
  current ??= new Documented(JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8")) as OpenApi);
  return current;
}

function routesOf(path: string, operations: Readonly<Record<string, Operation>>): Route[] {
  const pattern = new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{[^}]+\}/g, "[^/]+")}$`);
  return Object.entries(operations).map(([lower, operation]) => {
    const method = lower.toUpperCase();
    return { name: `${method} ${path}`, method, path, pattern, operation };
  });
}

/** What follows a 101 are frames. */
function mustBeEmpty(name: string, { status, body }: Heard): void {
  if (status === 101) return;
  if (body !== undefined && body !== "") throw new Undocumented(`${name} answered ${status} with a body`);
}

/** A part of a JSON pointer in the fragment of a URI. */
function pointerPart(part: string | number): string {
  return encodeURIComponent(String(part).replaceAll("~", "~0").replaceAll("/", "~1"));
}

/** An object that lists its members has no others, unless it says so. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closed(member)]));
  const lists = copy.type === "object" && "properties" in copy && Object.keys(copy.properties as object).length > 0;
  return lists && !("additionalProperties" in copy) ? { ...copy, additionalProperties: false } : copy;
}
