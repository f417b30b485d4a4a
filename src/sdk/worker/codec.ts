// Values that only workers can read. A worker with a codec encrypts what its code asks it to, as `{"$enc": {…}}`, and its code gets such values
// decrypted. The service stores and passes them as they are, and has no key.
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { ActionError } from "./error.js";

/** The name of a wire format: it must never change. */
const ENCRYPTED = "$enc";

/** How values are encrypted. Workers that exchange values need codecs that read each other's. */
export interface Codec {
  /** Returns a JSON object: what stands behind `$enc`. */
  encrypt(value: unknown): object | Promise<object>;
  /** Takes that object, and returns the value. Throws for one that it cannot read. */
  decrypt(encrypted: object): unknown;
}

/** A value of an output that is to be encrypted. */
class ToEncrypt {
  constructor(readonly value: unknown) {}

  /** A worker with a codec replaces it. */
  toJSON(): never {
    throw new TypeError("encrypted() needs the option codec of the worker");
  }
}

/** In the output of an action: the value leaves the worker encrypted by its codec. It has the type of the value, so it fits the action's contract. */
export function encrypted<T>(value: T): T {
  return new ToEncrypt(value) as T;
}

export interface AesOptions {
  /** By name: 32 bytes each, or their base64. Values name the key that they are encrypted with. */
  readonly keys: Readonly<Record<string, Uint8Array | string>>;
  /** The name of the key that encrypts. The others decrypt what was encrypted before the key was changed. */
  readonly use: string;
}

const ALGORITHM = "A256GCM";
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM: each value with a random nonce. Throws TypeError for a key that is missing or is not 32 bytes. */
export function aesCodec({ keys, use }: AesOptions): Codec {
  const known = new Map(Object.entries(keys).map(([name, key]) => [name, keyOf(name, key)]));
  const current = known.get(use);
  if (!current) throw new TypeError(`keys has no key ${JSON.stringify(use)}, which use names`);
  return {
    encrypt(value) {
      const iv = randomBytes(IV_BYTES);
      const cipher = createCipheriv("aes-256-gcm", current, iv);
      const parts = [cipher.update(JSON.stringify(value ?? null), "utf8"), cipher.final(), cipher.getAuthTag()];
      return { alg: ALGORITHM, key: use, iv: iv.toString("base64"), data: Buffer.concat(parts).toString("base64") };
    },
    decrypt(given) {
      const { alg, key = "", iv = "", data = "" } = given as Readonly<Record<string, string | undefined>>;
      const secret = alg === ALGORITHM ? known.get(key) : undefined;
      if (!secret) throw new Error(`there is no key for a value of the algorithm ${alg} and the key ${key}`);
      const bytes = Buffer.from(data, "base64");
      const decipher = createDecipheriv("aes-256-gcm", secret, Buffer.from(iv, "base64"), { authTagLength: TAG_BYTES });
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      const text = Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString("utf8");
      return JSON.parse(text);
    },
  };
}

function keyOf(name: string, given: Uint8Array | string): Uint8Array {
  const key = typeof given === "string" ? Buffer.from(given, "base64") : given;
  if (key.length !== 32) throw new TypeError(`the key ${name} must have 32 bytes, and it has ${key.length}`);
  return key;
}

/** Calls the code of an action with its inputs decrypted, and encrypts of its output what it asks for. */
export async function throughCodec(
  inputs: unknown,
  codec: Codec,
  execute: (inputs: unknown) => unknown,
): Promise<unknown> {
  return encryptedOutput(await execute(await decryptedInputs(inputs, codec)), codec);
}

/** Throws ActionError: without its inputs the action had no effect. */
async function decryptedInputs(inputs: unknown, codec: Codec): Promise<unknown> {
  try {
    return await replaced(inputs, (value) => {
      const inner = encryptedIn(value);
      return inner && { by: codec.decrypt(inner) };
    });
  } catch {
    // What the codec says may have parts of the value or of the key.
    throw new ActionError("decrypt_failed", "an encrypted input cannot be read: see the keys of the worker's codec", {
      retryable: false,
    });
  }
}

function encryptedOutput(output: unknown, codec: Codec): Promise<unknown> {
  return replaced(output, (value) =>
    value instanceof ToEncrypt ? { by: wrapped(codec.encrypt(value.value)) } : undefined,
  );
}

async function wrapped(inner: object | Promise<object>): Promise<object> {
  return { [ENCRYPTED]: await inner };
}

function encryptedIn(value: object): object | undefined {
  const names = Object.keys(value);
  const inner = names.length === 1 && names[0] === ENCRYPTED ? (value as { readonly $enc: unknown }).$enc : undefined;
  return typeof inner === "object" && inner !== null && !Array.isArray(inner) ? inner : undefined;
}

/** A copy of the lists and plain objects in which something is replaced; everything else stays. */
async function replaced(
  value: unknown,
  replace: (value: object) => { readonly by: unknown } | undefined,
): Promise<unknown> {
  if (typeof value !== "object" || value === null) return value;
  const found = replace(value);
  if (found) return found.by;
  if (Array.isArray(value)) return Promise.all(value.map((item) => replaced(item, replace)));
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  const members = Object.entries(value).map(async ([name, member]) => [name, await replaced(member, replace)] as const);
  return Object.fromEntries(await Promise.all(members));
}
