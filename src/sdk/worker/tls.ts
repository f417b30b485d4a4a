// How a worker verifies the service over TLS, and shows a certificate of its own where the service knows it by one.

/** The name that is called has to be one of the certificate's, whatever authority it comes from. */
export interface TlsOptions {
  /** The certificates of the authorities, as PEM, in place of those that Node trusts. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  /**
   * The worker's own certificate and its key, as PEM, which it shows on its streams in place of the token. Its token, if it has one, is for the
   * API, which takes no certificates.
   */
  readonly client?: { readonly cert: string | Buffer; readonly key: string | Buffer };
}

/** As one PEM. Null: those that Node trusts, which `NODE_EXTRA_CA_CERTS` adds to. */
export function authorities({ ca }: TlsOptions): Buffer | null {
  if (ca === undefined) return null;
  const parts = typeof ca === "string" || Buffer.isBuffer(ca) ? [ca] : ca;
  return Buffer.concat(parts.flatMap((part) => [Buffer.from(part), Buffer.from("\n")]));
}
