// The one verifier of bearer credentials: every door hands it what a caller presented, and gets a principal or a refusal. What kinds of
// credentials there are follows from SAGA_AUTH.
import { hash } from "node:crypto";
import { ALL } from "./patterns.js";
import type { Principal } from "./principal.js";
import { ROLES } from "./roles.js";

/** By this a credential is known where it is not kept. */
export const digestOf = (credential: string): string => hash("sha256", credential, "base64url");

/** Of one kind of credentials, behind the limit of refused ones. `digest`: that of the credential, where it is known. Throws as Verifier does. */
export interface DigestVerifier {
  verify(credential: string, digest?: string): Principal | Promise<Principal>;
}

export interface Verifier {
  /**
   * At once where the credential was verified before. `address`: gives that of the client, for the limit of refused credentials (throttle.ts). Throws
   * Unauthenticated, SagaError 429 where too many credentials from there were refused, or 503 where it cannot be known now because the issuer of the
   * token is away.
   */
  verify(bearer: string, address?: () => string): Principal | Promise<Principal>;
}

/** The credential is not accepted. `reason` is for the security log, and is never sent to the caller. */
export class Unauthenticated extends Error {
  override readonly name = "Unauthenticated";

  constructor(readonly reason: string) {
    super("the credential is not accepted");
  }
}

/** With access off everyone may do everything. */
export const ANYONE: Principal = {
  kind: "anyone",
  sub: "",
  actor: "api",
  roles: new Set(ROLES),
  services: ALL,
  secrets: ALL,
};

/** The service itself, where it stores what the operator has put beside it: with access on, it is the platform. */
export const PLATFORM: Principal = { ...ANYONE, kind: "user" };
