export { ClientAddresses } from "./addresses.js";
export { type CallbackClaims, CallbackTokens, type ReportedStep } from "./callback-token.js";
export { type CertifiedClient, ClientCertificates } from "./client-certificates.js";
export { expiryIn, grantedBy, type KeyGrant, MOST_NAME, MOST_PATTERNS, PATTERN, secretsOf } from "./grants.js";
export { type MadeKey, makeApiKey } from "./key-maker.js";
export { KEY_ID_PATTERN, parseKey } from "./key-text.js";
export type { LoggedIn, Login } from "./oidc.js";
export {
  isAnyone,
  isThingWithin,
  isWorkflowWithin,
  narrowingOf,
  ownerFor,
  refuseNarrowed,
} from "./ownership.js";
export { ALL, NOTHING, Patterns } from "./patterns.js";
export {
  credentialId,
  EVERYTHING,
  isPlatform,
  type Principal,
  type Reach,
  reachOf,
  sharerOf,
  type Tenants,
  tenantsOf,
} from "./principal.js";
export { type Rate, RateLimit } from "./rate-limit.js";
export { type PlainReach, plainReach, reachOfPlain, readPlainReach } from "./reach.js";
export { isRole, meets, type Need, needsNoTenant, ROLES, type Role, sufficientRole } from "./roles.js";
export { type Refusal, type SecretUse, SecurityLog } from "./security-log.js";
export type { BrowserSessions } from "./sessions.js";
export { CredentialGuard } from "./throttle.js";
export { untilEnd, whileGood } from "./until-end.js";
export { ANYONE, type DigestVerifier, PLATFORM, Unauthenticated, type Verifier } from "./verifier.js";
