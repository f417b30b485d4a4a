// JSON that a person gives to a command: written out, in a file (`@file`), or on standard input (`-`). What it means is the command's business.
import { readFile, stat } from "node:fs/promises";
import { Failure } from "../exit.js";
import type { Terminal } from "./terminal.js";

const MOST_BYTES = 32 * 1024 * 1024;

export type JsonObject = Readonly<Record<string, unknown>>;

/** `what` names it in sentences: "--inputs". Throws Failure. */
export async function jsonGiven(what: string, text: string, terminal: Terminal): Promise<unknown> {
  if (text === "-") return parse(`${what} on standard input`, await terminal.readInput(what));
  if (text.startsWith("@")) return jsonFile(text.slice(1));
  return parse(what, text);
}

/** Throws Failure unless it is an object. */
export async function objectGiven(what: string, text: string, terminal: Terminal): Promise<JsonObject> {
  const value = await jsonGiven(what, text, terminal);
  if (isObject(value)) return value;
  throw new Failure(`${what} must be a JSON object, such as {"sku": "tea"}`);
}

/** Throws Failure. */
export async function jsonFile(path: string): Promise<unknown> {
  return parse(path, await textFile(path));
}

/** Throws Failure. */
export async function textFile(path: string): Promise<string> {
  try {
    const { size } = await stat(path);
    if (size > MOST_BYTES) throw new Failure(`${path} is larger than ${MOST_BYTES / 1024 / 1024} MiB`);
    return (await readFile(path, "utf8")).replace(/^\uFEFF/, "");
  } catch (error) {
    if (error instanceof Failure) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new Failure(code === "ENOENT" ? `there is no file ${path}` : `${path} cannot be read (${code})`);
  }
}

function parse(what: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8 says where; it also quotes a part of the text, which a person has just typed.
    throw new Failure(`${what} is not JSON: ${(error as Error).message}`);
  }
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
