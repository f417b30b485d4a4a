// The certificate of the HTTP and the gRPC port: its two settings, and how their files are read and checked. How it is served, and
// replaced while the service runs, is the matter of the cluster and of the two servers.
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Environment } from "./environment.js";
import { isOpenToOthers } from "./private-file.js";

/** PEM files, as absolute paths. */
export interface CertificateFiles {
  /** `SAGA_TLS_CERT_FILE`. The certificate, followed by those of the authorities between it and the root. */
  readonly certFile: string;
  /** `SAGA_TLS_KEY_FILE`. */
  readonly keyFile: string;
}

export interface Certificate {
  /** What a TLS server needs of it. It holds the key. */
  readonly context: SecureContextOptions;
  /** Epoch milliseconds, both. */
  readonly validFrom: number;
  readonly expiresAt: number;
}

/** What the two servers need: the present certificate, and to be told of the next one. */
export interface ServerTls {
  readonly context: SecureContextOptions;
  onReplaced(use: (context: SecureContextOptions) => void): void;
}

/** The certificate or its key cannot be served. The message is a sentence that begins with the setting, and shows nothing of the key. */
export class CertificateError extends Error {
  override readonly name = "CertificateError";
  constructor(
    readonly setting: string,
    readonly sentence: string,
  ) {
    super(`${setting} ${sentence}`);
  }
}

const CERT = "SAGA_TLS_CERT_FILE";
const KEY = "SAGA_TLS_KEY_FILE";
/** Written here, because Node has an option that lowers its own. */
const OLDEST_VERSION = "TLSv1.2";
const WARNED_MS = 14 * 86_400_000;

/** Undefined: the ports have no TLS. What is wrong with the files is a problem of the environment. */
export function readTls(environment: Environment): CertificateFiles | undefined {
  const [cert, key] = [environment.text(CERT), environment.text(KEY)];
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const [missing, present] = cert === undefined ? [CERT, KEY] : [KEY, CERT];
    environment.problem(missing, `is missing: ${present} requires it`);
    return undefined;
  }
  const files = { certFile: resolve(cert), keyFile: resolve(key) };
  try {
    readCertificate(files);
  } catch (error) {
    if (!(error instanceof CertificateError)) throw error;
    environment.problem(error.setting, error.sentence);
  }
  return files;
}

/** Reads both files anew. Throws CertificateError if they cannot be served together. */
export function readCertificate({ certFile, keyFile }: CertificateFiles): Certificate {
  const [cert, key] = [contentOf(CERT, certFile), contentOf(KEY, keyFile)];
  if (isOpenToOthers(keyFile))
    throw new CertificateError(
      KEY,
      "names a file that other users of this machine can read or write: take that from them (chmod o-rw)",
    );
  const certificate = certificateIn(cert);
  if (!certificate.checkPrivateKey(privateKeyIn(key)))
    throw new CertificateError(KEY, `names a key that does not belong to the certificate of ${CERT}`);
  const context = { cert, key, minVersion: OLDEST_VERSION } as const;
  refuseUnservable(context);
  return {
    context,
    validFrom: Date.parse(certificate.validFrom),
    expiresAt: Date.parse(certificate.validTo),
  };
}

/** Why clients refuse the certificate now (epoch milliseconds), or will do so soon. It is no reason not to start. */
export function validityWarning({ validFrom, expiresAt }: Certificate, now: number): string | undefined {
  const names = (what: string, at: number) => `${CERT} names a certificate that ${what} ${new Date(at).toISOString()}`;
  if (now >= expiresAt) return `${names("expired at", expiresAt)}: clients refuse it`;
  if (now < validFrom) return `${names("is not valid before", validFrom)}: clients refuse it until then`;
  if (expiresAt - now > WARNED_MS) return undefined;
  return `${names("expires at", expiresAt)}: replace the files and send SIGHUP to the service`;
}

function contentOf(setting: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new CertificateError(setting, `names a file that cannot be read (${code})`);
  }
}

function certificateIn(pem: Buffer): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch {
    throw new CertificateError(CERT, "names a file that begins with no PEM certificate");
  }
}

/** Reports no message of OpenSSL, which could quote the file. */
function privateKeyIn(pem: Buffer): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    // OpenSSL has a code of its own for each form of it.
    const isEncrypted = pem.includes("ENCRYPTED");
    throw new CertificateError(
      KEY,
      isEncrypted ? "names a key with a passphrase: store it without one" : "names a file that has no PEM private key",
    );
  }
}

/** OpenSSL refuses short keys and broken chains only when they are to be used. */
function refuseUnservable(context: SecureContextOptions): void {
  try {
    createSecureContext(context);
  } catch (error) {
    throw new CertificateError(CERT, `names a certificate that cannot be served: ${(error as Error).message}`);
  }
}
