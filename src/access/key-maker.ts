// Makes an API key: what it may is checked, its text is drawn, its row is written. Its text is returned once, and is nowhere else.
import type { Sql } from "postgres";
import { forbidden } from "../errors.js";
import { insertKey, type KeyView, keyById } from "../store/lists/api-keys.js";
import { grantedBy, type KeyGrant } from "./grants.js";
import { makeKey } from "./key-text.js";
import type { Principal } from "./principal.js";

export interface MadeKey {
  readonly key: string;
  readonly view: KeyView;
}

export interface Making {
  /** Epoch milliseconds. */
  readonly now: number;
  /** Who it is said to be made by. Default: the granter. */
  readonly createdBy?: string;
}

/** Throws SagaError where the granter may not grant it, or where it makes no sense. */
export async function makeApiKey(
  sql: Sql,
  granter: Principal,
  asked: KeyGrant,
  { now, createdBy = granter.actor }: Making,
): Promise<MadeKey> {
  const ends = await endOf(sql, granter);
  const { expiresAt, ...granted } = grantedBy(granter, asked, { now, ...(ends !== undefined && { ends }) });
  const { id, key, secretHash } = makeKey();
  const row = {
    ...granted,
    id,
    secretHash,
    createdBy,
    ...(expiresAt !== undefined && { expiresAt: new Date(expiresAt) }),
  };
  return { key, view: await insertKey(sql, row) };
}

const KEY_ACTOR = /^key:(.+)$/;

/** When the granter's key ends, also where a session was made of it. Tokens and sessions end, too, but what they make may stay. */
async function endOf(sql: Sql, { actor }: Principal): Promise<number | undefined> {
  const [, id] = KEY_ACTOR.exec(actor) ?? [];
  if (id === undefined) return undefined;
  const own = await keyById(sql, id);
  if (!own || own.revokedAt !== null) throw forbidden("the key of the credential was revoked");
  return own.expiresAt?.getTime();
}
