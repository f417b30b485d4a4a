// The access control of a node, composed once for all of its doors: what verifies credentials, the sessions of browsers, the limits.
// What the doors do with them is in api/http/access.ts and dispatch/grpc.

import { Bearers } from "../access/bearers.js";
import { CredentialGuard, RateLimit, type Verifier } from "../access/index.js";
import { Sessions } from "../access/sessions.js";
import type { ApiDeps } from "../api/index.js";
import { serviceKey } from "../store/engine/service-keys.js";
import type { Foundations } from "./foundations.js";

/** What the doors get. */
export interface Doors extends Pick<ApiDeps, "sessions" | "login" | "rate" | "apiKeys"> {
  /** Behind the limit of refused credentials: give it the address of the client. */
  readonly verifier: Verifier;
}

export interface NodeAccess {
  readonly doors: Doors;
  start(): Promise<void>;
  /** Complete on return, safe twice and before `start`. */
  stop(): Promise<void>;
}

type Parts = Pick<Foundations, "config" | "upkeep" | "log" | "clock" | "patiently" | "verifier">;

/** Undefined: there is no access control. `callback`: the address that the issuer of logins sends people back to. */
export async function openAccess(parts: Parts, callback: () => string): Promise<NodeAccess | undefined> {
  const { config, upkeep: sql, log, clock } = parts;
  const { auth, credentials, tokens, rateLimit } = config;
  if (auth === "off") return undefined;
  if (parts.verifier) return { doors: { verifier: parts.verifier }, start: async () => {}, stop: async () => {} };
  const known = { sql, log, now: () => clock.now() };
  const bearers = await Bearers.open({ apiKeys: credentials.includes("api_key"), ...(tokens && { tokens }), ...known });
  const sessions = new Sessions(known);
  const guard = new CredentialGuard();
  const login = await openLogin(parts, callback);
  const doors: Doors = {
    verifier: guard.before(bearers),
    sessions: {
      ...guard.before(sessions),
      open: (credential) => sessions.open(credential),
      close: (id) => sessions.close(id),
    },
    ...(login && { login: guard.beforeLogin(login) }),
    ...(rateLimit && { rate: new RateLimit(rateLimit) }),
    apiKeys: bearers,
  };
  return {
    doors,
    start: async () => {
      await bearers.start();
      sessions.start();
    },
    stop: async () => {
      await sessions.stop();
      await bearers.stop();
    },
  };
}

async function openLogin({ config, upkeep, log, patiently }: Parts, redirectUri: () => string) {
  if (!config.oidc) return undefined;
  const { OidcLogin } = await import("../access/oidc.js");
  const secret = await patiently(() => serviceKey(upkeep, "login"));
  return new OidcLogin({ ...config.oidc, redirectUri, secret, log });
}
