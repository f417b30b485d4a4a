// Keys of starts, as the tables `start_keys` (idempotency keys) and `held_keys` (business keys) have them: hashed, so that a row that stays when its run is
// erased has nothing of the client's. A storage format: it must never change.
import { hash } from "node:crypto";

export const hashOfKey = (key: string): string => hash("sha256", key);

/** The same in SQL, of a column. */
export const hashedKey = (column: string): string => `encode(sha256(convert_to(${column}, 'UTF8')), 'hex')`;
