// Which paths there are, and with which methods: for refusals that name the methods of a path, and for upgrades. Requests are
// routed by Fastify; this table answers what its router does not tell.
import type { FastifyInstance, FastifyRequest, RouteOptions } from "fastify";
import { methodNotAllowed, type SagaError } from "../../errors.js";
import { noRoute } from "./envelope.js";

interface Route {
  readonly matches: RegExp;
  readonly methods: Set<string>;
}

export class RouteTable {
  /** By the pattern of their URL. */
  private readonly routes = new Map<string, Route>();
  /** Patterns without parameters. */
  private readonly fixed = new Map<string, Route>();
  private readonly webSockets: RegExp[] = [];

  add({ url, method, wsHandler }: Pick<RouteOptions, "url" | "method" | "wsHandler">): void {
    const pattern = trimmed(url);
    const route = this.routes.get(pattern) ?? { matches: matcher(pattern), methods: new Set() };
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
  otherMethods({ url, method, is404 }: Pick<FastifyRequest, "url" | "method" | "is404">): readonly string[] {
    const path = pathOf(url);
    const fixed = this.fixed.get(path);
    // `GET /sagas/start` is no run with the id "start".
    if (fixed) return fixed.methods.has(method) ? [] : [...fixed.methods].sort();
    if (!is404) return [];
    const found = [...this.routes.values()].find(({ matches }) => matches.test(path));
    return found ? [...found.methods].sort() : [];
  }
}

/** Before the body is read: it may be anything. */
export function refuseUnknownRoutes(app: FastifyInstance, table: RouteTable): void {
  app.addHook("onRoute", (route) => table.add(route));
  app.addHook("onRequest", async (request, reply) => {
    const methods = table.otherMethods(request);
    if (methods.length > 0) reply.header("Allow", methods.join(", "));
    if (methods.length > 0) throw notAllowed(request);
    if (request.is404) throw noRoute(request);
  });
}

function notAllowed({ method, url }: FastifyRequest): SagaError {
  return methodNotAllowed(`${pathOf(url)} has no method ${method}; the header Allow names those it has`);
}

const pathOf = (url: string) => trimmed(url.split(/[?#]/, 1)[0] ?? "");
const trimmed = (path: string) => (path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path);

function matcher(pattern: string): RegExp {
  const parts = pattern.split("/").map((part) => {
    if (part === "*") return ".*";
    return part.startsWith(":") ? "[^/]+" : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  return new RegExp(`^${parts.join("/")}$`);
}
