// Creates the data directory of the embedded server with initdb.
import { randomUUID } from "node:crypto";
import { chown, mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Account } from "./binaries.js";
import { type Cluster, exitOf, isAlive, keepOutput, launch, pathFor } from "./server.js";

/** Creates the data directory, or nothing: it is created aside, and renamed into place when it is complete and on disk. */
export async function initialiseCluster(cluster: Cluster, password: string): Promise<void> {
  const parent = dirname(cluster.pgdata);
  await clearAbandoned(parent);
  const staging = join(parent, `initdb-${process.pid}-${randomUUID()}`);
  const pgdata = join(staging, "data");
  try {
    await mkdir(pgdata, { recursive: true, mode: 0o700 });
    await writeFile(join(staging, "password"), `${password}\n`, { mode: 0o600 });
    await giveTo(cluster.account, [staging, pgdata, join(staging, "password")]);
    await runInitdb(cluster, pgdata);
    await rename(pgdata, cluster.pgdata).catch((error: NodeJS.ErrnoException) => {
      // Another service was faster; the password is the same.
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function giveTo(account: Account | undefined, paths: readonly string[]): Promise<void> {
  if (account === undefined) return;
  for (const path of paths) await chown(path, account.uid, account.gid);
}

async function runInitdb(cluster: Cluster, pgdata: string): Promise<void> {
  const path = pathFor(cluster, pgdata);
  const child = launch(cluster, pgdata, cluster.binaries.initdb, [
    `--pgdata=${path}`,
    "--username=postgres",
    "--auth=scram-sha-256",
    `--pwfile=${path}/../password`,
    "--encoding=UTF8",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--locale=C",
  ]);
  const output = keepOutput(child, () => {});
  const end = await exitOf(child);
  if (end !== "code 0")
    throw new Error(`PostgreSQL could not create its data directory (${end}): ${output.join(" | ")}`);
}

/** Removes the directories of initialisations that were killed half-way. */
async function clearAbandoned(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    const pid = Number(/^initdb-(\d+)-/.exec(name)?.[1]);
    if (pid > 0 && !isAlive(pid)) await rm(join(parent, name), { recursive: true, force: true });
  }
}
