// The secrets that steps name by `secret_ref`, read once at the start from a file. A value leaves here for a header or a
// signature, and for nothing else: no log, no error, no audit row, no stored call.
import { readFileSync } from "node:fs";
import { ConfigError } from "../config/index.js";
import { keyOf } from "./signature.js";

export interface Secret {
  /** The header that it is sent in, in lower case. */
  readonly header: string;
  /** What stands in that header. */
  readonly line: string;
  /** As it is in the file: what signatures are made with. */
  readonly value: string;
}

export interface Secrets {
  get(name: string): Secret | undefined;
  /** What is signed with where no secret is named; without it, what goes out is unsigned. */
  readonly signing?: string;
}

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** They frame a message, or make its effect once. */
const NOT_FOR_SECRETS: ReadonlySet<string> = new Set([
  ...["connection", "content-length", "content-type", "expect", "host", "idempotency-key", "keep-alive"],
  ...["te", "trailer", "transfer-encoding", "upgrade"],
]);
const LINE = /^[\x20-\x7e\u0080-\u00ff]+$/;

/**
 * `secretsFile`: {"<name>": "text"} is sent as `Authorization: Bearer text`; {"<name>": {"value", "header"?}} as that header's whole
 * value, `Authorization` if none is given. Throws ConfigError naming the file and what is wrong with it.
 */
export function readSecrets(settings: { readonly secretsFile?: string; readonly signingSecret?: string }): Secrets {
  const { secretsFile: file, signingSecret: signing } = settings;
  if (signing !== undefined && keyOf(signing) === undefined)
    throw new ConfigError(["SAGA_SIGNING_SECRET must have Base64 after whsec_"]);
  const secrets = new Map<string, Secret>();
  if (file !== undefined) {
    const problems: string[] = [];
    for (const [name, entry] of Object.entries(parsed(file))) {
      const secret = secretOf(entry);
      if (typeof secret === "string") problems.push(`${file}: ${name}: ${secret}`);
      else secrets.set(name, secret);
    }
    if (problems.length > 0) throw new ConfigError(problems);
  }
  return { get: (name) => secrets.get(name), ...(signing !== undefined && { signing }) };
}

/** What is wrong with the entry, else the secret. */
function secretOf(entry: unknown): Secret | string {
  const { header, value, ...rest } =
    typeof entry === "object" && entry !== null ? (entry as Record<string, unknown>) : { value: entry };
  if (Object.keys(rest).length > 0) return "has members other than header and value";
  if (typeof value !== "string" || !LINE.test(value)) return "its value must be one line of text";
  if (header !== undefined && !isHeader(header))
    return "its header must be the name of a header that can hold a secret";
  if (keyOf(value) === undefined) return "whsec_ must be followed by Base64";
  const line = typeof entry === "string" ? `Bearer ${value}` : value;
  return { header: (header ?? "authorization").toLowerCase(), line, value };
}

function isHeader(name: unknown): name is string {
  return typeof name === "string" && HEADER_NAME.test(name) && !NOT_FOR_SECRETS.has(name.toLowerCase());
}

/** The parser's own message would quote the file. */
function parsed(file: string): object {
  let document: unknown;
  try {
    document = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${file}: ${code === undefined ? "is not JSON" : `cannot be read (${code})`}`]);
  }
  if (typeof document === "object" && document !== null && !Array.isArray(document)) return document;
  throw new ConfigError([`${file}: must be an object of secrets by name`]);
}
