// The console: its files, as they were built, and the way from `/` to it. Its pages read the public API only; this file knows none of them.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import fastifyStatic from "@fastify/static";
import type { FastifyReply, FastifyRequest } from "fastify";
import { notFound } from "../errors.js";
import type { ApiDeps } from "./deps.js";
import { PAGE_POLICY } from "./http/headers.js";
import type { Api } from "./http/validation.js";

/** The name of a file changes with its content. */
const KEPT = { maxAge: "365d", immutable: true };
/** The page names the files, so a browser asks each time whether it has changed: after an upgrade the old files are gone. */
const ASKED_AGAIN = "no-cache";
const PAGE = "index.html";
/** Where the page says what the service has: its program reads the attributes. */
const ROOT = '<div id="console"';

/** What the query of an address says is for the page. */
const ROUTE = { schema: { hide: true, "x-saga-role": "public" as const }, validatorCompiler: () => () => true };

export function consoleRoutes(app: Api, deps: ApiDeps): void {
  const { console: built } = deps.config;
  if (!built) return;
  const files = filesIn(built.folder);
  const sendPage = senderOf(pageIn(built.folder, attributesOf(deps)));
  app.register(fastifyStatic, { root: built.folder, serve: false, preCompressed: true });
  app.get("/", ROUTE, async (_, reply) => reply.redirect("/console"));
  app.get("/console", ROUTE, async (request, reply) => sendPage(request, reply));
  app.get("/console/*", ROUTE, async (request, reply) => {
    const { "*": name } = request.params as { "*": string };
    if (files.has(name)) return withPolicy(reply).header("vary", "accept-encoding").sendFile(name, KEPT);
    if (name.startsWith("assets/")) throw notFound(`the console has no file ${name}`);
    // An address within the console: its program knows the pages.
    return sendPage(request, reply);
  });
}

/** `data-login`: the ways to log in, where access is on. There may be none: then no browser gets in. */
function attributesOf({ config: { inspector, credentials = [] }, verifier, login }: ApiDeps): string {
  const ways = [...(credentials.includes("api_key") ? ["key"] : []), ...(login ? ["oidc"] : [])];
  const hasInspector = inspector?.ui === undefined ? "" : " data-inspector";
  return `${hasInspector}${verifier ? ` data-login="${ways.join(" ")}"` : ""}`;
}

const withPolicy = (reply: FastifyReply) => reply.header("content-security-policy", PAGE_POLICY);

function pageIn(folder: string, attributes: string): string {
  const page = readFileSync(join(folder, PAGE), "utf8");
  if (!page.includes(ROOT)) throw new Error(`the console is not built: ${PAGE} in ${folder} has no ${ROOT}>`);
  return page.replace(ROOT, `${ROOT}${attributes}`);
}

function senderOf(page: string): (request: FastifyRequest, reply: FastifyReply) => FastifyReply {
  const etag = `"${createHash("sha256").update(page).digest("base64url")}"`;
  return ({ headers }, reply) => {
    withPolicy(reply).headers({ "cache-control": ASKED_AGAIN, etag, "content-type": "text/html; charset=utf-8" });
    // A proxy that compresses the page makes its tag a weak one.
    return headers["if-none-match"]?.includes(etag) ? reply.status(304).send() : reply.send(page);
  };
}

function filesIn(folder: string): ReadonlySet<string> {
  if (!existsSync(join(folder, PAGE)))
    throw new Error(`the console is not built: ${folder} has no ${PAGE}; build the package, or set SAGA_CONSOLE=off`);
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return new Set(names.map((name) => name.split(sep).join("/")).filter((name) => name.startsWith("assets/")));
}
