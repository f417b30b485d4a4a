// Workers that are known by a certificate: the authority of their certificates, and what each name may do. How a certificate becomes a principal
// is the matter of access.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { CertificateError } from "./certificate.js";
import type { Environment } from "./environment.js";

export interface TlsClient {
  /** Names, or prefixes and `*`. */
  readonly services: readonly string[];
  /** The tenant whose runs it serves. */
  readonly tenantId?: string;
  /** It is the platform's, and serves the runs of these tenants. Absent beside no `tenantId`: of all, and of none. */
  readonly tenants?: readonly string[];
}

export interface TlsClients {
  /** `SAGA_TLS_CLIENT_CA_FILE`, as an absolute path. */
  readonly caFile: string;
  /** `SAGA_TLS_CLIENTS_FILE`, as an absolute path. */
  readonly clientsFile: string;
  /** What that file held at the start: by SPIFFE id or DNS name. */
  readonly byName: Readonly<Record<string, TlsClient>>;
}

const CA = "SAGA_TLS_CLIENT_CA_FILE";
const CLIENTS = "SAGA_TLS_CLIENTS_FILE";

/** `hasMtls`: SAGA_AUTH has it. Undefined: no client is known by a certificate. What is wrong with the files is a problem of the environment. */
export function readTlsClients(
  environment: Environment,
  { hasMtls, hasTls }: { readonly hasMtls: boolean; readonly hasTls: boolean },
): TlsClients | undefined {
  const [ca, clients] = [environment.text(CA), environment.text(CLIENTS)];
  if (!hasMtls) {
    refuseUnused(environment, [...(ca === undefined ? [] : [CA]), ...(clients === undefined ? [] : [CLIENTS])]);
    return undefined;
  }
  if (ca === undefined || clients === undefined) {
    environment.problem("SAGA_AUTH", `has mtls, which needs both ${CA} and ${CLIENTS}`);
    return undefined;
  }
  if (!hasTls) environment.problem(CA, "requires SAGA_TLS_CERT_FILE: a certificate is shown over TLS only");
  const files = { caFile: resolve(ca), clientsFile: resolve(clients) };
  try {
    readClientAuthority(files.caFile);
    return { ...files, byName: readClients(files.clientsFile) };
  } catch (error) {
    if (!(error instanceof CertificateError)) throw error;
    environment.problem(error.setting, error.sentence);
    return undefined;
  }
}

/** Their operator counts on certificates, which nobody would ask for. */
function refuseUnused(environment: Environment, set: readonly string[]): void {
  if (set.length === 0) return;
  const [are, them] = set.length === 1 ? ["is", "it"] : ["are", "them"];
  const sentence = `${are} for workers that show a certificate: add mtls to SAGA_AUTH, or remove ${them}`;
  environment.problem(set.join(" and "), sentence);
}

/** The certificates of the authority, as PEM. Throws CertificateError. */
export function readClientAuthority(caFile: string): Buffer {
  const pem = contentOf(CA, caFile);
  try {
    new X509Certificate(pem);
  } catch {
    throw new CertificateError(CA, "names a file that begins with no PEM certificate");
  }
  return pem;
}

/** What each client may do, by its name. Throws CertificateError. */
export function readClients(file: string): Record<string, TlsClient> {
  const document = parsed(contentOf(CLIENTS, file).toString("utf8"));
  if (!isObject(document)) throw new CertificateError(CLIENTS, "names a file that has no JSON object");
  const written = new Map<string, string>();
  const clients = Object.entries(document).map(([text, client]) => {
    const name = nameOf(text);
    const first = written.get(name);
    if (first !== undefined) throw new CertificateError(CLIENTS, twice(first, text));
    written.set(name, text);
    return [name, clientOf(text, client)] as const;
  });
  return Object.fromEntries(clients);
}

/** The later one would replace the other, and with it what the client may do. */
const twice = (...names: readonly [string, string]) =>
  `has one DNS name twice, because letters count in either case: ${names.map((name) => JSON.stringify(name)).join(" and ")}`;

/** DNS names are compared in lower case (RFC 4343). */
function nameOf(name: string): string {
  if (name.startsWith("spiffe://")) return name;
  if (/^[a-z\d]([a-z\d.-]*[a-z\d])?$/i.test(name)) return name.toLowerCase();
  throw new CertificateError(CLIENTS, `has a name that is neither a SPIFFE id nor a DNS name: ${JSON.stringify(name)}`);
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function clientOf(name: string, client: unknown): TlsClient {
  const wrong = (what: string) => new CertificateError(CLIENTS, `${what}, at ${JSON.stringify(name)}`);
  if (!isObject(client)) throw wrong("has a client that is no object");
  const { services, tenant_id: tenantId, tenants, ...unknown } = client;
  const [more] = Object.keys(unknown);
  if (more !== undefined) throw wrong(`has a member that is not known: ${more}`);
  if (!isTexts(services)) throw wrong("has services that are no list of texts");
  if ((tenantId === undefined) === (tenants === undefined))
    throw wrong('must have one of tenant_id, tenants, "tenants": "*"');
  if (tenants === "*") return { services };
  const given = tenants ?? [tenantId];
  if (!isTexts(given) || !given.every((id) => UUID.test(id))) throw wrong("has a tenant that is no UUID");
  const ids = given.map((id) => id.toLowerCase());
  const [only] = ids;
  return tenants === undefined && only !== undefined ? { services, tenantId: only } : { services, tenants: ids };
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Undefined: it is no JSON. The parser's message would quote the file. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch {
    return undefined;
  }
}

function contentOf(setting: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CertificateError(setting, `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
}
