// The URL of a database, read as libpq reads it: several hosts, IPv6 addresses, socket folders, percent-encoded parts, and a `#` that
// means nothing. What the driver cannot do is refused here, because a part that is dropped silently opens another database.
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS

export interface DatabaseAddress {
  /** The hosts, as many as `ports`. Absent: this machine. */
  readonly hosts?: readonly string[];
  readonly ports?: readonly number[];
  /** The file of a Unix socket, instead of hosts. */
  readonly socket?: string;
  readonly database?: string;
  readonly user?: string;
  readonly password?: string;
  readonly tls?: DatabaseTls;
  /** Seconds. */
  readonly connectTimeout?: number;
  readonly targetSessionAttrs?: TargetSessionAttrs;
  /** Command-line options of the server: `-c name=value`. */
  readonly options?: string;
}

export interface DatabaseTls {
  readonly mode: TlsMode;
  /** PEM files. */
  readonly rootCert?: string;
  readonly cert?: string;
  readonly key?: string;
}

const TLS_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const;
export type TlsMode = (typeof TLS_MODES)[number];

/** This service writes: a standby is of no use to it. */
const TARGETS = ["any", "read-write", "primary"] as const;
export type TargetSessionAttrs = Exclude<(typeof TARGETS)[number], "any">;

/**
 * Its message says what is wrong with the URL, and is the rest of a sentence that begins with `DATABASE_URL`. It has none of the URL's values,
 * and no name that may be a part of the password.
 */
export class DatabaseUrlError extends Error {
  override readonly name = "DatabaseUrlError";
}

/** Parameters that ask for nothing but what happens anyway, and the values with which they do. */
const WITHOUT_EFFECT: ReadonlyMap<string, RegExp> = new Map([
  ["client_encoding", /^(auto|utf-?8)$/i],
  ["keepalives", /^1$/],
  ["gssencmode", /^(disable|prefer)$/],
  ["channel_binding", /^(disable|prefer)$/],
  ["sslcompression", /^0$/],
  ["sslsni", /^1$/],
  ["load_balance_hosts", /^disable$/],
]);

const TAKEN = [
  ...["host", "port", "dbname", "user", "password", "connect_timeout", "target_session_attrs", "options"],
  ...["ssl", "sslmode", "sslrootcert", "sslcert", "sslkey"],
];

const KNOWN: ReadonlySet<string> = new Set([...TAKEN, ...WITHOUT_EFFECT.keys(), "application_name"]);

const UNKNOWN = "a parameter that is unknown (a ?, & or / in the password is written as %3F, %26 or %2F)";

/** Throws DatabaseUrlError. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  const rest = bodyOf(text);
  const { user, password, hostspec, database, mayBePassword, query } = split(rest);
  const parameters = readParameters(query, rest);
  const places = placesOf(parameters, hostspec);
  if (mayBePassword)
    refuse("has an @ in the name of the database: it is written as %40, and a / in the password as %2F");
  const named = parameters.get("dbname") ?? database;
  const name = parameters.get("user") ?? user;
  const secret = parameters.get("password") ?? password;
  const options = parameters.get("options");
  if (options !== undefined && /synchronous_commit/i.test(options))
    refuse("sets synchronous_commit, but every commit of this service must be durable: remove it");
  return {
    ...places,
    ...(named && { database: named }),
    ...(name && { user: name }),
    ...(secret && { password: secret }),
    ...(options && { options }),
    ...tlsOf(parameters),
    ...waitingOf(parameters, places.hosts),
  };
}

/**
 * What libpq takes from the environment where the URL does not name it, of what a URL may have. The driver itself takes the user, the password
 * and the database.
 */
const VARIABLES: Readonly<Record<string, string>> = {
  host: "PGHOST",
  port: "PGPORT",
  sslmode: "PGSSLMODE",
  sslrootcert: "PGSSLROOTCERT",
  sslcert: "PGSSLCERT",
  sslkey: "PGSSLKEY",
  options: "PGOPTIONS",
  connect_timeout: "PGCONNECT_TIMEOUT",
  target_session_attrs: "PGTARGETSESSIONATTRS",
};

export interface CompletedUrl {
  readonly url: string;
  /** The variables that it has parts of. */
  readonly variables: readonly string[];
}

/** The URL with what it leaves to the environment. Throws DatabaseUrlError. */
export function completedBy(environment: Readonly<Record<string, string | undefined>>, text: string): CompletedUrl {
  const { hostspec, query } = split(bodyOf(text));
  const parameters = readParameters(query, text);
  const written = hostspec.split(",").map(hostAndPort);
  const isNamed = (parameter: string) => {
    if (parameters.has(parameter) || (parameter === "sslmode" && parameters.has("ssl"))) return true;
    if (parameter !== "host" && parameter !== "port") return false;
    // Ports beside several hosts are named, if only by their commas.
    return written.length > 1 || written[0]?.[parameter] !== "";
  };
  const found = Object.entries(VARIABLES).flatMap(([parameter, variable]) => {
    const value = environment[variable];
    return value && !isNamed(parameter) ? [{ variable, part: `${parameter}=${encodeURIComponent(value)}` }] : [];
  });
  const separator = found.length === 0 ? "" : query !== "" ? "&" : text.endsWith("?") ? "" : "?";
  const url = `${text}${separator}${found.map(({ part }) => part).join("&")}`;
  return { url, variables: found.map(({ variable }) => variable) };
}

/** The URL without its password and its parameters, which may hold one. */
export function printableDatabaseUrl(text: string): string {
  const { hosts = [], ports = [], socket, user, password, database } = parseDatabaseUrl(text);
  const credentials = user || password ? `${user ?? ""}${password ? ":[redacted]" : ""}@` : "";
  const places = hosts.map((host, nth) => `${host.includes(":") ? `[${host}]` : host}:${ports[nth]}`);
  return `postgres://${credentials}${socket ?? places.join(",")}/${database ?? ""}`;
}

/**
 * Whether `require` asks for TLS with a server of another machine and for nothing that verifies it. With a root certificate it is `verify-ca`.
 * The weaker modes do not even ask for TLS, so nobody takes them for protection.
 */
export function isUnverified(text: string): boolean {
  const { hosts = [], tls } = parseDatabaseUrl(text);
  return tls?.mode === "require" && tls.rootCert === undefined && !hosts.every(isLoopback);
}

const isLoopback = (host: string) => /^(localhost\.?|127(\.\d{1,3}){3}|::1)$/i.test(host);

function bodyOf(text: string): string {
  return /^postgres(?:ql)?:\/\/(.*)$/s.exec(text)?.[1] ?? refuse("must begin with postgres:// or postgresql://");
}

/** The parts between the scheme and the parameters. As in libpq, the first `@` ends the credentials, unless a `/` comes before it. */
function split(rest: string) {
  const [, user, password, hostspec = "", database, query = ""] =
    /^(?:([^@/:]*)(?::([^@/]*))?@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(rest) ??
    refuse("is not a URL of a database");
  if (hostspec.includes("@"))
    refuse("has more than one @ before the host: write the ones in the user name or the password as %40");
  return {
    user: decoded(user, "the user name"),
    password: decoded(password, "the password"),
    hostspec,
    database: decoded(database, "the name of the database"),
    /** It may be a password that was cut at its first slash. */
    mayBePassword: database?.includes("@"),
    query,
  };
}

function decoded(text: string, what: string): string;
function decoded(text: string | undefined, what: string): string | undefined;
function decoded(text: string | undefined, what: string): string | undefined {
  if (text === undefined) return undefined;
  let value: string;
  try {
    value = decodeURIComponent(text);
  } catch {
    refuse(`has a % in ${what} that begins no encoded byte of UTF-8: write %25 for the character itself`);
  }
  if (value.includes("\0")) refuse(`has %00 in ${what}`);
  return value;
}

function readParameters(query: string, url: string): ReadonlyMap<string, string> {
  const parameters = new Map<string, string>();
  // An @ after the first slash may be the end of a password that has a slash: then no name is safe to print.
  const mayBePassword = url.includes("@", url.indexOf("/") + 1 || url.length);
  const named = (name: string) =>
    KNOWN.has(name) || (!mayBePassword && /^[a-z_]{1,40}$/.test(name)) ? `the parameter ${name}` : UNKNOWN;
  for (const part of query.split("&").filter((each) => each !== "")) {
    const [, key = "", value] = /^([^=]*)(?:=(.*))?$/s.exec(part) ?? [];
    const name = decoded(key, "a parameter");
    if (value === undefined) refuse(`has ${named(name)} without a value`);
    if (parameters.has(name)) refuse(`has ${named(name)} twice`);
    parameters.set(name, decoded(value, named(name)));
  }
  for (const [name, value] of parameters) {
    if (TAKEN.includes(name) || WITHOUT_EFFECT.get(name)?.test(value)) continue;
    if (name === "application_name") refuse("sets application_name, but the service names its sessions itself");
    if (WITHOUT_EFFECT.has(name)) refuse(`has ${named(name)} with a value that this service does not support`);
    refuse(
      `has ${named(name)}, which this service does not support (it takes ${TAKEN.join(", ")}); a setting of the server is written as options=-c%20name%3Dvalue`,
    );
  }
  return parameters;
}

type Places = Pick<DatabaseAddress, "hosts" | "ports" | "socket">;

function placesOf(parameters: ReadonlyMap<string, string>, hostspec: string): Places {
  const written = hostspec === "" ? [] : hostspec.split(",").map(hostAndPort);
  const hosts = parameters.get("host")?.split(",") ?? written.map(({ host }) => host);
  const ports = (parameters.get("port")?.split(",") ?? written.map(({ port }) => port)).map(portOf);
  if (ports.length > 1 && ports.length !== hosts.length)
    refuse(`has ${hosts.length} hosts and ${ports.length} ports: give one port, or one for each host`);
  if (hosts.every((host) => host === "")) {
    const [port] = ports;
    return port === undefined ? {} : { hosts: ["localhost"], ports: [port] };
  }
  if (hosts.some((host) => host === "")) refuse("has an empty name among its hosts");
  const all = hosts.map((_, nth) => (ports.length > 1 ? ports[nth] : ports[0]) ?? STANDARD_PORT);
  if (!hosts.some((host) => /^[/@]/.test(host))) return { hosts, ports: all };
  if (hosts.length > 1) refuse("has several hosts of which one is a socket: this service takes one socket, or hosts");
  if (hosts[0]?.startsWith("@")) refuse("has an abstract socket, which this service does not support");
  return { socket: `${hosts[0]}/.s.PGSQL.${all[0]}` };
}

const STANDARD_PORT = 5432;

function hostAndPort(text: string): { host: string; port: string } {
  const [, address, name = "", port = ""] =
    /^(?:\[([^\]]*)\]|([^:[\]]*))(?::([^:]*))?$/s.exec(text) ??
    refuse("has a host that cannot be read: an IPv6 address stands in brackets, [::1]");
  return { host: decoded(address ?? name, "a host"), port };
}

/** Undefined: none was given. */
function portOf(text: string): number | undefined {
  if (text === "") return undefined;
  const port = Number(text);
  if (!/^\+?\d+$/.test(text) || port < 1 || port > 65_535)
    refuse("has a port that is no number from 1 to 65535: a : or / in the password is written as %3A or %2F");
  return port;
}

function tlsOf(parameters: ReadonlyMap<string, string>): Pick<DatabaseAddress, "tls"> {
  const [rootCert, cert, key] = ["sslrootcert", "sslcert", "sslkey"].map((name) => parameters.get(name));
  if (parameters.has("ssl") && parameters.get("ssl") !== "true")
    refuse("has the parameter ssl, which can only be true");
  const implied = rootCert === "system" ? "verify-full" : parameters.has("ssl") ? "require" : undefined;
  const mode = parameters.get("sslmode") ?? implied;
  const known = TLS_MODES.find((each) => each === mode);
  if (mode !== undefined && known === undefined) refuse(`has an sslmode that is none of ${TLS_MODES.join(", ")}`);
  if (rootCert === "system" && mode !== "verify-full")
    refuse("has the sslrootcert system with an sslmode that does not verify the server's name: it needs verify-full");
  if ((cert === undefined) !== (key === undefined)) refuse("has one of sslcert and sslkey: both are needed");
  if (known === undefined && rootCert === undefined && cert === undefined) return {};
  return {
    tls: {
      mode: known ?? "prefer",
      ...(rootCert !== undefined && rootCert !== "system" && { rootCert }),
      ...(cert !== undefined && key !== undefined && { cert, key }),
    },
  };
}

/** Of several hosts the one that takes writes, unless the URL says otherwise. */
function waitingOf(parameters: ReadonlyMap<string, string>, hosts: readonly string[] = []) {
  const seconds = parameters.get("connect_timeout");
  const target = parameters.get("target_session_attrs") ?? (hosts.length > 1 ? "read-write" : undefined);
  if (seconds !== undefined && !/^\d{1,4}$/.test(seconds)) refuse("has a connect_timeout that is no number of seconds");
  const known = TARGETS.find((each) => each === target);
  if (target !== undefined && known === undefined)
    refuse(
      `has target_session_attrs that are none of ${TARGETS.join(", ")}: the service needs a server that takes writes`,
    );
  return {
    ...(Number(seconds ?? 0) > 0 && { connectTimeout: Number(seconds) }),
    ...(known !== undefined && known !== "any" && { targetSessionAttrs: known }),
  };
}

function refuse(sentence: string): never {
  throw new DatabaseUrlError(sentence);
}
