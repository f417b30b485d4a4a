// What a new key may do: the roles in words, what its maker may grant, and the body of the request. The service decides; nothing is sent here.
import { misfitWords } from "../parts/form-words.js";

/** In the order in which they are offered, each with what it may. */
const ROLE_WORDS = [
  ["viewer", "reads runs, tasks, definitions, workers and figures"],
  ["operator", "is a viewer, and starts runs, acts on them, sends signals and events, submits tasks"],
  ["author", "is an operator, and stores and publishes workflows and rules, creates and changes triggers"],
  ["admin", "is an author, and makes and revokes API keys, erases runs, uses every secret of its tenant"],
  ["worker", "registers actions and does their steps, for its services only"],
  ["scrape", "reads the metrics; it needs no tenant"],
  ["platform", "widens the other roles to all tenants, and sees the cluster, the metrics and all workers"],
] as const;

export type RoleName = (typeof ROLE_WORDS)[number][0];
const OF_PLATFORM: readonly RoleName[] = ["scrape", "platform"];

/** Who makes the key, as far as it counts here. */
interface Maker {
  readonly roles: readonly string[];
  readonly workflows?: readonly string[];
  readonly secrets?: readonly string[];
}

interface Problem {
  readonly path: string;
  readonly message: string;
}

export interface Offer {
  readonly roles: readonly { readonly name: RoleName; readonly words: string }[];
  /** It names whose the key is. */
  readonly tenant: boolean;
  /** The maker's own workflows, which the key stays within. Absent: all. */
  readonly workflows?: readonly string[];
  /** What the maker may give of the secrets. Absent: all. */
  readonly secrets?: readonly string[];
}

/** What `maker` may grant; undefined: access is off, and anyone may grant everything. */
export function offerOf(maker: Maker | undefined): Offer {
  const isPlatform = maker === undefined || maker.roles.includes("platform");
  const workflows = maker?.workflows?.includes("*") ? undefined : maker?.workflows;
  const isOffered = (role: RoleName) =>
    (isPlatform || !OF_PLATFORM.includes(role)) && !(workflows !== undefined && role === "worker");
  const secrets = maker?.secrets ?? [];
  return {
    roles: ROLE_WORDS.filter(([name]) => isOffered(name)).map(([name, words]) => ({ name, words })),
    tenant: isPlatform,
    // An admin for all workflows has every secret of its tenant.
    ...(workflows && { workflows, ...(!secrets.includes("*") && { secrets }) }),
  };
}

/** Of a list in a key: not there, `*`, or what is written. */
export type Extent = "absent" | "all" | "these";

export interface Patterns {
  readonly extent: Extent;
  /** One a line. */
  readonly text: string;
}

export interface Fields {
  readonly name: string;
  readonly roles: readonly RoleName[];
  readonly tenant_id: string;
  readonly tenants: string;
  readonly workflows: Patterns;
  readonly services: Patterns;
  readonly secrets: Patterns;
  /** Days from now; `at`: the moment in `expires_at`; empty: never. */
  readonly expiry: string;
  /** As the browser's field has it, in the browser's zone. */
  readonly expires_at: string;
}

const ABSENT: Patterns = { extent: "absent", text: "" };
export const EMPTY: Fields = {
  ...{ name: "", roles: [], tenant_id: "", tenants: "" },
  ...{ workflows: ABSENT, services: ABSENT, secrets: ABSENT, expiry: "90", expires_at: "" },
};

const linesOf = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

const DAY_MS = 86_400_000;

/** The request for the key that the fields describe. */
export function bodyOf(fields: Fields, now: number): Readonly<Record<string, unknown>> {
  const { name, roles, tenant_id: tenant, tenants, expiry } = fields;
  const isPlatform = roles.includes("platform");
  return {
    ...{ name: name.trim(), roles },
    ...(!isPlatform && tenant.trim() !== "" && { tenant_id: tenant.trim() }),
    ...(isPlatform && linesOf(tenants).length > 0 && { tenants: linesOf(tenants) }),
    ...Object.fromEntries(LISTS.flatMap((list) => listIn(list, fields[list]))),
    ...(expiry !== "" && { expires_at: expiry === "at" ? momentOf(fields.expires_at) : inDays(expiry, now) }),
  };
}

const LISTS = ["workflows", "services", "secrets"] as const;
export type ListName = (typeof LISTS)[number];

function listIn(list: ListName, { extent, text }: Patterns): [ListName, string[]][] {
  if (extent === "absent") return [];
  return [[list, extent === "all" ? ["*"] : linesOf(text)]];
}

const inDays = (days: string, now: number) => new Date(now + Number(days) * DAY_MS).toISOString();

/** What is no moment is sent as it is: the service says so at its member. */
function momentOf(local: string): string {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? local : at.toISOString();
}

/** What the service says about one member of the body, in one line. */
export const problemOf = (details: readonly Problem[], member: string): string | undefined =>
  details
    .filter(({ path }) => memberOf(path) === member)
    .map(({ message }) => misfitWords(message))
    .join("; ") || undefined;

/** `$.workflows[0]` is about `workflows`. */
export const memberOf = (path: string): string => /^\$\.(\w+)/.exec(path)?.[1] ?? "";
