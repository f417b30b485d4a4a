// The data keys of tenants: made, reserved, kept at hand, and wrapped anew. They are in the table `data_keys`, wrapped by a master key that the
// database does not have.
//
// Invariants
// - A value is sealed under a key of its tenant. A node counts what it seals in blocks that it reserves in the table, so that no key seals more than
//   `keyUses` values: IVs are random, and two that are equal would say something of both values. One commit of a node may go beyond its
//   block; the next block of the same key has that taken off.
// - A key that was destroyed is nowhere: its row has no wrapped form any more, and a node that has read that has dropped what it had of it. What it
//   sealed can never be read again, which is different from a value that was changed, or whose key this node does not have yet.
import type { Sql } from "postgres";
import type { Json } from "../../../machines/index.js";
import type { MasterKeys } from "../../config/index.js";
import { KeyDestroyed, Unreadable } from "../../errors.js";
import { UnusableDatabase } from "../engine/session.js";
import { NO_TENANT } from "../statistics/end-counts.js";
import { decrypt, encrypt, keyedHash, newKey, type OpenKey, openKey } from "./cipher.js";
import { type Envelope, formOf, MARK_IN_TEXT, opened, written } from "./envelope.js";
import type { Expected, Sealer, Sealing } from "./sealing.js";

/** Values under one key. With 2^30 random IVs of 96 bits, two are equal once in 2^37 keys. */
const KEY_USES = 2 ** 30;
/** Values that a node reserves at a time. What it has left when it ends is lost. */
const BLOCK = 2 ** 16;
/** Keys at hand, of about 1 KB each. */
const MOST_OPEN = 10_000;
/** Keys that are wrapped anew in one round. */
const REWRAPPED = 100;
/** A change is committed at most this long after its time. */
const SLACK_SECONDS = 60;

/** What a value reads as that cannot be read. */
const DAMAGED = "this value was changed, or is not where it was written";
const MISSING = "this node does not have the key of this value yet";
const DESTROYED = "the key of this value was destroyed";

/** A value is under a key that another node has made a moment ago, or that a restored database does not have. It counts as a store that is away. */
export class UnknownDataKey extends Error {
  override readonly name = "UnknownDataKey";
  readonly code = "EDATAKEY";
  constructor(number: number) {
    super(`the data key ${number} is not known here yet`);
  }
}

export interface KeyringOptions {
  readonly masters: MasterKeys;
  /** A test's. */
  readonly keyUses?: number;
  readonly block?: number;
}

/** A key that was destroyed. */
export interface DestroyedKey {
  readonly number: number;
  readonly tenantId: string;
}

interface DataKey extends DestroyedKey {
  readonly masterKey: string;
  /** Null: it was destroyed. */
  readonly wrapped: string | null;
  /** Destroyed, and no unfinished run has values under it any more. */
  readonly settled: boolean;
}

const COLUMNS = `number, tenant_id as "tenantId", master_key as "masterKey", wrapped, settled_at is not null as settled`;

/** The key that a tenant's values are sealed with at present, and what is left of this node's block. */
interface Current {
  readonly number: number;
  readonly open: OpenKey;
  left: number;
}

export class Keyring implements Sealing {
  missed = 0;
  private readonly keys = new Map<number, DataKey>();
  private readonly atHand = new Map<number, OpenKey>();
  private readonly current = new Map<string, Current>();
  private readonly reserving = new Map<string, Promise<Current>>();
  private since: string | null = null;
  private refreshing: Promise<void> | undefined;
  private pool: Sql | undefined;
  private onDestroyed = () => {};

  constructor(private readonly options: KeyringOptions) {}

  /** `listener` is called when this node learns that keys were destroyed: what is in memory of their values has to go. */
  whenDestroyed(listener: () => void): void {
    const others = this.onDestroyed;
    this.onDestroyed = () => {
      others();
      listener();
    };
  }

  /** Loads all keys. Throws UnusableDatabase if they need a master key that the file does not have. */
  async start(sql: Sql): Promise<void> {
    this.pool = sql;
    await this.refresh();
    for (const [id, sample] of new Map(this.usable.map((key) => [key.masterKey, key]))) {
      if (!this.options.masters.byId.has(id))
        throw new UnusableDatabase(
          `SAGA_ENCRYPTION_KEYS_FILE has no key ${id}, which data keys of the database are wrapped with: add it, or wait until a node that has it has wrapped them anew`,
        );
      if (!this.unwrapped(sample))
        throw new UnusableDatabase(
          `SAGA_ENCRYPTION_KEYS_FILE has another key as ${id} than the one that data keys of the database are wrapped with`,
        );
    }
  }

  /** Reads what has changed since it was read last. Calls at the same time share one. */
  refresh(): Promise<void> {
    this.refreshing ??= this.readChanges().finally(() => {
      this.refreshing = undefined;
    });
    return this.refreshing;
  }

  private async readChanges(): Promise<void> {
    const rows = await this.sql<(DataKey & { readonly changedAt: string })[]>`
      select ${this.sql.unsafe(COLUMNS)}, changed_at::text as "changedAt" from data_keys
      where ${this.since}::text is null or changed_at > ${this.since}::text::timestamptz - make_interval(secs => ${SLACK_SECONDS})
      order by changed_at`;
    let destroyed = false;
    for (const { changedAt, ...key } of rows) {
      destroyed ||= key.wrapped === null && this.drop(key);
      this.keys.set(key.number, key);
      this.since = changedAt;
    }
    if (destroyed) this.onDestroyed();
  }

  /** Whether this node knew the key. */
  private drop({ number, tenantId }: DataKey): boolean {
    this.atHand.delete(number);
    if (this.current.get(tenantId)?.number === number) this.current.delete(tenantId);
    return (this.keys.get(number)?.wrapped ?? null) !== null;
  }

  private get usable(): readonly DataKey[] {
    return [...this.keys.values()].filter(({ wrapped }) => wrapped !== null);
  }

  /** The keys that were destroyed and may still have unfinished runs. */
  get unsettled(): readonly DestroyedKey[] {
    return [...this.keys.values()].filter(({ wrapped, settled }) => wrapped === null && !settled);
  }

  /** How many keys each master key still wraps. One that wraps none may go from the file. */
  get wrappedBy(): ReadonlyMap<string, number> {
    const counts = new Map([...this.options.masters.byId.keys()].map((id) => [id, 0]));
    for (const { masterKey } of this.usable) counts.set(masterKey, (counts.get(masterKey) ?? 0) + 1);
    return counts;
  }

  /** Wraps keys with the current master key that are wrapped with another one. True: there are more. */
  async rewrap(): Promise<boolean> {
    const { current } = this.options.masters;
    const old = this.usable.filter(({ masterKey }) => masterKey !== current);
    for (const key of old.slice(0, REWRAPPED)) {
      const bytes = this.unwrapped(key);
      if (!bytes)
        throw new Error(`the data key ${key.number} cannot be unwrapped with the master key ${key.masterKey}`);
      const wrapped = this.wrap(bytes, key.tenantId);
      await this.sql`
        update data_keys set wrapped = ${wrapped}, master_key = ${current}, changed_at = now()
        where number = ${key.number} and wrapped = ${key.wrapped}`;
    }
    if (old.length > 0) await this.refresh();
    return old.length > REWRAPPED;
  }

  /**
   * Destroys the keys that the tenant has: nothing that was sealed under them can ever be read again, on this node from now on, and on each other one once it
   * has refreshed. What the tenant gets later is sealed under a fresh key. Neither does anything remain in the table: its old rows are removed.
   */
  async destroy(tenant: string): Promise<void> {
    await this.sql`
      update data_keys set wrapped = null, destroyed_at = now(), changed_at = now()
      where tenant_id = ${tenant} and wrapped is not null`;
    await this.refresh();
    await this.sql`vacuum data_keys`;
  }

  // ---- Sealing

  sealerOf(tenantId: string | undefined): Sealer | undefined {
    const tenant = tenantId ?? NO_TENANT;
    const current = this.current.get(tenant);
    if (!current || current.left <= 0) return undefined;
    // The next block is there before this one is used up.
    if (current.left < (this.options.block ?? BLOCK) / 4) void this.reserve(tenant).catch(() => {});
    return {
      seal: (value, identity) => {
        current.left--;
        return sealed(current, value, identity);
      },
      hash: (hash) => keyedHash(current.open, hash),
    };
  }

  async sealer(tenantId: string | undefined): Promise<Sealer> {
    for (;;) {
      const sealer = this.sealerOf(tenantId);
      if (sealer) return sealer;
      await this.reserve(tenantId ?? NO_TENANT);
    }
  }

  private reserve(tenant: string): Promise<Current> {
    const known = this.reserving.get(tenant);
    if (known) return known;
    const reserved = this.reserveBlock(tenant).finally(() => this.reserving.delete(tenant));
    this.reserving.set(tenant, reserved);
    return reserved;
  }

  private async reserveBlock(tenant: string): Promise<Current> {
    const { keyUses = KEY_USES, block = BLOCK } = this.options;
    const key = (await this.takeBlock(tenant, block, keyUses)) ?? (await this.make(tenant, block));
    this.keys.set(key.number, key);
    const open = this.openedKey(key);
    if (!open) throw new Error(`the data key ${key.number} cannot be unwrapped with the master key ${key.masterKey}`);
    const before = this.current.get(tenant);
    if (before?.number === key.number) {
      before.left += block;
      return before;
    }
    const current: Current = { number: key.number, open, left: block };
    this.current.set(tenant, current);
    return current;
  }

  private async takeBlock(tenant: string, block: number, most: number): Promise<DataKey | undefined> {
    const [key] = await this.sql<DataKey[]>`
      update data_keys set uses = uses + ${block} where number = (
        select number from data_keys
        where tenant_id = ${tenant} and wrapped is not null and uses + ${block} <= ${most} order by number desc limit 1 for update)
      returning ${this.sql.unsafe(COLUMNS)}`;
    return key;
  }

  /** Two nodes that make one at the same time have two, of which the newer one is used up first. */
  private async make(tenant: string, block: number): Promise<DataKey> {
    const { current } = this.options.masters;
    const wrapped = this.wrap(newKey(), tenant);
    const [key] = await this.sql<[DataKey]>`
      insert into data_keys (tenant_id, master_key, wrapped, uses) values (${tenant}, ${current}, ${wrapped}, ${block})
      returning ${this.sql.unsafe(COLUMNS)}`;
    return key;
  }

  private wrap(bytes: Buffer, tenant: string): string {
    const { current, byId } = this.options.masters;
    return encrypt(byId.get(current) as Buffer, bytes, wrapIdentity(current, tenant));
  }

  private unwrapped({ masterKey, tenantId, wrapped }: DataKey): Buffer | undefined {
    const master = this.options.masters.byId.get(masterKey);
    return master && wrapped !== null ? decrypt(master, wrapped, wrapIdentity(masterKey, tenantId)) : undefined;
  }

  // ---- Opening

  readonly parse = (text: string): unknown => {
    const value: unknown = JSON.parse(text);
    if (!text.includes(MARK_IN_TEXT)) return value;
    return opened(value, (envelope) => {
      const found = this.open(envelope);
      if (found === undefined) return marker(envelope, "damaged", DAMAGED);
      if (found === "destroyed") return destroyedMarker(envelope);
      if (found !== "unknown") return found.value;
      this.missed++;
      return marker(envelope, "key_missing", MISSING);
    });
  };

  read<T>(text: string, expected: Expected, onDestroyed = refuseDestroyed): T {
    const value: unknown = JSON.parse(text);
    if (!text.includes(MARK_IN_TEXT)) return value as T;
    const all = opened(value, (envelope, path) => {
      const { identity } = envelope;
      const fits = typeof expected === "string" ? identity === expected + path : expected(identity, path);
      const found = this.open(envelope);
      if (found === "unknown") {
        void this.refresh().catch(() => {});
        throw new UnknownDataKey(envelope.number);
      }
      if (found === "destroyed") {
        onDestroyed();
        return destroyedMarker(envelope);
      }
      if (!fits || found === undefined)
        throw new Unreadable(
          `a sealed value cannot be used: ${fits ? "it was changed" : `it was written as ${identity}, and stands elsewhere`}`,
        );
      return found.value;
    });
    return all as T;
  }

  /** Undefined: it was changed, or its key is another one than the database has wrapped. */
  private open({ number, identity, form, text }: Envelope): Opened {
    const key = this.keys.get(number);
    if (!key) return "unknown";
    if (key.wrapped === null) return "destroyed";
    const open = this.openedKey(key);
    if (!open) return undefined;
    const plain = decrypt(open.key, text, valueIdentity(number, form, identity));
    return plain && { value: JSON.parse(plain.toString("utf8")) as unknown };
  }

  private openedKey(key: DataKey): OpenKey | undefined {
    const known = this.atHand.get(key.number);
    if (known) return known;
    const bytes = this.unwrapped(key);
    if (!bytes) return undefined;
    const [oldest] = this.atHand.keys();
    if (this.atHand.size >= MOST_OPEN && oldest !== undefined) this.atHand.delete(oldest);
    const open = openKey(bytes);
    this.atHand.set(key.number, open);
    return open;
  }

  private get sql(): Sql {
    if (!this.pool) throw new Error("the keyring has not been started");
    return this.pool;
  }
}

type Opened = { readonly value: unknown } | "unknown" | "destroyed" | undefined;

function refuseDestroyed(): never {
  throw new KeyDestroyed();
}

/** For a node without master keys. Throws UnusableDatabase if the database has values that it could not read. */
export async function refuseSealed(sql: Sql): Promise<void> {
  const [key] = await sql`select from data_keys limit 1`;
  if (key)
    throw new UnusableDatabase(
      "the database has sealed values, and SAGA_ENCRYPTION_KEYS_FILE is not set: encryption cannot be turned off again",
    );
}

/** Storage formats, both: what is authenticated with a value, and with a wrapped key. */
const valueIdentity = (number: number, form: string, identity: string) => `${number}/${form}/${identity}`;
const wrapIdentity = (masterKey: string, tenant: string) => `data key/${masterKey}/${tenant}`;

function sealed({ number, open }: Current, value: unknown, identity: string): object {
  const form = formOf(value);
  const text = encrypt(open.key, JSON.stringify(value), valueIdentity(number, form, identity));
  return written({ number, identity, form, text });
}

const destroyedMarker = (envelope: Envelope) => marker(envelope, "key_destroyed", DESTROYED);

/** A text stays a text and a list a list, so that what reads them goes on. */
function marker({ form }: Envelope, why: string, sentence: string): Json {
  const text = `[unreadable: ${sentence}]`;
  if (form === "t") return text;
  return form === "l" ? [text] : { $unreadable: why };
}
