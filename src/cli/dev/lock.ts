// One `saga dev` for a folder: a file in the data folder says which process that is, and a port of it proves that it still runs. The embedded Postgres has
// a lock of its own; this one is there with any database.
import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer, type Server } from "node:net";
import { join } from "node:path";

const FILE = "dev.json";
const ANSWER_MS = 2_000;
/** Another one may be about to do the same. */
const TRIES = 5;

interface Holder {
  readonly pid: number;
  readonly port: number;
  readonly token: string;
  readonly url: string;
}

/** Another `saga dev` has the folder. */
export class DevRunning extends Error {
  override readonly name = "DevRunning";

  constructor(folder: string, { pid, url }: Holder) {
    super(
      `another saga dev runs in ${folder} (process ${pid}, ${url}): use that one, end it first, or set SAGA_DATA_DIR to another folder`,
    );
  }
}

export interface Lock {
  release(): Promise<void>;
}

/** `url` is for the message of another one. Throws DevRunning, or an error of the file system. */
export async function lockFolder(folder: string, dataDir: string, url: string): Promise<Lock> {
  await mkdir(dataDir, { recursive: true });
  const path = join(dataDir, FILE);
  const token = randomUUID();
  const server = createServer((socket) => socket.on("error", () => {}).end(token));
  const port = await listening(server);
  const own: Holder = { pid: process.pid, port, token, url };
  try {
    await take(path, own, folder);
  } catch (error) {
    server.close();
    throw error;
  }
  return {
    release: async () => {
      server.close();
      if ((await holderIn(path))?.token === token) await rm(path, { force: true });
    },
  };
}

/** Linked into place: the file is complete, and there is one winner. */
async function take(path: string, own: Holder, folder: string): Promise<void> {
  const aside = `${path}.${own.token}`;
  await writeFile(aside, JSON.stringify(own), { mode: 0o600 });
  try {
    for (let nth = 1; ; nth++) {
      const taken = await link(aside, path).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code !== "EEXIST") throw error;
          return false;
        },
      );
      if (taken) return;
      const holder = await holderIn(path);
      if (holder && ((await isAlive(holder)) || nth === TRIES)) throw new DevRunning(folder, holder);
      // Its process was killed.
      if ((await holderIn(path))?.token === holder?.token) await rm(path, { force: true });
    }
  } finally {
    await rm(aside, { force: true });
  }
}

async function holderIn(path: string): Promise<Holder | undefined> {
  try {
    const holder = JSON.parse(await readFile(path, "utf8")) as Partial<Holder>;
    return typeof holder.port === "number" && typeof holder.token === "string" ? (holder as Holder) : undefined;
  } catch {
    return undefined;
  }
}

/** A process id may be another program's by now, and so may a port: the answer tells. */
function isAlive({ port, token }: Holder): Promise<boolean> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1");
    const answer = (isIt: boolean) => {
      socket.destroy();
      resolve(isIt);
    };
    socket.setEncoding("utf8");
    socket.setTimeout(ANSWER_MS, () => answer(false));
    socket.on("data", (part: string) => {
      text += part;
      if (text.length >= token.length) answer(text === token);
    });
    socket.once("error", () => answer(false)).once("close", () => answer(text === token));
  });
}

function listening(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}
