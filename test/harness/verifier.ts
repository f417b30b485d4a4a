// A verifier for tests of what is behind the doors: each token is the name of a principal. How credentials are verified is tested with real ones.
import {
  type DigestVerifier,
  isRole,
  NOTHING,
  Patterns,
  type Principal,
  type Role,
  Unauthenticated,
  type Verifier,
} from "../../src/access/index.js";

export interface PrincipalFacts {
  readonly roles: readonly Role[];
  readonly tenantId?: string;
  readonly tenants?: readonly string[];
  readonly workflows?: readonly string[];
  readonly services?: readonly string[];
  readonly secrets?: readonly string[];
}

export function principalOf(sub: string, facts: PrincipalFacts): Principal {
  const { roles, tenantId, tenants, workflows, services, secrets } = facts;
  return {
    kind: "user",
    sub,
    actor: `user:${sub}`,
    roles: new Set(roles.filter(isRole)),
    ...(tenantId !== undefined && { tenantId }),
    ...(tenants && { tenants }),
    ...(workflows && { workflows: new Patterns(workflows) }),
    services: services ? new Patterns(services) : NOTHING,
    secrets: secrets ? new Patterns(secrets) : NOTHING,
  };
}

/** The bearer is the name of one of these. */
export function verifierOf(known: Readonly<Record<string, PrincipalFacts>>): Verifier & DigestVerifier {
  const principals = new Map(Object.entries(known).map(([name, facts]) => [name, principalOf(name, facts)]));
  return {
    verify: (bearer) => {
      const principal = principals.get(bearer);
      if (!principal) throw new Unauthenticated("no principal of this test");
      return principal;
    },
  };
}
