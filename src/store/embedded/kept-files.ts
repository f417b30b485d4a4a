// The small files that a data directory has beside the cluster: the password and the port.
import { randomBytes, randomUUID } from "node:crypto";
import { access, link, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";

const PORT_FILE = "postgres-port";

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Linked into place, so that two starts at once agree on one password, and neither reads half of it. */
export async function keptPassword(home: string): Promise<string> {
  const path = join(home, "postgres-password");
  // In two containers, both services may have the same process id.
  const aside = `${path}.${randomUUID()}`;
  if (!(await exists(path))) {
    await writeFile(aside, randomBytes(24).toString("hex"), { mode: 0o600, flag: "wx" });
    await link(aside, path).catch(() => undefined);
    await rm(aside, { force: true });
  }
  return (await readFile(path, "utf8")).trim();
}

export async function keptPort(home: string): Promise<number> {
  const port = Number(await readFile(join(home, PORT_FILE), "utf8").catch(() => "0"));
  return port > 0 && port < 65_536 ? port : 0;
}

export async function keepPort(home: string, port: number): Promise<void> {
  await writeFile(join(home, PORT_FILE), `${port}\n`);
}

/** `wanted` if it is free, else any free port. */
export async function freePort(wanted: number): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.once("error", () => resolve(0));
    server.listen(wanted, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
  if (port === 0 && wanted === 0) throw new Error("There is no free port on 127.0.0.1 for the embedded Postgres");
  await new Promise((resolve) => server.close(resolve));
  return port === 0 ? freePort(0) : port;
}
