// `saga convert`: a workflow as a TypeScript module that writes it with `define`. It converts the document as it is; whether it is valid is not asked.
import { writeFile } from "node:fs/promises";
import { sourceOf } from "../../sdk/define/index.js";
import { EXIT, type ExitCode, Failure } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, jsonFile } from "../frame/input.js";
import { isFile } from "./load.js";

/** What the service adds to a document. */
const OF_THE_SERVICE = ["version", "published", "created_at", "created_by", "warnings"];

export async function convert(context: Context): Promise<ExitCode | undefined> {
  const what = context.argument(0);
  const source = printed(what, isFile(what) ? await jsonFile(what) : await published(context, what));
  const out = context.text("out");
  if (out === undefined) context.terminal.print(source.trimEnd());
  else {
    await writeFile(out, source).catch((error: NodeJS.ErrnoException) => {
      throw new Failure(`${out} cannot be written (${error.code})`);
    });
    context.terminal.print(`${out} is written`);
  }
  return EXIT.succeeded;
}

/** Throws Failure where the document lacks what every workflow has. */
function printed(what: string, document: unknown): string {
  try {
    return sourceOf(document);
  } catch (error) {
    if (error instanceof TypeError) throw new Failure(`${what} is no workflow: ${error.message}`, EXIT.failed);
    throw error;
  }
}

async function published(context: Context, id: string): Promise<JsonObject> {
  const service = await context.service();
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const document = await service.get<JsonObject>(
    `/workflows/${encodeURIComponent(id)}`,
    version === undefined ? {} : { version },
  );
  return Object.fromEntries(Object.entries(document).filter(([name]) => !OF_THE_SERVICE.includes(name)));
}
