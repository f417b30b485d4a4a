// Access control for an example, as a person sets it up: the command `saga` makes the key of an admin, and the API makes the others with it, each
// for what it is needed for.
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../src/config/package.js";

const COMMAND = join(packageRoot(), "dist", "service", "cli", "main.js");
const execute = promisify(execFile);

/** What the command prints. `env`: its settings, as the service has them. */
export async function saga(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const { PATH = "", HOME = "" } = process.env;
  const { stdout } = await execute(process.execPath, [COMMAND, ...args], { env: { PATH, HOME, ...env } });
  return stdout.trimEnd();
}

/** The key of an admin of a new tenant. */
export function makeAdminKey(env: NodeJS.ProcessEnv): Promise<string> {
  return saga(["key", "create", "--name", "admin", "--roles", "admin", "--tenant", randomUUID()], env);
}

export interface Wanted {
  readonly name: string;
  readonly roles: readonly string[];
  /** Of a worker: those that it serves. */
  readonly services?: readonly string[];
}

/** A key of the admin's tenant. */
export async function makeKey(api: string, adminKey: string, wanted: Wanted): Promise<string> {
  const response = await fetch(`${api}/api/v1/api_keys`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${adminKey}` },
    body: JSON.stringify(wanted),
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(`the key ${wanted.name} was answered ${response.status}: ${text}`);
  return (JSON.parse(text) as { key: string }).key;
}
