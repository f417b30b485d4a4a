// How every session of this service with Postgres begins: where the server is, and the settings that our statements and the reading of
// their results rely on, whatever the database, its role or its server sets. This is the only place that calls the driver.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext } from "node:tls";
import postgres, { type Sql } from "postgres";
import { storeSocket } from "../../ambient.js";
import { type DatabaseAddress, type DatabaseTls, parseDatabaseUrl } from "../../config/index.js";
import { backoff } from "../../sdk/backoff.js";
import { ARRAY_TYPES } from "./arrays.js";

const CONNECT_TIMEOUT_S = 10;

/**
 * Seconds before a lost session is opened again. The driver's own pauses reach 20 s after a few refusals, counted over the whole pool:
 * callers would wait longer than their replays may take, while the server is already back.
 */
const reconnectAfter = (tries: number) => backoff(tries, { base: 0.02, cap: 1 });

/**
 * Each of them changes what is read or written: how times, intervals, floating-point numbers and bytes look as text, how literals and
 * comparisons with null are understood, what a transaction sees, whether an error ends the session, and whether a commit is on disk when it is
 * acknowledged (law 5). Whether it may write is left to the database: operators make one read-only, and a failover does. The driver leaves out
 * parameters that are false or zero, so all are text. The encoding is always UTF-8: the driver asks for it.
 */
const RELIED_ON: Readonly<Record<string, string>> = {
  DateStyle: "ISO, MDY",
  IntervalStyle: "postgres",
  TimeZone: "UTC",
  extra_float_digits: "1",
  bytea_output: "hex",
  standard_conforming_strings: "on",
  array_nulls: "on",
  transform_null_equals: "off",
  default_transaction_isolation: "read committed",
  synchronous_commit: "on",
  exit_on_error: "off",
};

/** JSON parameters that are strings are JSON text: our own statements and the columns of schema.ts hand over that. */
const JSON_TYPE = {
  to: 114,
  from: [114, 3802],
  parse: JSON.parse,
  serialize: (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value)),
};

/**
 * The driver asks the catalogue for the types of arrays as a session begins, and waits for no answer: the end of the session at that moment
 * would be an unhandled rejection and end the process, and its pool would not know how to send arrays. So every session brings its own.
 */
const OWN_TYPES = { fetch_types: false, types: { json: JSON_TYPE, ...ARRAY_TYPES } };

/** `parse`: where encryption is on, it opens what is sealed. */
const typesWith = (parse: SessionOptions["parseJson"]) =>
  parse ? { ...OWN_TYPES, types: { ...OWN_TYPES.types, json: { ...JSON_TYPE, parse } } } : OWN_TYPES;

export interface SessionOptions extends Omit<postgres.Options<typeof OWN_TYPES.types>, "connection" | "types"> {
  readonly applicationName: string;
  /** Settings of the session besides those that every session relies on. */
  readonly settings?: Readonly<Record<string, string>>;
  /** How values of type json are read. Absent: by JSON.parse. */
  readonly parseJson?: (text: string) => unknown;
  /** The types of the driver do not know it. */
  readonly onnotify?: (channel: string, payload: string) => void;
}

/** A pool of sessions that are opened when they are needed. Throws DatabaseUrlError, or UnusableDatabase if a certificate cannot be read. */
export function openSessions(url: string, { applicationName, settings, parseJson, ...options }: SessionOptions): Sql {
  const { address, startup } = addressOf(parseDatabaseUrl(url), settings?.default_transaction_read_only === "on");
  return postgres({
    connect_timeout: CONNECT_TIMEOUT_S,
    backoff: reconnectAfter,
    ...options,
    ...address,
    ...storeSocket(),
    ...typesWith(parseJson),
    connection: { ...startup, application_name: applicationName, ...RELIED_ON, ...settings },
  } as postgres.Options<typeof OWN_TYPES.types>) as unknown as Sql;
}

/** The database can be reached, or could be, and its settings or the URL must change before the service can use it. */
export class UnusableDatabase extends Error {
  override readonly name = "UnusableDatabase";
}

/**
 * The address in the words of the driver. `read-write` looks at what a session may do, and one that reads alone would refuse every host: it
 * asks for the primary.
 */
function addressOf(address: DatabaseAddress, readsAlone: boolean) {
  const { hosts, ports, socket, database, user, password, tls, connectTimeout, targetSessionAttrs, options } = address;
  return {
    address: {
      ...(hosts && { host: [...hosts], port: [...(ports ?? [])] }),
      ...(socket !== undefined && { path: socket }),
      ...(database !== undefined && { database }),
      ...(user !== undefined && { user }),
      ...(password !== undefined && { pass: password }),
      // As in libpq, a socket has no TLS: it leads to this machine.
      ...(tls && socket === undefined && { ssl: tlsOf(tls) }),
      ...(connectTimeout !== undefined && { connect_timeout: connectTimeout }),
      ...(targetSessionAttrs && { target_session_attrs: readsAlone ? "primary" : targetSessionAttrs }),
    },
    startup: options === undefined ? {} : { options },
  };
}

/**
 * TLS follows libpq: without a root certificate `require` verifies nothing, with one it is `verify-ca`.
 * Unlike libpq, `allow` takes TLS where there is some, as `prefer` does, and both insist on TLS beside a certificate.
 */
function tlsOf({ mode, rootCert, cert, key }: DatabaseTls) {
  if (mode === "disable") return false;
  const files = {
    ...(rootCert !== undefined && { ca: fileOf("sslrootcert", rootCert) }),
    ...(cert !== undefined && key !== undefined && { cert: fileOf("sslcert", cert), key: fileOf("sslkey", key) }),
  };
  refuseUnfit(files);
  const verifies = mode === "verify-full" || mode === "verify-ca" || (mode === "require" && rootCert !== undefined);
  if (!verifies && Object.keys(files).length === 0) return mode === "allow" ? "prefer" : mode;
  if (!verifies) return { ...files, rejectUnauthorized: false };
  // Said, because a variable of the environment turns Node's own default off.
  const verified = { ...files, rejectUnauthorized: true };
  return mode === "verify-full" ? verified : { ...verified, checkServerIdentity: () => undefined };
}

/** The driver would meet such files where nothing catches the error, and Node takes a root certificate that is none for no root at all. */
function refuseUnfit(files: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer }): void {
  const check = (parameters: string, used: () => unknown) => {
    try {
      used();
    } catch (error) {
      const { message } = error as Error;
      throw new UnusableDatabase(`DATABASE_URL has ${parameters} that cannot be used: ${message}`, { cause: error });
    }
  };
  const { ca, ...own } = files;
  if (ca !== undefined) check("an sslrootcert", () => new X509Certificate(ca));
  check("an sslcert and an sslkey", () => createSecureContext(own));
}

function fileOf(parameter: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const { message } = error as Error;
    throw new UnusableDatabase(
      `The ${parameter} of DATABASE_URL, or PG${parameter.toUpperCase()}, cannot be read: ${message}`,
      { cause: error },
    );
  }
}
