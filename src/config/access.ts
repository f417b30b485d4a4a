// Who may reach the service, as the settings say it: this build has no access control, so it listens on loopback only unless the operator
// insists. Which names and sites a request may come by is decided in api/http/browsers.ts.
import { BlockList, isIP } from "node:net";
import type { Environment } from "./environment.js";

/** `off`: there is no access control. This build has no other mode. */
export type AccessMode = "off";

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8);
LOOPBACK.addAddress("::1", "ipv6");

/** Whether a host, an address or a name as text, is this machine and nothing else; nothing is resolved. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "");
  const version = isIP(name);
  return version === 0 ? name === "localhost" : LOOPBACK.check(name, version === 4 ? "ipv4" : "ipv6");
}

const GONE = "is no setting any more: remove it. This build has no access control; a release that has it";
/** Settings of earlier releases, and what is said where one is set. */
export const RETIRED = {
  SAGA_AUTH_API_KEYS: `${GONE} makes API keys with saga key create and POST /api/v1/api_keys`,
  SAGA_AUTH_JWT_SECRET: `${GONE} reads the keys of tokens from SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE`,
  SAGA_AUTH_JWT_PUBLIC_KEY: `${GONE} reads the keys of tokens from SAGA_AUTH_JWKS_URL or SAGA_AUTH_JWKS_FILE`,
};

/** A service that only seems protected is worse than one that does not start. */
export function readAccess(environment: Environment, host: string): AccessMode {
  const mode = environment.text("SAGA_AUTH") ?? "off";
  if (mode !== "off") environment.problem("SAGA_AUTH", "must be off: this build has no access control");
  for (const [name, sentence] of Object.entries(RETIRED)) environment.retired(name, sentence);
  const isInsecure = environment.flag("SAGA_INSECURE") ?? false;
  if (!isInsecure && !isLoopback(host))
    environment.problem(
      "HOST",
      "is beyond loopback, and this build has no access control (SAGA_AUTH can only be off): listen on 127.0.0.1, or set SAGA_INSECURE=1 if anyone who can reach the service may do everything",
    );
  return "off";
}

/** What the log of the start says about the missing access control: one warning. */
export function openness({ host, allowedHosts }: { host: string; allowedHosts: readonly string[] }): string {
  if (isLoopback(host)) return "SAGA_AUTH is off: anyone who can reach this service can do everything";
  const pages =
    allowedHosts.length > 0 ? "" : ", and so can a web page in their browsers until SAGA_ALLOWED_HOSTS is set";
  return `SAGA_AUTH is off and SAGA_INSECURE is on: anyone who can reach this service at ${host} can do everything${pages}`;
}
