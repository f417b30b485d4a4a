// Ids of vouchers. A node that offers another one credit reserves it under a voucher's id, until the dispatch comes that uses it.
import { randomUUID } from "node:crypto";
import type { DispatchId } from "../../machines/index.js";

export type VoucherId = string & { readonly __id: "voucher" };

/** Credit of this node's streams is reserved under the id of a dispatch, or of a voucher. */
export type ReservationId = DispatchId | VoucherId;

const PREFIX = "voucher:";

/** Random: who does not know it cannot use it. */
export const newVoucherId = (): VoucherId => `${PREFIX}${randomUUID()}` as VoucherId;

/** The id of a dispatch is a UUID. */
export const isVoucherId = (id: ReservationId): id is VoucherId => id.startsWith(PREFIX);
