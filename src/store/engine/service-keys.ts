// Keys that the service makes for itself and that all of its nodes share. The first node that needs one makes it.

import { eq } from "drizzle-orm";
import type { Sql } from "postgres";
import { randomBytes } from "../../ambient.js";
import { serviceKeys } from "../schema.js";
import { query } from "./query.js";

/** What a key is for: one key serves one purpose. */
export type KeyPurpose = "bus" | "callback" | "login";

/** Undefined: none was made. */
export async function knownServiceKey(database: Sql, purpose: KeyPurpose): Promise<string | undefined> {
  const [known] = await query(database).select().from(serviceKeys).where(eq(serviceKeys.purpose, purpose));
  return known?.secret;
}

/** 256 random bits, in Base64url. */
export async function serviceKey(database: Sql, purpose: KeyPurpose): Promise<string> {
  const known = await knownServiceKey(database, purpose);
  if (known !== undefined) return known;
  const secret = randomBytes(32).toString("base64url");
  const [made] = await query(database)
    .insert(serviceKeys)
    .values({ purpose, secret })
    .onConflictDoNothing()
    .returning();
  // Another node was quicker: its row is committed, or the insert would still wait for it.
  const key = made?.secret ?? (await knownServiceKey(database, purpose));
  if (key === undefined) throw new Error(`the key for the ${purpose} is neither made nor there`);
  return key;
}
