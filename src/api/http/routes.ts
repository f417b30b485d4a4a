// Which paths there are, and with which methods: for refusals that name the methods of a path, and for upgrades. Requests are
// routed by Fastify; this table answers what its router does not tell.
import type { FastifyInstance, FastifyRequest, RouteOptions } from "fastify";
import type { TObject } from "typebox";
import { methodNotAllowed, type SagaError } from "../../errors.js";
import { noRoute } from "./envelope.js";
import { parameterCheck } from "./parameters.js";

declare module "fastify" {
  interface FastifyRequest {
    /** See routeOf. */
    matched: FastifyRequest["routeOptions"] | undefined;
  }
}

/** The options of the route that was found. Fastify makes an object of them each time that it is asked, and ten hooks ask. */
export function routeOf(request: FastifyRequest): FastifyRequest["routeOptions"] {
  request.matched ??= request.routeOptions;
  return request.matched;
}

interface Route {
  readonly matches: RegExp;
  readonly methods: Set<string>;
  /** Whether the path, which matches, has parameters as the route wants them: `start` is no id of a run. */
  readonly takes: (path: string) => boolean;
}

export class RouteTable {
  /** Each route under the pattern of its URL. */
  private readonly routes = new Map<string, Route>();
  /** Patterns without parameters. */
  private readonly fixed = new Map<string, Route>();
  private readonly webSockets: RegExp[] = [];

  add({ url, method, wsHandler, schema }: Pick<RouteOptions, "url" | "method" | "wsHandler" | "schema">): void {
    const pattern = trimmed(url);
    const matches = matcher(pattern);
    const known = this.routes.get(pattern);
    const route = known ?? { matches, methods: new Set(), takes: taker(pattern, matches, schema?.params) };
    for (const each of Array.isArray(method) ? method : [method]) route.methods.add(each);
    this.routes.set(pattern, route);
    if (!/[:*]/.test(pattern)) this.fixed.set(pattern, route);
    if (wsHandler) this.webSockets.push(route.matches);
  }

  isWebSocket(url: string): boolean {
    const path = pathOf(url);
    return this.webSockets.some((pattern) => pattern.test(path));
  }

  /** The methods of this path, if the request has another one. */
  otherMethods(request: FastifyRequest): readonly string[] {
    const { url, method, is404 } = request;
    // The router has found a path without parameters, and with this method.
    if (!is404 && this.fixed.has(routeOf(request).url ?? "")) return [];
    const path = pathOf(url);
    const fixed = this.fixed.get(path);
    if (fixed ? fixed.methods.has(method) : !is404) return [];
    // `GET /sagas/start` is no run with the id "start", but `GET /workflows/validate` is the workflow of that name.
    const alike = [...this.routes.values()].filter(
      ({ matches, takes }) => matches.test(path) && (!fixed || takes(path)),
    );
    const methods = new Set(alike.flatMap((route) => [...route.methods]));
    return methods.has(method) ? [] : [...methods].sort();
  }
}

/** Before the body is read: it may be anything. */
export function refuseUnknownRoutes(app: FastifyInstance, table: RouteTable): void {
  app.decorateRequest("matched", undefined);
  app.addHook("onRoute", (route) => table.add(route));
  app.addHook("onRequest", (request, reply, done) => {
    const methods = table.otherMethods(request);
    if (methods.length > 0) reply.header("Allow", methods.join(", "));
    if (methods.length > 0) throw notAllowed(request);
    if (request.is404) throw noRoute(request);
    done();
  });
}

function notAllowed({ method, url }: FastifyRequest): SagaError {
  return methodNotAllowed(`${pathOf(url)} has no method ${method}; the header Allow names those it has`);
}

const pathOf = (url: string) => trimmed(url.split(/[?#]/, 1)[0] ?? "");
const trimmed = (path: string) => (path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path);

/** Checks a path by the schema of the route's parameters. A route without one takes any path that matches, unless it takes whole trees. */
function taker(pattern: string, matches: RegExp, schema: unknown): Route["takes"] {
  if (!schema) return () => !pattern.includes("*");
  const names = pattern.split("/").flatMap((part) => (part.startsWith(":") ? [part.slice(1)] : []));
  const check = parameterCheck("path", schema as TObject);
  return (path) => {
    const [, ...given] = matches.exec(path) ?? [];
    return !("error" in check(Object.fromEntries(names.map((name, nth) => [name, given[nth] ?? ""]))));
  };
}

function matcher(pattern: string): RegExp {
  const parts = pattern.split("/").map((part) => {
    if (part === "*") return ".*";
    return part.startsWith(":") ? "([^/]+)" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  return new RegExp(`^${parts.join("/")}$`);
}
