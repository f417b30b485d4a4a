// Validation: a route's schema is compiled into the checks of body.ts and parameters.ts, and gives the handler its types. No route
// checks the form of a request itself.
import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifySchemaCompiler,
  FastifyTypeProvider,
  RawServerDefault,
} from "fastify";
import type { Static, TObject, TSchema } from "typebox";
import { ABSENT, bodyCheck, ignoredFields } from "./body.js";
import { nameIgnored } from "./ignored.js";
import { parameterCheck, query } from "./parameters.js";
import { routeOf } from "./routes.js";

interface SchemaTypes extends FastifyTypeProvider {
  readonly validator: this["schema"] extends TSchema ? Static<this["schema"]> : unknown;
}

/** The app as routes see it: `request.params`, `query` and `body` have the types of the route's schema. */
export type Api = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, SchemaTypes>;

/** Schemas of headers are documentation; http/idempotency.ts checks the one header that routes read. */
const UNCHECKED = () => true;

const compileCheck: FastifySchemaCompiler<unknown> = ({ schema, httpPart }) => {
  if (httpPart === "params") return parameterCheck("path", schema as TObject);
  if (httpPart === "querystring") return parameterCheck("query", schema as TObject);
  return httpPart === "body" ? bodyCheck(schema as TSchema) : UNCHECKED;
};

export function validateRequests(app: FastifyInstance): void {
  // A route that names no query parameters has none, and says so to a client that sends one. Assets of the page have no schema.
  app.addHook("onRoute", ({ schema }) => {
    if (schema) schema.querystring ??= query({});
  });
  app.setValidatorCompiler(compileCheck);
  // Fastify gives `null` to the check of an absent body, but `null` is a body, which is refused.
  app.addHook("preValidation", (request, _reply, done) => {
    if (request.body === undefined && routeOf(request).schema?.body) request.body = ABSENT;
    done();
  });
  app.addHook("preHandler", (request, reply, done) => {
    const schema = routeOf(request).schema?.body;
    nameIgnored(reply, schema ? ignoredFields(schema as TSchema, request.body) : []);
    done();
  });
}
