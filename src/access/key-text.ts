// The text of an API key: `saga_<id>_<secret>`. It is a format that must never change: operators keep keys, and scanners of leaked
// secrets know them by it.

import { hash } from "node:crypto";
import { randomInt } from "../ambient.js";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** Together 95 random bits: no two keys have the same. It is no secret. */
const ID_LENGTH = 16;
/** Together 256 random bits. */
const SECRET_LENGTH = 43;
const KEY = new RegExp(`^saga_([0-9A-Za-z]{${ID_LENGTH}})_([0-9A-Za-z]{${SECRET_LENGTH}})$`);
export const KEY_ID_PATTERN = `^[0-9A-Za-z]{${ID_LENGTH}}$`;

/** A bearer that begins with this is meant to be an API key. */
export const KEY_PREFIX = "saga_";

export interface NewKeyText {
  readonly id: string;
  /** For its owner, once. */
  readonly key: string;
  readonly secretHash: string;
}

export function makeKey(): NewKeyText {
  const [id, secret] = [randomBase62(ID_LENGTH), randomBase62(SECRET_LENGTH)];
  return { id, key: `${KEY_PREFIX}${id}_${secret}`, secretHash: hashOf(secret).toString("base64url") };
}

/** Undefined: it is no key. */
export function parseKey(text: string): { readonly id: string; readonly secret: string } | undefined {
  const [, id, secret] = KEY.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** A secret of 256 random bits needs no salt and no slow hash: nobody tries them all. */
export const hashOf = (secret: string): Buffer => hash("sha256", secret, "buffer");

const randomBase62 = (length: number) => Array.from({ length }, () => BASE62[randomInt(BASE62.length)]).join("");
