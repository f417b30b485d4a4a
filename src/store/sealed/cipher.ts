// AES-256-GCM as the store uses it: a value under a data key, and a data key under a master key. Which key seals what is keyring.ts.
import { createCipheriv, createDecipheriv, createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { randomBytes } from "../../ambient.js";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;

/** A data key, at hand. */
export interface OpenKey {
  readonly key: KeyObject;
  /** For hashes of content: one who reads the database cannot try values against them. */
  readonly hashKey: Buffer;
}

export const newKey = (): Buffer => randomBytes(KEY_BYTES);

export function openKey(bytes: Buffer): OpenKey {
  const hashKey = Buffer.from(hkdfSync("sha256", bytes, "", "saga: hashes of content", KEY_BYTES));
  return { key: createSecretKey(bytes), hashKey };
}

/** IVs are drawn many at a time: a draw of twelve bytes costs 1 µs. They are random, so that no state can be copied with a machine. */
const DRAWN = 256;
let ivs: Buffer = Buffer.alloc(0);
let used = 0;

function newIv(): Buffer {
  if (used === ivs.length) {
    ivs = randomBytes(IV_BYTES * DRAWN);
    used = 0;
  }
  used += IV_BYTES;
  return ivs.subarray(used - IV_BYTES, used);
}

/** IV, cipher text and tag, in Base64. A storage format: it must never change. `identity`: says which value it is, and is authenticated with it. */
export function encrypt(key: KeyObject | Buffer, plain: string | Buffer, identity: string): string {
  const iv = newIv();
  const cipher = createCipheriv(ALGORITHM, key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(identity));
  const head = typeof plain === "string" ? cipher.update(plain, "utf8") : cipher.update(plain);
  const tail = cipher.final();
  return Buffer.concat([iv, head, tail, cipher.getAuthTag()]).toString("base64");
}

/** Undefined: it was not encrypted under this key, for this identity, or it has changed since. */
export function decrypt(key: KeyObject | Buffer, text: string, identity: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length < IV_BYTES + TAG_BYTES) return undefined;
  const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(identity));
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    return undefined;
  }
}

/** 128 bits in hexadecimal, as an unkeyed hash of content has them. */
export function keyedHash({ hashKey }: OpenKey, hash: string): string {
  return createHmac("sha256", hashKey).update(hash).digest("hex").slice(0, 32);
}
