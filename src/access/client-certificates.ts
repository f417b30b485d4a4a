// Clients that are known by a certificate: which names of certificates are theirs, and what they may do. Whether a certificate comes from the
// authority is the matter of TLS.
import type { X509Certificate } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { Patterns } from "./patterns.js";
import type { Principal } from "./principal.js";

/** A worker that is known by a name of its certificate. */
export interface CertifiedClient {
  readonly services: readonly string[];
  /** The tenant whose runs it serves. Absent: `tenants`. */
  readonly tenantId?: string;
  /** The tenants of a worker of the platform. Absent beside no `tenantId`: all. */
  readonly tenants?: readonly string[];
}

interface Known {
  readonly client: CertifiedClient;
  /** Aborted when the name is no client any more, or may do something else. */
  readonly end: AbortController;
}

export class ClientCertificates {
  private clients: ReadonlyMap<string, Known> = new Map();

  /** By SPIFFE id or DNS name, the latter in lower case. */
  constructor(clients: Readonly<Record<string, CertifiedClient>>) {
    this.replace(clients);
  }

  /** The credentials of names that are gone, or may do something else now, end. */
  replace(clients: Readonly<Record<string, CertifiedClient>>): void {
    const before = this.clients;
    const stays = (name: string) => isDeepStrictEqual(before.get(name)?.client, clients[name]);
    this.clients = new Map(
      Object.entries(clients).map(([name, client]) => {
        const known = stays(name) ? before.get(name) : undefined;
        return [name, known ?? { client, end: new AbortController() }];
      }),
    );
    for (const [name, { end }] of before) if (!stays(name)) end.abort();
  }

  /** By the first of its names that a client has. Undefined: none has. The certificate is verified. */
  principalOf(certificate: X509Certificate | undefined): Principal | undefined {
    if (!certificate) return undefined;
    for (const name of namesOf(certificate)) {
      const known = this.clients.get(name);
      if (known) return principalOf(name, known, Date.parse(certificate.validTo));
    }
    return undefined;
  }
}

function principalOf(sub: string, { client, end }: Known, expiresAt: number): Principal {
  const { services, tenantId, tenants } = client;
  return {
    ...{ kind: "worker", sub, actor: `worker:${sub}`, expiresAt, ended: end.signal },
    roles: new Set(tenantId === undefined ? ["worker", "platform"] : ["worker"]),
    ...(tenantId !== undefined && { tenantId }),
    ...(tenants && { tenants }),
    services: new Patterns(services),
    secrets: new Patterns([]),
  };
}

/** Node writes a name in quotes where it holds what could be taken for the beginning of the next one. */
const QUOTED = /"(?:[^"\\]|\\.)*"/g;

/** Its SPIFFE id, then its DNS names. A name that needs quotes is no one's. By its standard an SVID has one URI. */
export function namesOf({ subjectAltName = "" }: Pick<X509Certificate, "subjectAltName">): readonly string[] {
  const entries = subjectAltName.replace(QUOTED, '"').split(", ");
  const of = (prefix: string) =>
    entries.filter((entry) => entry.startsWith(prefix)).map((entry) => entry.slice(prefix.length));
  const uris = of("URI:");
  const spiffe = uris.length === 1 ? uris.filter((uri) => uri.startsWith("spiffe://")) : [];
  return [...spiffe, ...of("DNS:").map((name) => name.toLowerCase())].filter((name) => !name.includes('"'));
}
