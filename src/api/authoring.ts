// The finer rights of authors: what a definition may hold that someone posts or publishes. They are looked at after the document and after the object, and
// with access off there is nothing to look at: anyone has all rights.
import type { NamedAt, NeededRights } from "../../machines/index.js";
import { isAnyone, narrowingOf, type Patterns, type Principal, secretsOf, tenantsOf } from "../access/index.js";
import { type ErrorDetail, forbidden, SagaError } from "../errors.js";
import { isIn } from "../store/owners.js";
import type { ApiDeps } from "./deps.js";

/** A definition that is posted or published. */
export interface Authored {
  /** Its id. */
  readonly key: string;
  /** Whose it is, or will be. Null: the platform's. */
  readonly owner: string | null;
  /** Absent: it names nothing that needs a right. */
  readonly needs?: NeededRights;
  /** Runs can be of it afterwards. */
  readonly publishes: boolean;
}

/** Throws 403 with every place. */
export function refuseBeyondRights(
  principal: Principal,
  { key, owner, needs, publishes }: Authored,
  secrets: ApiDeps["secrets"],
): void {
  if (isAnyone(principal)) return;
  const narrowing = narrowingOf(principal);
  if (narrowing?.match(key) === false) throw forbidden("the credential is for other workflows");
  const granted = secretsOf(principal);
  const mayNever = ({ name }: NamedAt) =>
    publishes && owner !== null && name !== undefined && secrets?.isOf(name, owner) === false;
  refuse("the credential may not use the secrets that the definition names", [
    ...outside(needs?.secrets, granted, "the secret"),
    ...(needs?.secrets ?? [])
      .filter(mayNever)
      .map((named) => ({ path: named.path, message: `${quoted(named)} is no secret of the definition's tenant` })),
  ]);
  if (!narrowing) return;
  refuse("a credential for some workflows only may not have its definitions meet others", [
    ...outside(needs?.workflows, narrowing, "the workflow"),
    ...(needs?.meetings ?? []).map(({ path, type }) => ({ path, message: `a step of type ${type}` })),
  ]);
}

/** The platform's names are its own to change, and not of one for some tenants. Throws 403. */
export function refuseForeign(principal: Principal, owner: string | null): void {
  if (!isIn(owner, tenantsOf(principal)))
    throw forbidden("it is the platform's: the role platform, for all tenants, may change it");
}

/** The names that are not among these. One that is computed may be any. */
function outside(named: readonly NamedAt[] = [], among: Patterns, what: string): readonly ErrorDetail[] {
  const isOutside = ({ name }: NamedAt) => (name === undefined ? !among.matchesAll : !among.match(name));
  return named.filter(isOutside).map((one) => ({
    path: one.path,
    message: one.name === undefined ? `${what} is computed, so it may be any` : `${what} ${quoted(one)}`,
  }));
}

const quoted = ({ name = "" }: NamedAt) => JSON.stringify(name.slice(0, 128));

const MAX_DETAILS = 100;

function refuse(sentence: string, details: readonly ErrorDetail[]): void {
  const [first] = details;
  if (first)
    throw new SagaError(
      403,
      "forbidden",
      `${sentence}: ${first.path}: ${first.message}`,
      details.slice(0, MAX_DETAILS),
    );
}
