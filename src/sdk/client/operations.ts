// Any operation of the API by its name in docs/openapi.json, with its types. The methods for every day are made of it, in the other files.
import type { Operations } from "./generated/operations.js";
import { ROUTES } from "./generated/routes.js";
import { type Page, Pages } from "./pages.js";
import { type CallOptions, newKey, type RequestOptions, type Transport } from "./transport.js";

export type OperationId = keyof Operations;

/** What the operation takes: `path`, `query` and `body`, those that it has. */
export type Asked<Id extends OperationId> = Omit<Operations[Id], "answer">;
export type Answered<Id extends OperationId> = Operations[Id]["answer"];

/** The body of an operation, and its query. */
export type Sent<Id extends OperationId> = Operations[Id] extends { body?: infer Body } ? NonNullable<Body> : never;
export type QueryOf<Id extends OperationId> = Operations[Id] extends { query?: infer Query }
  ? NonNullable<Query>
  : never;

/** An operation that needs nothing may be called without an argument. */
export type CallArguments<Id extends OperationId> =
  Partial<Asked<Id>> extends Asked<Id>
    ? [asked?: Asked<Id> | undefined, options?: CallOptions | undefined]
    : [asked: Asked<Id>, options?: CallOptions | undefined];

/** The operations that answer with pages. */
export type ListId = { [Id in OperationId]: Answered<Id> extends Page<unknown> ? Id : never }[OperationId];
export type ItemOf<Id extends ListId> = Answered<Id> extends Page<infer Item> ? Item : never;

interface Parts {
  readonly path?: Readonly<Record<string, string | number>>;
  readonly query?: RequestOptions["query"];
  readonly body?: unknown;
}

export type Call = <Id extends OperationId>(id: Id, ...args: CallArguments<Id>) => Promise<Answered<Id>>;
export type List = <Id extends ListId>(id: Id, ...args: CallArguments<Id>) => Pages<ItemOf<Id>, Answered<Id>>;

/** Throws TypeError for a name that is no operation, and for a missing part of the path. */
export function callOn(transport: Transport): Call {
  return async (id, ...args) => {
    const [asked = {}, options = {}] = args as [Parts?, CallOptions?];
    if (!Object.hasOwn(ROUTES, id)) throw new TypeError(`there is no operation ${JSON.stringify(id)}`);
    const [method = "", route = "", repeats] = ROUTES[id].split(" ");
    const key = repeats === "key" ? { key: options.key ?? newKey() } : { key: undefined };
    const answer = await transport.request(method, pathOf(route, asked.path), {
      ...{ ...options, ...key, query: asked.query, repeats: repeats !== "once" },
      ...(asked.body !== undefined && { body: asked.body }),
    });
    return answer as Answered<typeof id>;
  };
}

export function listOn(call: Call): List {
  return (id, ...args) => {
    const [asked = {}, options] = args as [Parts?, CallOptions?];
    const page = (query: Parts["query"]) =>
      call(
        id,
        ...([{ ...asked, query: { ...asked.query, ...query } }, options] as unknown as CallArguments<typeof id>),
      );
    return new Pages<ItemOf<typeof id>, Answered<typeof id>>(page);
  };
}

function pathOf(route: string, parts: Parts["path"] = {}): string {
  return route.replace(/\{(\w+)\}/g, (_, name: string) => {
    const part = parts[name];
    if (part === undefined || part === "") throw new TypeError(`${route} needs ${name}`);
    const text = encodeURIComponent(part);
    // A path with these would lead elsewhere.
    if (text === "." || text === "..") throw new TypeError(`${name} must not be ${text}`);
    return text;
  });
}
