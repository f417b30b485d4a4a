// The master keys of encryption at rest, from the file that `SAGA_ENCRYPTION_KEYS_FILE` names. What they encrypt are the data keys of tenants, which
// are in the database (store/sealed); the values are sealed with those.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Environment } from "./environment.js";
import { isOpenToOthers } from "./private-file.js";

export const ENCRYPTION_KEYS = "SAGA_ENCRYPTION_KEYS_FILE";

export interface MasterKeys {
  /** The id of the key that new data keys are wrapped with. */
  readonly current: string;
  /** 32 bytes each, by id. */
  readonly byId: ReadonlyMap<string, Buffer>;
}

/** The file cannot be used. The message is a sentence that begins with the setting, and shows nothing of a key. */
export class EncryptionKeysError extends Error {
  override readonly name = "EncryptionKeysError";
  constructor(readonly sentence: string) {
    super(`${ENCRYPTION_KEYS} ${sentence}`);
  }
}

/** The absolute path of the file. Undefined: nothing is encrypted. What is wrong with the file is a problem of the environment. */
export function readEncryptionKeysFile(environment: Environment): string | undefined {
  const path = environment.text(ENCRYPTION_KEYS);
  if (path === undefined) return undefined;
  const file = resolve(path);
  try {
    readMasterKeys(file);
    if (isOpenToOthers(file))
      environment.problem(
        ENCRYPTION_KEYS,
        "names a file that other users of this machine can read or write: take that from them (chmod o-rw)",
      );
  } catch (error) {
    if (!(error instanceof EncryptionKeysError)) throw error;
    environment.problem(ENCRYPTION_KEYS, error.sentence);
  }
  return file;
}

const KEY_BYTES = 32;
/** Ids are in the database and in metrics. */
const ID = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
const MOST_KEYS = 16;

/** `{"current": id, "keys": [{"id": id, "key": 32 bytes in Base64}]}`. Throws EncryptionKeysError. */
export function readMasterKeys(file: string): MasterKeys {
  const document = contentOf(file);
  if (!isObject(document)) throw new EncryptionKeysError("names a file that has no JSON object");
  const { current, keys, ...others } = document;
  refuseOthers(others, "");
  if (!Array.isArray(keys) || keys.length === 0) throw new EncryptionKeysError("names a file without a list of keys");
  if (keys.length > MOST_KEYS) throw new EncryptionKeysError(`names a file with more than ${MOST_KEYS} keys`);
  const byId = new Map<string, Buffer>();
  for (const [nth, item] of keys.entries()) {
    const { id, key } = keyOf(item, `keys[${nth}]`);
    if (byId.has(id)) throw new EncryptionKeysError(`has two keys with the id ${id}`);
    if ([...byId.values()].some((known) => known.equals(key)))
      throw new EncryptionKeysError(`has one key under two ids, the second of which is ${id}`);
    byId.set(id, key);
  }
  if (typeof current !== "string" || !byId.has(current))
    throw new EncryptionKeysError('needs "current": the id of one of its keys');
  return { current, byId };
}

function keyOf(item: unknown, at: string): { readonly id: string; readonly key: Buffer } {
  if (!isObject(item)) throw new EncryptionKeysError(`has a key that is no object, at ${at}`);
  const { id, key, ...others } = item;
  refuseOthers(others, `, at ${at}`);
  if (typeof id !== "string" || !ID.test(id))
    throw new EncryptionKeysError(`has a key without an id of 1 to 64 of A-Z a-z 0-9 _ . -, at ${at}`);
  const bytes = typeof key === "string" ? Buffer.from(key, "base64") : undefined;
  // Node skips what is no Base64: only a text that comes out again is one.
  if (bytes?.length !== KEY_BYTES || bytes.toString("base64") !== key)
    throw new EncryptionKeysError(`has a key that is not ${KEY_BYTES} bytes in Base64, at ${at}`);
  return { id, key: bytes };
}

function refuseOthers(others: object, at: string): void {
  const [more] = Object.keys(others);
  if (more !== undefined) throw new EncryptionKeysError(`has a member that is not known: ${more}${at}`);
}

/** Undefined: it is no JSON. The parser's message would quote the file. */
function contentOf(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw new EncryptionKeysError(`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
