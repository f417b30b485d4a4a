// The profiles of `saga`: services by name, each with its address and its token, in a file that only its owner can read. Which one counts is decided
// in service.ts.
import { chmod, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Failure } from "../exit.js";

export interface Profile {
  readonly url: string;
  readonly token?: string;
}

export interface Profiles {
  /** The one that counts without `--profile` and without `SAGA_URL`. */
  readonly current?: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
/** Group and others may do nothing with it. */
const OTHERS = 0o077;

/** No file: no profiles. Throws Failure for a file that others can read, or that is malformed. */
export async function readProfiles(path: string): Promise<Profiles> {
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    throw new Failure(`${path} cannot be read (${error.code})`);
  });
  if (text === undefined) return { profiles: {} };
  if (process.platform !== "win32" && ((await stat(path)).mode & OTHERS) !== 0)
    throw new Failure(`${path} holds tokens and can be read by others: chmod 600 it, and replace the tokens in it`);
  return parsed(path, text);
}

function parsed(path: string, text: string): Profiles {
  const malformed = (why: string) => new Failure(`${path} is not a file of profiles: ${why}`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw malformed("it is not JSON");
  }
  if (!isObject(value) || !isObject(value.profiles)) throw malformed('it needs {"profiles": {...}}');
  for (const [name, profile] of Object.entries(value.profiles)) {
    if (!isObject(profile) || typeof profile.url !== "string") throw malformed(`${name} needs a url`);
    if (profile.token !== undefined && typeof profile.token !== "string")
      throw malformed(`the token of ${name} is no text`);
  }
  if (value.current !== undefined && typeof value.current !== "string") throw malformed("current is no text");
  return value as unknown as Profiles;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Replaces the file at once, with mode 0600. */
export async function writeProfiles(path: string, profiles: Profiles): Promise<void> {
  const folder = dirname(path);
  const next = `${path}.${process.pid}`;
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeFile(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    await chmod(next, 0o600);
    await rename(next, path);
  } catch (error) {
    await rm(next, { force: true }).catch(() => {});
    throw new Failure(`${path} cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Throws Failure. */
export function checkedName(name: string): string {
  if (NAME.test(name)) return name;
  throw new Failure("the name of a profile has 1 to 64 of A-Z a-z 0-9 _ . -");
}

/** Throws Failure. Without a slash at its end. */
export function checkedUrl(text: string): string {
  const url = /^https?:\/\//i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw new Failure("the address of a service begins with http:// or https://");
  if (url.username !== "" || url.password !== "")
    throw new Failure("the address of a service must not hold credentials: the token is asked for");
  return url.href.replace(/\/+$/, "");
}
