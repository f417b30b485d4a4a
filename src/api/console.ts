// The console: its files, as they were built, and the way from `/` to it. Its pages read the public API only; this file knows none of them.
import { existsSync, readdirSync } from "node:fs";
import { join, sep } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyReply } from "fastify";
import { notFound } from "../errors.js";
import type { ApiDeps } from "./deps.js";
import { PAGE_POLICY } from "./http/headers.js";
import type { Api } from "./http/validation.js";

/** The name of a file changes with its content. */
const KEPT = { maxAge: "365d", immutable: true };
/** The page names the files, so a browser asks each time whether it has changed: after an upgrade the old files are gone. */
const ASKED_AGAIN = "no-cache";
const PAGE = "index.html";

/** What the query of an address says is for the page. */
const ROUTE = { schema: { hide: true }, validatorCompiler: () => () => true };

export function consoleRoutes(app: Api, { config: { console: built } }: ApiDeps): void {
  if (!built) return;
  const files = filesIn(built.folder);
  app.register(fastifyStatic, { root: built.folder, serve: false, preCompressed: true });
  app.get("/", ROUTE, async (_, reply) => reply.redirect("/console"));
  app.get("/console", ROUTE, async (_, reply) => sendPage(reply));
  app.get("/console/*", ROUTE, async (request, reply) => {
    const { "*": name } = request.params as { "*": string };
    if (files.has(name)) return withPolicy(reply).header("vary", "accept-encoding").sendFile(name, KEPT);
    if (name.startsWith("assets/")) throw notFound(`the console has no file ${name}`);
    // An address within the console: its program knows the pages.
    return sendPage(reply);
  });
}

const withPolicy = (reply: FastifyReply) => reply.header("content-security-policy", PAGE_POLICY);

const sendPage = (reply: FastifyReply) =>
  withPolicy(reply).header("cache-control", ASKED_AGAIN).sendFile(PAGE, { cacheControl: false });

function filesIn(folder: string): ReadonlySet<string> {
  if (!existsSync(join(folder, PAGE)))
    throw new Error(`the console is not built: ${folder} has no ${PAGE}; build the package, or set SAGA_CONSOLE=off`);
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return new Set(names.map((name) => name.split(sep).join("/")).filter((name) => name.startsWith("assets/")));
}
