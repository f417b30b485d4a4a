// The verifier of API keys: keeps what the store says of those in use, asks it for others in few statements, and learns by a poll which of
// them were revoked. It makes and revokes none.
//
// Invariants
// - A key that was revoked is refused on every node within TRUSTED_MS, whatever became of Redis and of notifications: what the store said is
//   used for that long and not longer. While the store is away, keys are answered with 503.
// - However many keys are unknown, one statement at a time looks for them, and none looks for the same one twice.
// - No key and no secret is kept: the secret that is presented is compared by its hash.

import { timingSafeEqual } from "node:crypto";
import { getEventListeners, setMaxListeners } from "node:events";
import type { Sql } from "postgres";
import { WeightedCache } from "../../machines/index.js";
import { performance } from "../ambient.js";
import { overloaded } from "../errors.js";
import type { Log } from "../log.js";
import { endedKeys, type KeyRow, noteUse, readKeys } from "../store/engine/api-keys.js";
import { isStoreAway } from "../store/engine/failure.js";
import { WorkLoop } from "../work/loop.js";
import { inTime } from "./in-time.js";
import { hashOf, parseKey } from "./key-text.js";
import type { Principal } from "./principal.js";
import { readRights } from "./rights.js";
import { type DigestVerifier, digestOf, Unauthenticated } from "./verifier.js";

const POLL_MS = 2_000;
/** From the beginning of the statement that read or confirmed a key. */
const TRUSTED_MS = 5_000;
/** How often a node writes that a key is in use. */
const USE_NOTED_MS = 60_000;
/** Keys that are kept, about 1 KB each. Those that streams listen to are kept beside them. */
const MOST_KEPT = 10_000;
/** Ids without a key that are remembered. */
const MOST_UNKNOWN = 20_000;
/** Keys that are looked for at a time, and in one statement. */
const MOST_ASKED = 2_000;
const ASKED_TOGETHER = 250;
const ANSWERED_WITHIN_MS = 5_000;
const SILENT = "the store cannot say now whether the key is good; try again";

export interface ApiKeysOptions {
  readonly sql: Sql;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Monotonic milliseconds. */
  readonly elapsed?: () => number;
  readonly mostKept?: number;
  readonly answeredWithinMs?: number;
}

interface Kept {
  readonly secretHash: Buffer;
  readonly principal: Principal;
  readonly ending: AbortController;
  /** Of the whole key. Undefined: its secret was not presented yet. */
  digest?: string;
  /** When the statement began that said last that the key is good. */
  confirmedAt: number;
  /** When this node wrote last that it is in use. */
  notedAt: number;
}

/** Ids that one statement looks for. */
interface Batch {
  readonly ids: Set<string>;
  readonly found: Promise<void>;
}

export class ApiKeys implements DigestVerifier {
  /** The least recently used first. */
  private readonly kept = new Map<string, Kept>();
  /** Those whose secret was presented. */
  private readonly byDigest = new Map<string, Kept>();
  private readonly unknown = new WeightedCache<string, true>(MOST_UNKNOWN);
  /** The batch of each id that is looked for. */
  private readonly asked = new Map<string, Batch>();
  /** The batch that waits for the statement in progress. */
  private next: Batch | undefined;
  private tail: Promise<unknown> = Promise.resolve();
  private readonly used = new Set<string>();
  private readonly loop: WorkLoop;
  private readonly elapsed: () => number;
  private readonly mostKept: number;

  constructor(private readonly options: ApiKeysOptions) {
    this.elapsed = options.elapsed ?? (() => performance.now());
    this.mostKept = options.mostKept ?? MOST_KEPT;
    const polls = { pauseMs: POLL_MS, round: () => this.confirm() };
    this.loop = new WorkLoop({ what: "API keys", log: options.log, polls });
  }

  start(): void {
    this.loop.start();
  }

  stop(): Promise<void> {
    return this.loop.stop();
  }

  /** A round of the poll, now. */
  refresh(): Promise<void> {
    return this.loop.now();
  }

  verify(bearer: string, digest = digestOf(bearer)): Principal | Promise<Principal> {
    const known = this.byDigest.get(digest);
    if (known && this.isCertain(known)) return this.check(known);
    const presented = parseKey(bearer);
    if (!presented) throw new Unauthenticated("malformed key");
    const { id, secret } = presented;
    const kept = this.kept.get(id);
    if (kept && this.isCertain(kept)) return this.compare(kept, secret, digest);
    if (this.unknown.get(id)) throw new Unauthenticated("unknown key");
    return this.ask(id).then(() => {
      const found = this.kept.get(id);
      if (!found) throw new Unauthenticated("unknown key");
      return this.compare(found, secret, digest);
    });
  }

  /** This node has revoked it: the others learn it by their polls. */
  revoked(id: string): void {
    this.kept.get(id)?.ending.abort();
  }

  /** A revoked key stays revoked. */
  private isCertain({ ending, confirmedAt }: Kept): boolean {
    return ending.signal.aborted || this.elapsed() - confirmedAt < TRUSTED_MS;
  }

  private compare(kept: Kept, secret: string, digest: string): Principal {
    if (!timingSafeEqual(hashOf(secret), kept.secretHash)) throw new Unauthenticated("wrong secret of a key");
    kept.digest = digest;
    this.byDigest.set(digest, kept);
    return this.check(kept);
  }

  private check(kept: Kept): Principal {
    const { principal, ending, notedAt } = kept;
    if (ending.signal.aborted) throw new Unauthenticated("revoked key");
    const { expiresAt, sub: id } = principal;
    if (expiresAt !== undefined && this.options.now() >= expiresAt) throw new Unauthenticated("expired key");
    this.kept.delete(id);
    this.kept.set(id, kept);
    if (this.elapsed() - notedAt >= USE_NOTED_MS) this.used.add(id);
    return principal;
  }

  /** Resolves when the store has said what it knows of the key. */
  private ask(id: string): Promise<void> {
    const asked = this.asked.get(id);
    if (asked) return asked.found;
    if (this.asked.size >= MOST_ASKED) throw overloaded("too many unknown keys are being looked for; try again");
    const batch = this.next && this.next.ids.size < ASKED_TOGETHER ? this.next : this.newBatch();
    batch.ids.add(id);
    this.asked.set(id, batch);
    return batch.found;
  }

  private newBatch(): Batch {
    const ids = new Set<string>();
    const found = this.tail.then(() => {
      if (this.next === batch) this.next = undefined;
      return this.look([...ids]);
    });
    const batch: Batch = { ids, found };
    this.next = batch;
    this.tail = found.catch(() => {});
    return batch;
  }

  private async look(ids: readonly string[]): Promise<void> {
    const { sql, answeredWithinMs = ANSWERED_WITHIN_MS } = this.options;
    const began = this.elapsed();
    try {
      // A statement that hangs is not waited for: what comes next may be answered.
      const rows = await inTime(answeredWithinMs, readKeys(sql, ids), SILENT);
      const missing = new Set(ids);
      for (const row of rows) {
        missing.delete(row.id);
        this.keep(row, began);
      }
      for (const id of missing) {
        this.end(id);
        this.unknown.set(id, true, 1);
      }
    } catch (error) {
      throw isStoreAway(error) ? overloaded(SILENT) : error;
    } finally {
      for (const id of ids) this.asked.delete(id);
    }
  }

  private keep(row: KeyRow, confirmedAt: number): void {
    const known = this.kept.get(row.id);
    if (known) known.confirmedAt = confirmedAt;
    else this.kept.set(row.id, keptOf(row, confirmedAt));
    if (row.revokedAt !== null) this.end(row.id);
    this.makeRoom();
  }

  private end(id: string): void {
    this.kept.get(id)?.ending.abort();
    this.used.delete(id);
  }

  /** A key that a stream listens to stays: the stream has to hear of its end. */
  private makeRoom(): void {
    for (const [id, { ending, digest }] of this.kept) {
      if (this.kept.size <= this.mostKept) return;
      if (getEventListeners(ending.signal, "abort").length > 0) continue;
      this.kept.delete(id);
      if (digest !== undefined) this.byDigest.delete(digest);
    }
  }

  private async confirm(): Promise<void> {
    const began = this.elapsed();
    const good = [...this.kept].filter(([, { ending }]) => !ending.signal.aborted);
    if (good.length > 0) {
      for (const id of await endedKeys(
        this.options.sql,
        good.map(([id]) => id),
      ))
        this.end(id);
      for (const [, kept] of good) kept.confirmedAt = Math.max(kept.confirmedAt, began);
    }
    await this.noteUse(began);
  }

  private async noteUse(at: number): Promise<void> {
    const ids = [...this.used];
    if (ids.length === 0) return;
    await noteUse(this.options.sql, ids);
    for (const id of ids) {
      this.used.delete(id);
      const kept = this.kept.get(id);
      if (kept) kept.notedAt = at;
    }
  }
}

function keptOf(row: KeyRow, confirmedAt: number): Kept {
  const { id, secretHash, tenantId, tenants, workflows, services, secrets, roles, expiresAt } = row;
  const ending = new AbortController();
  // One for each stream of the key.
  setMaxListeners(0, ending.signal);
  const lists = { tenants, workflows, services, secrets };
  const stated = Object.fromEntries(Object.entries({ tenantId, ...lists }).filter(([, value]) => value !== null));
  const principal: Principal = {
    ...{ kind: "key", sub: id, actor: `key:${id}`, ended: ending.signal },
    ...readRights({ roles, ...stated }),
    ...(expiresAt && { expiresAt: expiresAt.getTime() }),
  };
  return {
    ...{ principal, ending, confirmedAt },
    ...{ secretHash: Buffer.from(secretHash, "base64url"), notedAt: Number.NEGATIVE_INFINITY },
  };
}
