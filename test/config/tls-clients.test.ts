// Workers that are known by a certificate, as the settings say it: both files belong together and to TLS, and what is wrong in them stops the
// start with a sentence that says where.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { ConfigError, loadConfig } from "../../src/config/index.js";
import { createAuthority, describeWithOpenssl } from "../harness/certificates.js";

const folder = mkdtempSync(join(tmpdir(), "saga-clients-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const TENANT = "0190A000-0000-7000-8000-00000000000A";

describeWithOpenssl("workers that are known by a certificate", () => {
  const authority = createAuthority();
  const { certFile, keyFile } = authority.issue(["DNS:localhost"]);
  const tls = { SAGA_TLS_CERT_FILE: certFile, SAGA_TLS_KEY_FILE: keyFile };
  const mtls = { SAGA_AUTH: "api_key,mtls" };
  const ca = { SAGA_TLS_CLIENT_CA_FILE: authority.caFile };

  const clients = (document: unknown) => {
    const file = join(folder, "clients.json");
    writeFileSync(file, typeof document === "string" ? document : JSON.stringify(document));
    return { SAGA_TLS_CLIENTS_FILE: file };
  };

  const problemsOf = (env: Record<string, string>) => {
    try {
      loadConfig(env);
      return [];
    } catch (error) {
      return error instanceof ConfigError ? error.problems : [String(error)];
    }
  };

  it("are read by name: SPIFFE ids as they are, DNS names and tenants in lower case", () => {
    const document = {
      "spiffe://shop/Pay": { services: ["pay"], tenant_id: TENANT },
      "Stock.Shop": { services: ["stock*"], tenants: [TENANT] },
      "all.shop": { services: ["*"], tenants: "*" },
    };
    const { config } = loadConfig({ ...mtls, ...tls, ...ca, ...clients(document) });
    expect(config.credentials).toEqual(["api_key", "mtls"]);
    expect(config.tlsClients?.byName).toEqual({
      "spiffe://shop/Pay": { services: ["pay"], tenantId: TENANT.toLowerCase() },
      "stock.shop": { services: ["stock*"], tenants: [TENANT.toLowerCase()] },
      "all.shop": { services: ["*"] },
    });
  });

  it("need both files, and TLS", () => {
    const both = { ...ca, ...clients({}) };
    const needed = "SAGA_AUTH has mtls, which needs both SAGA_TLS_CLIENT_CA_FILE and SAGA_TLS_CLIENTS_FILE";
    for (const some of [{}, ca, clients({})]) expect(problemsOf({ ...tls, ...mtls, ...some })).toEqual([needed]);
    expect(problemsOf({ ...mtls, ...both })).toEqual([
      "SAGA_TLS_CLIENT_CA_FILE requires SAGA_TLS_CERT_FILE: a certificate is shown over TLS only",
    ]);
    expect(problemsOf({ ...mtls, ...tls, ...both })).toEqual([]);
  });

  it("are there with mtls only: without it their files stop the start, with access control and without", () => {
    const both = { ...ca, ...clients({}) };
    for (const SAGA_AUTH of ["", "off", "api_key"]) {
      const auth = { SAGA_AUTH };
      expect(problemsOf({ ...tls, ...auth, ...both })).toEqual([
        "SAGA_TLS_CLIENT_CA_FILE and SAGA_TLS_CLIENTS_FILE are for workers that show a certificate: add mtls to SAGA_AUTH, or remove them",
      ]);
      expect(problemsOf({ ...tls, ...auth, ...ca })).toEqual([
        "SAGA_TLS_CLIENT_CA_FILE is for workers that show a certificate: add mtls to SAGA_AUTH, or remove it",
      ]);
      expect(problemsOf({ ...tls, ...auth, ...clients({}) })).toEqual([
        "SAGA_TLS_CLIENTS_FILE is for workers that show a certificate: add mtls to SAGA_AUTH, or remove it",
      ]);
    }
  });

  it("stop the start where a file cannot be used", () => {
    const with_ = (more: Record<string, string>) => problemsOf({ ...mtls, ...tls, ...ca, ...clients({}), ...more })[0];
    expect(with_({ SAGA_TLS_CLIENT_CA_FILE: "/nowhere" })).toContain("names a file that cannot be read (ENOENT)");
    expect(with_({ SAGA_TLS_CLIENT_CA_FILE: keyFile })).toContain("begins with no PEM certificate");
    expect(with_({ SAGA_TLS_CLIENTS_FILE: "/nowhere" })).toContain("names a file that cannot be read (ENOENT)");
  });

  it.each([
    ["no JSON", "{", "has no JSON object"],
    ["a list", [], "has no JSON object"],
    [
      "a name of a person",
      { "Ann Lee": { services: [], tenants: "*" } },
      'neither a SPIFFE id nor a DNS name: "Ann Lee"',
    ],
    ["no object", { a: null }, "has a client that is no object"],
    ["a member too much", { a: { services: [], tenants: "*", roles: [] } }, "has a member that is not known: roles"],
    [
      "one DNS name twice, in other letters",
      { "stock.shop": { services: [], tenants: "*" }, "Stock.SHOP": { services: ["*"], tenants: "*" } },
      'has one DNS name twice, because letters count in either case: "stock.shop" and "Stock.SHOP"',
    ],
    ["no services", { a: { tenants: "*" } }, "has services that are no list of texts"],
    ["services that are a text", { a: { services: "*", tenants: "*" } }, "has services that are no list of texts"],
    ["no tenant", { a: { services: [] } }, "must have one of tenant_id, tenants"],
    ["both", { a: { services: [], tenant_id: TENANT, tenants: "*" } }, "must have one of tenant_id, tenants"],
    ["a tenant that is none", { a: { services: [], tenant_id: "shop" } }, "has a tenant that is no UUID"],
    ["a tenant that is null", { a: { services: [], tenant_id: null } }, "has a tenant that is no UUID"],
    ["tenants that are none", { a: { services: [], tenants: [TENANT, 7] } }, "has a tenant that is no UUID"],
  ])("stop the start with %s", (_, document, sentence) => {
    const [problem, ...more] = problemsOf({ ...mtls, ...tls, ...ca, ...clients(document) });
    expect([problem, more]).toEqual([expect.stringContaining(sentence), []]);
    expect(problem).toContain("SAGA_TLS_CLIENTS_FILE");
  });
});
