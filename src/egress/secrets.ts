// The secrets that steps name by `secret_ref`, read once at start from a file. A value is used for a header or a signature, to the
// hosts that it is meant for, and for nothing else: it appears in no log, error, audit row or stored call.
import { readFileSync } from "node:fs";
import type { RunId } from "../../machines/index.js";
import { ConfigError, isLoopback, isOpenToOthers } from "../config/index.js";
import { isUuid } from "../ids.js";
import { parseJson } from "../json-text.js";
import { Mask, SHORTEST_SECRET } from "./mask.js";
import { keyOf } from "./signature.js";
import { readSigning, type Signing, WEBHOOK } from "./signing.js";

export interface Secret {
  /** Name of the header that carries it, in lower case. */
  readonly header: string;
  /** Value of that header. */
  readonly line: string;
  /** The secret as it is in the file: the key of signatures. */
  readonly value: string;
  /** Absent: either. */
  readonly use?: SecretUse;
  /** Names that it may be sent to, in lower case; `*.` in front means all names below. Absent: any. */
  readonly hosts?: readonly string[];
  /** The only tenants whose runs may use it, in lower case. Absent: `ofPlatform` says. */
  readonly tenants?: readonly string[];
  /** Runs of the platform's definitions may use it, and no others. Absent: any. */
  readonly ofPlatform?: true;
}

/** A run that would use a secret. */
export interface SecretUser {
  readonly tenantId: string | null;
  /** Whose its definition is. Null: the platform's. */
  readonly definitionOwner: string | null;
  readonly workflowId: string;
}

/** What the senders of messages ask about the run that would use a secret, and tell when it does. */
export interface SecretUsers {
  /** Undefined: there is no such run. Absent: secrets that are for some runs only are for none. */
  readonly userOf?: (runId: RunId) => Promise<SecretUser | undefined>;
  /** A message with the secret is sent. Not called of secrets that any run may use. */
  readonly secretUsed?: (name: string, user: SecretUser) => void;
}

/** What a secret is used as: the header of a request, or the key of a webhook's signature. */
export type SecretUse = "bearer" | "signing";

export interface Secrets {
  get(name: string): Secret | undefined;
  /** Whether definitions of the tenant may name it. Without a file any name will do: nothing is sent with it. */
  isOf(name: string, tenantId: string): boolean;
  /** The secrets of messages that name none. */
  readonly signing: Signing;
  readonly mask: Mask;
  /** Warnings for the log of the start. */
  readonly warnings: readonly string[];
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** These headers frame a message or make its effect idempotent. */
const NOT_FOR_SECRETS: ReadonlySet<string> = new Set([
  ...["connection", "content-length", "content-type", "expect", "host", "idempotency-key", "keep-alive"],
  ...["te", "trailer", "transfer-encoding", "upgrade"],
]);
const LINE = /^[\x20-\x7e\u0080-\u00ff]+$/;
const HOST = /^(\*\.)?[a-z\d]([a-z\d.:-]{0,251}[a-z\d])?$|^[a-f\d:.]{2,45}$/;
/**
 * `secretsFile` is a JSON object: {"<name>": "text"} or {"<name>": {"value", "hosts"?, "use"?, "header"?, "tenants"?}}. A value is sent as
 * `Authorization: Bearer value`, or unchanged if it names its scheme or has a header of its own. With access on, what names no tenants is for definitions
 * of the platform. Throws ConfigError with every problem.
 */
export function readSecrets(settings: {
  readonly secretsFile?: string;
  readonly signingSecret?: string;
  readonly isAccessOn?: boolean;
}): Secrets {
  const { secretsFile: file, signingSecret, isAccessOn = false } = settings;
  const mask = new Mask();
  const problems: string[] = [];
  const signing = collecting(problems, () => readSigning(signingSecret, (values) => mask.hide(values)));
  const secrets = file === undefined ? new Map<string, Secret>() : secretsOf(file, isAccessOn, problems);
  if (!signing || problems.length > 0) throw new ConfigError(problems);
  mask.hide([...secrets.values()].map(({ value }) => value));
  const unbound = [...secrets].filter(([, { hosts }]) => !hosts).map(([name]) => withoutHosts(name));
  const gap = signing.gap(WEBHOOK);
  return {
    get: (name) => secrets.get(name),
    isOf: (name, tenantId) => {
      const { tenants, ofPlatform = file !== undefined } = secrets.get(name) ?? {};
      return tenants?.includes(tenantId) ?? !ofPlatform;
    },
    ...{ signing, mask, warnings: gap === undefined ? unbound : [...unbound, gap] },
  };
}

/** Undefined: it had problems, which are among `problems` now. */
function collecting<T>(problems: string[], read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}

function withoutHosts(name: string): string {
  return `the secret ${name} has no hosts: every workflow can send it anywhere; add {"value", "hosts"} in SAGA_SECRETS_FILE`;
}

/** Who may use the secret: the run, where the secret alone does not say it, or anyone. Undefined: it may not. */
export async function userOfSecret(
  { tenants, ofPlatform }: Secret,
  user: () => Promise<SecretUser | undefined>,
): Promise<SecretUser | "anyone" | undefined> {
  if (!tenants && !ofPlatform) return "anyone";
  const found = await user();
  if (!found) return undefined;
  const { tenantId, definitionOwner } = found;
  const isMeant = tenants ? tenantId !== null && tenants.includes(tenantId) : definitionOwner === null;
  return isMeant ? found : undefined;
}

/** Why the secret may not be used so; undefined: it may. */
export function secretMisuse(name: string, secret: Secret, use: SecretUse, url: string): string | undefined {
  if (secret.use !== undefined && secret.use !== use)
    return use === "signing" ? `the secret ${name} is not for signing` : `the secret ${name} is for signing only`;
  const to = URL.parse(url);
  const host = to?.hostname.replace(/\.$/, "").replace(/^\[|\]$/g, "") ?? "";
  if (secret.hosts && !secret.hosts.some((each) => isHost(each, host)))
    return `the secret ${name} may not be sent to ${host}`;
  // Anyone on the way could read it, or what it signs.
  if (to?.protocol === "http:" && !isLoopback(host))
    return `the secret ${name} is used with https only, or with http on loopback, and not with http to ${host}`;
  return undefined;
}

function isHost(listed: string, host: string): boolean {
  return listed.startsWith("*.") ? host.endsWith(listed.slice(1)) : listed === host;
}

/** Adds the problems of the file to the others. */
function secretsOf(file: string, isAccessOn: boolean, problems: string[]): Map<string, Secret> {
  const secrets = new Map<string, Secret>();
  for (const [name, entry] of Object.entries(parsed(file))) {
    const secret = secretOf(entry);
    if (typeof secret === "string") problems.push(`${file}: ${name}: ${secret}`);
    else secrets.set(name, isAccessOn && !secret.tenants ? { ...secret, ofPlatform: true } : secret);
  }
  return secrets;
}

/** The secret, or the problem with its entry. */
function secretOf(entry: unknown): Secret | string {
  const { header, value, hosts, use, tenants, ...rest } =
    typeof entry === "object" && entry !== null ? (entry as Record<string, unknown>) : { value: entry };
  if (Object.keys(rest).length > 0) return "has members other than value, hosts, use, header and tenants";
  if (typeof value !== "string" || !LINE.test(value)) return "its value must be one line of text";
  if (header !== undefined && !isHeader(header)) return "its header must be a header name that may carry a secret";
  if (use !== undefined && !isUse(use)) return "its use must be bearer or signing";
  if (use !== undefined && header !== undefined) return "it has both a use and a header: keep one";
  if (hosts !== undefined && !areHosts(hosts))
    return "its hosts must be a list of host names, such as api.example or *.example";
  if (tenants !== undefined && !areTenants(tenants)) return "its tenants must be a list of UUIDs";
  if (keyOf(value) === undefined) return "whsec_ must be followed by Base64";
  const namesScheme = use !== "signing" && (header ?? "authorization").toLowerCase() === "authorization";
  if (isShort(value, namesScheme)) return `its value ${TOO_SHORT}`;
  return {
    ...{ header: (header ?? "authorization").toLowerCase(), line: lineOf(value, header, use), value },
    ...(use !== undefined && { use }),
    ...(hosts !== undefined && { hosts: hosts.map((host) => host.toLowerCase()) }),
    ...(tenants !== undefined && { tenants: tenants.map((tenant) => tenant.toLowerCase()) }),
  };
}

const TOO_SHORT = `must have at least ${SHORTEST_SECRET} characters, without a scheme or whsec_ in front of them: shorter ones can be guessed`;

/** Of a signing key and of a header that may name its scheme, what is not known to everyone counts. */
function isShort(value: string, namesScheme: boolean): boolean {
  const prefix = value.startsWith("whsec_") ? "whsec_".length : namesScheme ? value.indexOf(" ") + 1 : 0;
  return value.length - prefix < SHORTEST_SECRET;
}

/** `Basic eA==` names its scheme. */
function lineOf(value: string, header: string | undefined, use: SecretUse | undefined): string {
  return header !== undefined || (use === undefined && value.includes(" ")) ? value : `Bearer ${value}`;
}

const isUse = (use: unknown): use is SecretUse => use === "bearer" || use === "signing";

function areHosts(hosts: unknown): hosts is string[] {
  return (
    Array.isArray(hosts) &&
    hosts.length > 0 &&
    hosts.every((host) => typeof host === "string" && HOST.test(host.toLowerCase()))
  );
}

function areTenants(tenants: unknown): tenants is string[] {
  return Array.isArray(tenants) && tenants.every((tenant) => typeof tenant === "string" && isUuid(tenant));
}

function isHeader(name: unknown): name is string {
  return typeof name === "string" && HEADER_NAME.test(name) && !NOT_FOR_SECRETS.has(name.toLowerCase());
}

/** Reports no message of the JSON parser, because it would quote the file. */
function parsed(file: string): object {
  let document: unknown;
  try {
    refuseReadable(file);
    document = parseJson(readFileSync(file, "utf8"));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${file}: ${code === undefined ? "is not JSON" : `cannot be read (${code})`}`]);
  }
  if (typeof document === "object" && document !== null && !Array.isArray(document)) return document;
  throw new ConfigError([`${file}: must be an object of secrets by name`]);
}

function refuseReadable(file: string): void {
  if (!isOpenToOthers(file)) return;
  throw new ConfigError([
    `${file}: other users of this machine can read or write it; take that from them (chmod o-rw)`,
  ]);
}
