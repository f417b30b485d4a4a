// A database of its own for each turn, on the server of DATABASE_URL.
import postgres from "postgres";
import { named, type Server } from "../deployment/database.js";
import type { Database } from "./system.js";
import { postmasterOf } from "./usage.js";

/** Restate stores its data itself. */
export const NO_DATABASE: Database = {
  url: "",
  serviceUrl: "",
  processes: null,
  count: () => Promise.reject(new Error("there is no database")),
  drop: async () => {},
};

export async function freshDatabase({ url: server, socketUrl = server }: Omit<Server, "stop">): Promise<Database> {
  const name = `saga_peers_${process.pid}_${Date.now()}`;
  const admin = postgres(server, { max: 1, onnotice: () => {} });
  await admin.unsafe(`create database ${name}`);
  const [backend] = await admin<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const postmaster = postmasterOf(backend?.pid ?? 0);
  const url = named(server, name);
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  return {
    url,
    serviceUrl: named(socketUrl, name),
    processes: postmaster === undefined ? null : [postmaster],
    async count(query) {
      const [row] = await sql.unsafe<{ count: number }[]>(query);
      return Number(row?.count ?? 0);
    },
    async drop() {
      await sql.end({ timeout: 5 });
      await admin.unsafe(`drop database ${name} with (force)`);
      await admin.end();
    },
  };
}
