// Sessions of browsers: opened for a credential or a login, verified by their id, closed at logout. Where the id is in a request, and when its
// cookie counts, is the matter of the door.
//
// Invariants
// - A session that was closed, that is idle, or whose key was revoked is refused on every node within TRUSTED_MS: what the store said is used for
//   that long and not longer. While the store is away, sessions are answered with 503.
// - No id is kept nor stored: a session is known by the hash of its id.

import { setMaxListeners } from "node:events";
import type { Sql } from "postgres";
import { performance, randomBytes } from "../ambient.js";
import { overloaded } from "../errors.js";
import type { Log } from "../log.js";
import { isStoreAway } from "../store/engine/failure.js";
import {
  deleteEndedSessions,
  deleteSession,
  insertSession,
  noteSeen,
  readSessions,
  type SessionRow,
} from "../store/engine/sessions.js";
import { WorkLoop } from "../work/loop.js";
import { inTime } from "./in-time.js";
import type { Principal } from "./principal.js";
import { readRights, type StatedRights } from "./rights.js";
import { type DigestVerifier, digestOf, Unauthenticated, type Verifier } from "./verifier.js";

export const LONGEST_SESSION_MS = 12 * 3_600_000;
/** From the way to the issuer until the way back. */
export const LOGIN_SECONDS = 600;
const POLL_MS = 2_000;
/** From the beginning of the statement that read or confirmed a session. */
const TRUSTED_MS = 5_000;
const SEEN_NOTED_MS = 60_000;
/** How often a node deletes the sessions that are over. */
const SWEPT_MS = 600_000;
/** Sessions that a node keeps, about 1 KB each; the least recently used are forgotten, and their streams closed. */
const MOST_KEPT = 10_000;
/** Ids that are looked for at a time. */
const MOST_ASKED = 1_000;
const ANSWERED_WITHIN_MS = 5_000;
const SILENT = "the store cannot say now whether the session is good; try again";
/** 256 random bits. */
const ID = /^[\w-]{43}$/;

export interface SessionsOptions {
  readonly sql: Sql;
  readonly log: Log;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Monotonic milliseconds. */
  readonly elapsed?: () => number;
  readonly answeredWithinMs?: number;
}

interface Kept {
  readonly principal: Principal;
  readonly ending: AbortController;
  /** When the statement began that said last that the session is good. */
  confirmedAt: number;
  /** A request came with it since that was noted. */
  isSeen: boolean;
  notedAt: number;
}

export interface Opened {
  /** For the cookie, and for nothing else. */
  readonly id: string;
  readonly principal: Principal;
}

/** What a door does with sessions. */
export interface BrowserSessions extends Verifier {
  /** A session acts as the credential it was opened for, with its rights, and ends with it. */
  open(credential: Principal): Promise<Opened>;
  /** Closed on this node at once, on the others by their polls. An id of none is no fault. */
  close(id: string): Promise<void>;
}

export class Sessions implements DigestVerifier {
  /** By hash, the least recently used first. */
  private readonly kept = new Map<string, Kept>();
  private readonly asked = new Map<string, Promise<void>>();
  private readonly loop: WorkLoop;
  private readonly elapsed: () => number;
  private sweptAt = Number.NEGATIVE_INFINITY;

  constructor(private readonly options: SessionsOptions) {
    this.elapsed = options.elapsed ?? (() => performance.now());
    const polls = { pauseMs: POLL_MS, round: () => this.confirm() };
    this.loop = new WorkLoop({ what: "sessions", log: options.log, polls });
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

  async open(credential: Principal): Promise<Opened> {
    const { kind, sub, actor, expiresAt = Number.POSITIVE_INFINITY } = credential;
    const id = randomBytes(32).toString("base64url");
    const idHash = digestOf(id);
    const began = this.elapsed();
    const ends = Math.min(this.options.now() + LONGEST_SESSION_MS, expiresAt);
    const stated = { sub, ...statedBy(credential) };
    await insertSession(this.options.sql, {
      idHash,
      actor,
      stated,
      expiresAt: ends,
      ...(kind === "key" && { keyId: sub }),
    });
    const { principal } = this.keep({ idHash, actor, stated, expiresAt: new Date(ends) }, began);
    return { id, principal };
  }

  async close(id: string): Promise<void> {
    if (!ID.test(id)) return;
    const idHash = digestOf(id);
    await deleteSession(this.options.sql, idHash);
    this.end(idHash);
  }

  verify(id: string, idHash = digestOf(id)): Principal | Promise<Principal> {
    if (!ID.test(id)) throw new Unauthenticated("malformed session");
    const kept = this.kept.get(idHash);
    if (kept && this.elapsed() - kept.confirmedAt < TRUSTED_MS) return this.check(idHash, kept);
    return this.ask(idHash).then(() => {
      const found = this.kept.get(idHash);
      if (!found) throw new Unauthenticated("no such session, or it has ended");
      return this.check(idHash, found);
    });
  }

  private check(idHash: string, kept: Kept): Principal {
    const { expiresAt = 0 } = kept.principal;
    if (this.options.now() >= expiresAt) throw new Unauthenticated("expired session");
    this.kept.delete(idHash);
    this.kept.set(idHash, kept);
    kept.isSeen = true;
    return kept.principal;
  }

  /** Resolves when the store has said what it knows of the session. */
  private ask(idHash: string): Promise<void> {
    const asked = this.asked.get(idHash);
    if (asked) return asked;
    if (this.asked.size >= MOST_ASKED) throw overloaded("too many sessions are being looked for; try again");
    const found = this.look(idHash).finally(() => this.asked.delete(idHash));
    this.asked.set(idHash, found);
    return found;
  }

  private async look(idHash: string): Promise<void> {
    const began = this.elapsed();
    try {
      const read = readSessions(this.options.sql, [idHash]);
      const [row] = await inTime(this.options.answeredWithinMs ?? ANSWERED_WITHIN_MS, read, SILENT);
      if (row) this.keep(row, began);
      else this.end(idHash);
    } catch (error) {
      throw isStoreAway(error) ? overloaded(SILENT) : error;
    }
  }

  private keep(row: SessionRow, confirmedAt: number): Kept {
    const known = this.kept.get(row.idHash);
    if (known) known.confirmedAt = confirmedAt;
    const kept = known ?? keptOf(row, confirmedAt);
    this.kept.set(row.idHash, kept);
    const [oldest] = this.kept.size > MOST_KEPT ? this.kept.keys() : [];
    if (oldest !== undefined) this.end(oldest);
    return kept;
  }

  private end(idHash: string): void {
    this.kept.get(idHash)?.ending.abort();
    this.kept.delete(idHash);
  }

  private async confirm(): Promise<void> {
    const { sql } = this.options;
    const began = this.elapsed();
    const known = [...this.kept];
    if (known.length > 0) {
      const seen = known.filter(([, { isSeen, notedAt }]) => isSeen && began - notedAt >= SEEN_NOTED_MS);
      if (seen.length > 0)
        await noteSeen(
          sql,
          seen.map(([idHash]) => idHash),
        );
      for (const [, kept] of seen) Object.assign(kept, { isSeen: false, notedAt: began });
      const rows = await readSessions(
        sql,
        known.map(([idHash]) => idHash),
      );
      const good = new Set(rows.map(({ idHash }) => idHash));
      for (const [idHash, kept] of known)
        if (good.has(idHash)) kept.confirmedAt = Math.max(kept.confirmedAt, began);
        else this.end(idHash);
    }
    if (began - this.sweptAt < SWEPT_MS) return;
    this.sweptAt = began;
    await deleteEndedSessions(sql);
  }
}

function keptOf({ actor, stated, expiresAt }: SessionRow, confirmedAt: number): Kept {
  const ending = new AbortController();
  // One for each stream of the session.
  setMaxListeners(0, ending.signal);
  const { sub, ...rights } = stated;
  const principal: Principal = {
    ...{ kind: "session", sub: String(sub), actor, expiresAt: expiresAt.getTime(), ended: ending.signal },
    ...readRights(rights),
  };
  return { principal, ending, confirmedAt, isSeen: true, notedAt: Number.NEGATIVE_INFINITY };
}

/** As a credential would state them. */
function statedBy({ roles, tenantId, tenants, workflows, services, secrets }: Principal): StatedRights {
  return {
    ...{ roles: [...roles], services: services.texts, secrets: secrets.texts },
    ...(tenantId !== undefined && { tenantId }),
    ...(tenants && { tenants }),
    ...(workflows && { workflows: workflows.texts }),
  };
}
