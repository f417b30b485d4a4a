// A session of clients' reads under row-level security: each read is a transaction that begins by naming its tenants, and the database shows it
// nothing of others. Which conditions a read has of its own is elsewhere (reach.ts): this wall stands where one of them was forgotten.
import type { Sql } from "postgres";
import { isUuid } from "../../ids.js";
import { PLATFORM_READER_ROLE, READER_ROLE } from "../migrate/reader-role.js";
import type { Reach } from "./reach.js";
import type { ReadSession } from "./read-pool.js";

/**
 * What every session of reads begins with. The policies fail on it, as on a lost session: where the driver has opened another session for the
 * statements that were left of a read, these must not find nothing.
 */
export const NO_READ = { "saga.tenants": "none" };

export class ReaderSession implements Required<ReadSession> {
  readonly sql: Sql;
  /** A statement that is sent with the next one, if one comes: it costs no message of its own, or none at all. Empty: none. */
  private owed = "";

  constructor(
    /** Of one session, which begins with NO_READ. */
    private readonly pool: Sql,
    readonly cancel: ReadSession["cancel"],
    /** What the session begins as: most reads have nothing to become then. */
    private readonly role?: string,
  ) {
    this.sql = this.nesting();
  }

  /** It is written together with the first statement of the read: that costs no round trip. */
  begin(tenants: Reach["tenants"]): Promise<unknown> {
    return this.pool.unsafe(`begin read only; ${this.scopeOf(tenants)}`).execute();
  }

  private scopeOf(tenants: Reach["tenants"]): string {
    const role = tenants === "*" ? PLATFORM_READER_ROLE : READER_ROLE;
    const becoming = role === this.role ? "" : `set local role ${role}; `;
    return `${becoming}set local saga.tenants = '${namesOf(tenants)}'`;
  }

  end(): void {
    this.owed = "";
    this.send("commit");
  }

  /** A transaction within that of the read. It leaves nothing: neither rows nor settings. */
  private nesting(): Sql {
    const begin = async (...given: unknown[]) => {
      const work = given.at(-1) as (sql: Sql) => Promise<unknown>;
      this.settle();
      this.owed = "savepoint nested";
      try {
        return await work(this.sql);
      } finally {
        this.settle();
        this.owed = "rollback to savepoint nested";
      }
    };
    const unsafe = (text: string, ...rest: [values?: never[], options?: object]) => {
      if (rest.length > 0) this.settle();
      const { owed } = this;
      this.owed = "";
      return this.pool.unsafe(owed === "" ? text : `${owed}; ${text}`, ...rest);
    };
    return new Proxy(this.pool, {
      apply: (pool, _, given) => {
        this.settle();
        return Reflect.apply(pool, undefined, given);
      },
      get: (pool, name) => {
        if (name === "begin") return begin;
        if (name === "unsafe") return unsafe;
        return Reflect.get(pool, name);
      },
    });
  }

  private settle(): void {
    if (this.owed !== "") this.send(this.owed);
    this.owed = "";
  }

  /** Nobody waits for it: the next statement comes behind it, and fails where it has failed. */
  private send(text: string): void {
    this.pool.unsafe(text).catch(() => {});
  }
}

/** They stand in the text of a statement: nothing but UUIDs gets into it. */
function namesOf(tenants: Reach["tenants"]): string {
  if (tenants === "*") return tenants;
  if (!tenants.every(isUuid)) throw new TypeError("a tenant of a read is no UUID");
  return tenants.join();
}
