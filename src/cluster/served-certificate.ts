// The certificate that the two ports of a node serve: read at its start, replaced on request, and watched for its end. How its files
// are checked is the matter of the configuration.

import type { SecureContextOptions } from "node:tls";
import { clearInterval, setInterval } from "../ambient.js";
import {
  type Certificate,
  CertificateError,
  type CertificateFiles,
  readCertificate,
  type ServerTls,
  validityWarning,
} from "../config/index.js";
import type { Log } from "../log.js";

export interface ServedCertificateOptions {
  readonly files: CertificateFiles;
  readonly log: Log;
  /** Epoch milliseconds. */
  now(): number;
  /** Seconds until the certificate expires, at the start, after a replacement and every few seconds. Negative once it has. */
  onRemaining(seconds: number): void;
}

const REMAINING_MS = 5_000;

export class ServedCertificate implements ServerTls {
  private served: Certificate;
  private readonly uses: ((context: SecureContextOptions) => void)[] = [];
  private readonly timer: NodeJS.Timeout;

  /** Throws CertificateError. */
  constructor(private readonly options: ServedCertificateOptions) {
    this.served = readCertificate(options.files);
    this.timer = setInterval(() => this.tellRemaining(), REMAINING_MS).unref();
    this.watch();
  }

  get context(): SecureContextOptions {
    return this.served.context;
  }

  onReplaced(use: (context: SecureContextOptions) => void): void {
    this.uses.push(use);
  }

  /** New connections get what the files hold now. If that cannot be served, an error is logged and the old one stays. */
  replace(): void {
    const { files, log } = this.options;
    try {
      this.served = readCertificate(files);
    } catch (error) {
      if (!(error instanceof CertificateError)) throw error;
      log.error({ reason: error.message }, "certificate not replaced, the old one stays");
      return;
    }
    for (const use of this.uses) use(this.served.context);
    log.info({ expires_at: new Date(this.served.expiresAt).toISOString() }, "certificate replaced");
    this.watch();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  private watch(): void {
    const { log, now } = this.options;
    const warning = validityWarning(this.served, now());
    if (warning !== undefined) log.warn(warning);
    this.tellRemaining();
  }

  private tellRemaining(): void {
    const { now, onRemaining } = this.options;
    onRemaining((this.served.expiresAt - now()) / 1000);
  }
}
