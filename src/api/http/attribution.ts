// Who did it: with access on, whom the credential names. A body that says otherwise is not believed, and the answer says so.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isObject } from "../../../machines/index.js";
import { nameIgnored } from "./ignored.js";
import { routeOf } from "./routes.js";

/** `given`: what the body says in its member `name`. With access off nothing else is known. */
export function attributed(
  name: string,
  given: string | undefined,
  { principal }: Pick<FastifyRequest, "principal">,
  reply: FastifyReply,
): string | undefined {
  if (principal.kind === "anyone") return given;
  if (given !== undefined && given !== principal.actor) nameIgnored(reply, [name]);
  return principal.actor;
}

/** The routes that take a document which may say who created it. */
const DOCUMENTS: ReadonlySet<string> = new Set(["/api/v1/workflows", "/api/v1/rules"]);

/** The registrar takes the creator of a trigger from the principal. In the document the name would make a repeat by another credential a conflict. */
const TRIGGERS = "/api/v1/triggers";

/** A document was created by whom the credential names. One that says so in another type is left to its check. */
export function attributeDocuments(app: FastifyInstance): void {
  app.addHook("preHandler", (request, reply, done) => {
    const { body, method, principal } = request;
    const { url = "" } = routeOf(request);
    const isTrigger = url === TRIGGERS;
    if (method !== "POST" || !(isTrigger || DOCUMENTS.has(url)) || !isObject(body)) return done();
    const given = body.created_by ?? undefined;
    if (given !== undefined && typeof given !== "string") return done();
    if (isTrigger && given !== undefined) {
      const { created_by: _, ...document } = body;
      if (given !== principal.actor) nameIgnored(reply, ["created_by"]);
      request.body = document;
    } else if (!isTrigger && principal.kind !== "anyone")
      request.body = { ...body, created_by: attributed("created_by", given, request, reply) };
    done();
  });
}
