// How a worker verifies the service over TLS. The service does not verify the worker by it: that is what the token is for.

/** The name that is called has to be one of the certificate's, whatever authority it comes from. */
export interface TlsOptions {
  /** The certificates of the authorities, as PEM, in place of those that Node trusts. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
}

/** As one PEM. Null: those that Node trusts, which `NODE_EXTRA_CA_CERTS` adds to. */
export function authorities({ ca }: TlsOptions): Buffer | null {
  if (ca === undefined) return null;
  const parts = typeof ca === "string" || Buffer.isBuffer(ca) ? [ca] : ca;
  return Buffer.concat(parts.flatMap((part) => [Buffer.from(part), Buffer.from("\n")]));
}
