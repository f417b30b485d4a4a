// Concurrency slots: a run, or a step entry, goes on only while it holds one of a limited number of slots of a key. The store has a ticket
// for each that holds a slot or waits for one; here is what the run itself knows of it. A durable format.

/** The slots of one key. */
export interface SlotKey {
  /** Absent: no tenant, or the key is shared by all of them. */
  readonly tenantId?: string;
  /** `workflow:<id>` or `action:<service.name>`. */
  readonly scope: string;
  readonly key: string;
}

/** The tenant of keys that belong to none, or to all. A storage format. */
export const NO_TENANT = "00000000-0000-0000-0000-000000000000";

export const slotTenant = ({ tenantId }: Pick<SlotKey, "tenantId">): string => tenantId ?? NO_TENANT;

export type SlotVerdict = "granted" | "refused" | "full";

/** A slot that was asked for. Record format 4. */
export interface Slot extends SlotKey {
  /** Absent: it is awaited. */
  readonly verdict?: SlotVerdict;
}

export function slotKey({ verdict: _, ...key }: Slot): SlotKey {
  return key;
}

export type OnLimit = "queue" | "refuse" | "cancel_oldest";

/** What a ticket says beside its key. */
export interface SlotRequest {
  /** The step entry that needs the slot; RUN_SLOT for the whole run. */
  readonly entry: number;
  readonly stepId?: string;
  readonly slot: SlotKey;
  readonly limit: number;
  readonly onLimit: OnLimit;
}

/** Stands for the whole run where others have the number of their step entry, which counts from 1. */
export const RUN_SLOT = 0;
