// A client of the same Postgres that takes all its sessions, as a pool without a bound does. It asks for nothing else.
import postgres, { type Sql } from "postgres";
import { MOST_SESSIONS, type Server } from "./postgres.js";

/** The server says of a session more that there are too many. */
const TOO_MANY = "53300";

export class Bystander {
  private readonly sessions: Sql[] = [];
  private refused = 0;
  private readonly before: number;

  constructor(private readonly server: Server) {
    this.before = server.refusals;
  }

  get taken(): number {
    return this.sessions.length;
  }

  /** Refusals of sessions that others asked for. */
  get othersRefused(): number {
    return this.server.refusals - this.before - this.refused;
  }

  /** Until one is refused. Those that the server keeps for its administrators are not for it. */
  async takeAll(): Promise<void> {
    while (this.sessions.length < MOST_SESSIONS) {
      const url = `postgres://saga@127.0.0.1:${this.server.port}/saga`;
      const sql = postgres(url, { max: 1, fetch_types: false, connection: { application_name: "bystander" } });
      try {
        await sql`select 1`;
        this.sessions.push(sql);
      } catch (error) {
        await sql.end({ timeout: 1 });
        if ((error as { readonly code?: string }).code !== TOO_MANY) throw error;
        this.refused++;
        return;
      }
    }
  }

  async leave(): Promise<void> {
    await Promise.all(this.sessions.splice(0).map((sql) => sql.end({ timeout: 1 })));
  }
}
