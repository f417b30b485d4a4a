// Certificates for tests of TLS, made by the `openssl` of the machine: an authority, and what it issues. Node signs no certificates itself.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe } from "vitest";
import { atFileEnd } from "./file-end.js";

export interface IssuedFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface Authority {
  /** The certificate of the authority, as PEM. */
  readonly ca: string;
  readonly caFile: string;
  /** A certificate for these names, written like `DNS:localhost` or `IP:127.0.0.1`, in files of their own. */
  issue(names: readonly string[], days?: number): IssuedFiles;
}

/** The files go with the test file. Call it in a suite of `describeWithOpenssl`. */
export function createAuthority(name = "saga tests"): Authority {
  const folder = mkdtempSync(join(tmpdir(), "saga-certificates-"));
  atFileEnd(async () => rmSync(folder, { recursive: true, force: true }));
  const [caFile, caKey] = [join(folder, "ca.pem"), join(folder, "ca.key")];
  const config = join(folder, "openssl.cnf");
  // What a machine's own file adds differs from machine to machine.
  writeFileSync(
    config,
    "[req]\ndistinguished_name=dn\nx509_extensions=ca\n[dn]\n[ca]\nbasicConstraints=critical,CA:TRUE\n",
  );
  const request = ["req", "-config", config, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  openssl(...request, "-x509", "-days", "3650", "-subj", `/CN=${name}`, "-keyout", caKey, "-out", caFile);
  let count = 0;
  const issue = (names: readonly string[], days = 90) => {
    const at = (end: string) => join(folder, `${count}.${end}`);
    count++;
    writeFileSync(at("ext"), `subjectAltName=${names.join(",")}\n`);
    openssl(...request, "-subj", `/CN=certificate ${count}`, "-keyout", at("key"), "-out", at("csr"));
    const from = ["-CA", caFile, "-CAkey", caKey, "-set_serial", String(count), "-days", String(days)];
    openssl("x509", "-req", "-in", at("csr"), ...from, "-extfile", at("ext"), "-out", at("pem"));
    return { certFile: at("pem"), keyFile: at("key") };
  };
  return { ca: readFileSync(caFile, "utf8"), caFile, issue };
}

export function openssl(...words: readonly string[]): void {
  execFileSync("openssl", words, { stdio: "pipe" });
}

const HAS_OPENSSL = (() => {
  try {
    openssl("version");
    return true;
  } catch {
    return false;
  }
})();

/** Skipped by name where there is no openssl. */
export const describeWithOpenssl = (name: string, suite: () => void) =>
  describe.skipIf(!HAS_OPENSSL)(HAS_OPENSSL ? name : `${name} (needs openssl)`, suite);
