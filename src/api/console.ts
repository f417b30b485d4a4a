// The console: its files, as they were built, and the way from `/` to it. Its pages read the public API only; this file knows none of them.
import { existsSync, readdirSync } from "node:fs";
import { join, sep } from "node:path";
import fastifyStatic from "@fastify/static";
import { notFound } from "../errors.js";
import type { ApiDeps } from "./deps.js";
import type { Api } from "./http/validation.js";

/** Its pages load, run and ask nothing but what is of this service. Styles that a script sets on an element are no inline styles. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The name of a file changes with its content. */
const KEPT = { maxAge: "365d", immutable: true };
const PAGE = "index.html";

/** What a view shows is in its address: its program reads the parameters. */
const ANY_QUERY = () => () => true;

export function consoleRoutes(app: Api, { config: { console: built } }: ApiDeps): void {
  if (!built) return;
  const files = filesIn(built.folder);
  const schema = { hide: true };
  const page = { schema, validatorCompiler: ANY_QUERY };
  app.register(fastifyStatic, { root: built.folder, serve: false, preCompressed: true });
  app.get("/", { schema }, async (_, reply) => reply.redirect("/console"));
  app.get("/console", page, async (_, reply) =>
    reply.header("content-security-policy", POLICY).sendFile(PAGE, { cacheControl: false }),
  );
  app.get("/console/*", page, async (request, reply) => {
    const { "*": name } = request.params as { "*": string };
    reply.header("content-security-policy", POLICY);
    if (files.has(name)) return reply.sendFile(name, KEPT);
    if (name.startsWith("assets/")) throw notFound(`the console has no file ${name}`);
    // An address within the console: its program knows the pages.
    return reply.sendFile(PAGE, { cacheControl: false });
  });
}

function filesIn(folder: string): ReadonlySet<string> {
  if (!existsSync(join(folder, PAGE)))
    throw new Error(`the console is not built: ${folder} has no ${PAGE}; build the package, or set SAGA_CONSOLE=off`);
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return new Set(names.map((name) => name.split(sep).join("/")).filter((name) => name.startsWith("assets/")));
}
