// The certificate of the ports as a setting: what is wrong with its files stops the start in a sentence that names the setting and
// shows nothing of the key; what clients will object to is a warning.
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ConfigError, type Env, loadConfig, readCertificate, validityWarning } from "../../src/config/index.js";
import {
  type Authority,
  createAuthority,
  describeWithOpenssl,
  type IssuedFiles,
  openssl,
} from "../harness/certificates.js";

const DAY_MS = 86_400_000;

/** What stops the start. */
function problemsOf(env: Readonly<Record<string, string>>): readonly string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
}

describeWithOpenssl("the certificate of the ports", () => {
  let folder: string;
  let authority: Authority;
  let files: IssuedFiles;
  const settings = (more: Readonly<Record<string, string>> = {}) => ({
    SAGA_TLS_CERT_FILE: files.certFile,
    SAGA_TLS_KEY_FILE: files.keyFile,
    ...more,
  });
  const written = (name: string, content: string | Buffer) => {
    const path = join(folder, name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  };

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "saga-tls-settings-"));
    authority = createAuthority();
    files = authority.issue(["DNS:localhost"]);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it("is read with its key, and makes the public URL https", () => {
    const { config } = loadConfig(settings({ HTTP_PORT: "8443" }));
    expect(config).toMatchObject({ tls: files, publicUrl: "https://127.0.0.1:8443" });
    expect(loadConfig({}).config.tls).toBeUndefined();
  });

  it("does not go with a public URL that is http", () => {
    const env = settings({ SAGA_PUBLIC_URL: "http://saga.example" });
    expect(problemsOf(env)).toEqual(["SAGA_PUBLIC_URL must begin with https://, because SAGA_TLS_CERT_FILE is set"]);
  });

  it("needs both of its settings", () => {
    const { certFile, keyFile } = files;
    const missing = (one: string, other: string) => [`${one} is missing: ${other} requires it`];
    expect(problemsOf({ SAGA_TLS_CERT_FILE: certFile })).toEqual(missing("SAGA_TLS_KEY_FILE", "SAGA_TLS_CERT_FILE"));
    expect(problemsOf({ SAGA_TLS_KEY_FILE: keyFile })).toEqual(missing("SAGA_TLS_CERT_FILE", "SAGA_TLS_KEY_FILE"));
  });

  it("has files that exist", () => {
    const none = join(folder, "none.pem");
    const sentence = "names a file that cannot be read (ENOENT)";
    expect(problemsOf(settings({ SAGA_TLS_CERT_FILE: none }))).toEqual([`SAGA_TLS_CERT_FILE ${sentence}`]);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: none }))).toEqual([`SAGA_TLS_KEY_FILE ${sentence}`]);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: folder }))).toEqual([
      "SAGA_TLS_KEY_FILE names a file that cannot be read (EISDIR)",
    ]);
  });

  it("has files with what they are named for", () => {
    const garbage = written("garbage.pem", "-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n");
    expect(problemsOf(settings({ SAGA_TLS_CERT_FILE: garbage }))).toEqual([
      "SAGA_TLS_CERT_FILE names a file that begins with no PEM certificate",
    ]);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: garbage }))).toEqual([
      "SAGA_TLS_KEY_FILE names a file that has no PEM private key",
    ]);
  });

  it("has a key without a passphrase", () => {
    const locked = written("locked.key", "");
    openssl("pkcs8", "-topk8", "-in", files.keyFile, "-out", locked, "-passout", "pass:CANARY");
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: locked }))).toEqual([
      "SAGA_TLS_KEY_FILE names a key with a passphrase: store it without one",
    ]);
  });

  it("has the key that belongs to it", () => {
    const { keyFile } = authority.issue(["DNS:localhost"]);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: keyFile }))).toEqual([
      "SAGA_TLS_KEY_FILE names a key that does not belong to the certificate of SAGA_TLS_CERT_FILE",
    ]);
  });

  it("cannot have so short a key that no client would take it", () => {
    const [keyFile, certFile] = [written("short.key", ""), join(folder, "short.pem")];
    const config = written("short.cnf", "[req]\ndistinguished_name=dn\n[dn]\n");
    const request = ["req", "-x509", "-config", config, "-newkey", "rsa:512", "-nodes", "-subj", "/CN=short"];
    openssl(...request, "-keyout", keyFile, "-out", certFile);
    expect(problemsOf({ SAGA_TLS_CERT_FILE: certFile, SAGA_TLS_KEY_FILE: keyFile })).toEqual([
      expect.stringMatching(/^SAGA_TLS_CERT_FILE names a certificate that cannot be served: .*ee key too small/),
    ]);
  });

  it.skipIf(process.platform === "win32").each([0o604, 0o602])("has no key that others can use (mode %o)", (mode) => {
    const open = join(folder, "open.key");
    copyFileSync(files.keyFile, open);
    chmodSync(open, mode);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: open }))).toEqual([
      "SAGA_TLS_KEY_FILE names a file that other users of this machine can read or write: take that from them (chmod o-rw)",
    ]);
    chmodSync(open, 0o640);
    expect(problemsOf(settings({ SAGA_TLS_KEY_FILE: open }))).toEqual([]);
  });

  it("is served for TLS 1.2 and newer, whatever Node's own bound is", () => {
    expect(readCertificate(files).context).toMatchObject({
      minVersion: "TLSv1.2",
      cert: readFileSync(files.certFile),
      key: readFileSync(files.keyFile),
    });
  });
});

describe("the validity of the certificate", () => {
  const certificate = { context: {}, validFrom: 100 * DAY_MS, expiresAt: 200 * DAY_MS };

  it.each([
    [99 * DAY_MS, "is not valid before 1970-04-11T00:00:00.000Z: clients refuse it until then"],
    [200 * DAY_MS, "expired at 1970-07-20T00:00:00.000Z: clients refuse it"],
    [186 * DAY_MS, "expires at 1970-07-20T00:00:00.000Z: replace the files and send SIGHUP to the service"],
  ])("is warned about at %d", (now, sentence) => {
    expect(validityWarning(certificate, now)).toBe(`SAGA_TLS_CERT_FILE names a certificate that ${sentence}`);
  });

  it("is no matter while it has more than 14 days left", () => {
    expect(validityWarning(certificate, 100 * DAY_MS)).toBeUndefined();
    expect(validityWarning(certificate, 186 * DAY_MS - 1)).toBeUndefined();
  });
});

describe("sslmode=require", () => {
  const warnings = (env: Env) => loadConfig(env).warnings.filter((line) => line.includes("sslmode"));
  const warned = (url: string) => warnings({ DATABASE_URL: url }).length > 0;

  it.each([
    ["postgres://db.example/saga?sslmode=require", true],
    ["postgres://db.example/saga?ssl=true", true],
    ["postgres://127.0.0.1,10.0.0.1/saga?sslmode=require", true],
    ["postgres://127.0.0.1/saga?sslmode=require", false],
    ["postgres://localhost,[::1]/saga?sslmode=require", false],
    ["postgres:///saga?host=/run/postgresql&sslmode=require", false],
    ["postgres://db.example/saga?sslmode=require&sslrootcert=/ca.pem", false],
    ["postgres://db.example/saga?sslmode=verify-full", false],
    ["postgres://db.example/saga", false],
  ])("of %s is warned about: %s", (url, isWarned) => {
    expect(warned(url)).toBe(isWarned);
  });

  it("of the reads is warned about, too, by its own setting", () => {
    const [url, other] = ["postgres://db.example/saga?sslmode=require", "postgres://127.0.0.1/saga?sslmode=require"];
    expect(warnings({ DATABASE_URL: url, SAGA_READ_DATABASE_URL: url })).toEqual([
      expect.stringMatching(/^DATABASE_URL has sslmode=require/),
      expect.stringMatching(/^SAGA_READ_DATABASE_URL has sslmode=require/),
    ]);
    expect(warnings({ DATABASE_URL: other, SAGA_READ_DATABASE_URL: other })).toEqual([]);
  });
});
