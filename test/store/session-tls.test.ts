// Sessions with Postgres over TLS: a server with a certificate of a test's own authority, and what each sslmode makes of it.
import { chmodSync, chownSync, copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { loadConfig } from "../../src/config/index.js";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { openSessions } from "../../src/store/engine/session.js";
import { awaitDatabase } from "../../src/store/migrate/readiness.js";
import { type Authority, createAuthority, describeWithOpenssl } from "../harness/certificates.js";
import { silentLog } from "../harness/database.js";
import { until } from "../harness/until.js";

describeWithOpenssl("a session over TLS", () => {
  let folder: string;
  let server: EmbeddedPostgres;
  let authority: Authority;
  let other: Authority;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "saga-tls-database-"));
    authority = createAuthority("of the server");
    other = createAuthority("of another");
    server = await startEmbeddedPostgres({ dataDir: folder, log: silentLog });
  });
  afterAll(async () => {
    await server.stop();
    rmSync(folder, { recursive: true });
  });

  /** The server has a certificate for these names from now on. */
  async function certify(...names: readonly string[]): Promise<void> {
    const { certFile, keyFile } = authority.issue(names);
    const home = join(folder, "postgres");
    const { uid, gid } = statSync(home);
    for (const [from, name] of [
      [certFile, "server.crt"],
      [keyFile, "server.key"],
    ] as const) {
      copyFileSync(from, join(home, name));
      chownSync(join(home, name), uid, gid);
      chmodSync(join(home, name), 0o600);
    }
    const sql = openSessions(server.url, { max: 1, applicationName: "saga-test-tls", onnotice: () => {} });
    await sql`alter system set ssl = on`;
    const [before] = await sql`select pg_conf_load_time() as at`;
    await sql`select pg_reload_conf()`;
    const isLoaded = async () => {
      const [row] = await sql`select pg_conf_load_time() > ${before?.at} as later, current_setting('ssl') as ssl`;
      return row?.later && row.ssl === "on";
    };
    await until(isLoaded, { what: "a server with TLS" });
    await sql.end();
  }

  const at = (host: string, query: Readonly<Record<string, string>>) => {
    const url = new URL(server.url);
    url.hostname = host;
    url.search = new URLSearchParams(query).toString();
    return url.href;
  };

  /** Whether the session has TLS, or why there is none. */
  async function reached(url: string): Promise<boolean | string> {
    const sql = openSessions(url, { max: 1, applicationName: "saga-test-tls", onnotice: () => {} });
    try {
      const [row] = await sql`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
      return row?.ssl === true;
    } catch (error) {
      return String((error as NodeJS.ErrnoException).code);
    } finally {
      await sql.end({ timeout: 1 });
    }
  }

  const full = (from: Authority) => ({ sslmode: "verify-full", sslrootcert: from.caFile });

  it("is verified: by the authority, and by the name or the address that the URL has", async () => {
    await certify("DNS:localhost");
    expect(await reached(at("localhost", full(authority)))).toBe(true);
    expect(await reached(at("localhost", full(other)))).toMatch(/^(UNABLE_TO_VERIFY|SELF_SIGNED_CERT_IN_CHAIN)/);
    expect(await reached(at("localhost", { sslmode: "verify-full" })), "Node's own authorities").toMatch(/^UNABLE_TO/);
    expect(await reached(at("127.0.0.1", full(authority))), "no address of the certificate").toBe(
      "ERR_TLS_CERT_ALTNAME_INVALID",
    );
    await certify("IP:127.0.0.1");
    expect(await reached(at("127.0.0.1", full(authority)))).toBe(true);
    expect(await reached(at("localhost", full(authority)))).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  });

  it("is verified although Node is told to verify nothing", async () => {
    await certify("DNS:localhost");
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const found = [await reached(at("localhost", full(other))), await reached(at("127.0.0.1", full(authority)))];
    vi.unstubAllEnvs();
    expect(found).toEqual(["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "ERR_TLS_CERT_ALTNAME_INVALID"]);
  });

  it("is verified by the host that it reaches, of several", async () => {
    await certify("IP:127.0.0.1");
    const { port } = new URL(server.url);
    // Nothing listens at the first one.
    const several = at("127.0.0.1", { ...full(authority), host: "127.0.0.9,127.0.0.1", port: `${port},${port}` });
    expect(await reached(several)).toBe(true);
  });

  it("takes any name with verify-ca, and anything with require", async () => {
    await certify("DNS:db.example");
    expect(await reached(at("localhost", { sslmode: "verify-ca", sslrootcert: authority.caFile }))).toBe(true);
    expect(await reached(at("localhost", { sslmode: "require", sslrootcert: authority.caFile }))).toBe(true);
    expect(await reached(at("localhost", { sslmode: "verify-ca", sslrootcert: other.caFile }))).toMatch(/^UNABLE_TO/);
    expect(await reached(at("localhost", { sslmode: "require", sslrootcert: other.caFile }))).toMatch(/^UNABLE_TO/);
    expect(await reached(at("localhost", { sslmode: "require" }))).toBe(true);
    expect(await reached(at("localhost", { sslmode: "disable" }))).toBe(false);
  });

  it("is what PGSSLMODE and PGSSLROOTCERT ask for where the URL has no sslmode", async () => {
    await certify("DNS:localhost");
    const taken = (query: Readonly<Record<string, string>>, file: string) => {
      const env = { DATABASE_URL: at("localhost", query), PGSSLMODE: "verify-full", PGSSLROOTCERT: file };
      return reached(loadConfig(env).config.databaseUrl ?? "");
    };
    expect(await taken({}, authority.caFile)).toBe(true);
    expect(await taken({}, other.caFile)).toMatch(/^(UNABLE_TO_VERIFY|SELF_SIGNED_CERT_IN_CHAIN)/);
    expect(await taken({ sslmode: "disable" }, authority.caFile)).toBe(false);
  });

  it("stops the start in one sentence where the certificate is of another authority", async () => {
    await certify("DNS:localhost");
    await expect(awaitDatabase(at("localhost", full(other)), silentLog)).rejects.toMatchObject({
      name: "UnusableDatabase",
      message: expect.stringMatching(/^The database of DATABASE_URL cannot be used: unable to verify/),
    });
  });

  it("stops the start in one sentence where a file is no certificate", async () => {
    const url = at("localhost", { sslmode: "verify-full", sslrootcert: import.meta.filename });
    await expect(awaitDatabase(url, silentLog)).rejects.toMatchObject({
      name: "UnusableDatabase",
      message: expect.stringMatching(/^DATABASE_URL has an sslrootcert that cannot be used: /),
    });
    const client = at("localhost", { sslmode: "require", sslcert: authority.caFile, sslkey: import.meta.filename });
    await expect(awaitDatabase(client, silentLog)).rejects.toMatchObject({
      name: "UnusableDatabase",
      message: expect.stringMatching(/^DATABASE_URL has an sslcert and an sslkey that cannot be used: /),
    });
  });
});
