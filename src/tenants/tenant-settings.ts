// Settings of tenants, from files that are read once at the start: licence groups, variables that their runs start with, and shares of the workers.
// Credentials are not here: authentication is the API's matter.
import { readFileSync } from "node:fs";
import { FORBIDDEN_NAMES, isObject, type JsonObject, measure } from "../../machines/index.js";
import { ConfigError } from "../config/index.js";
import { parseJsonFile } from "../json-text.js";

/** Applies to every tenant, and to runs without one. */
const EVERYONE = "*";

export interface TenantSettings {
  /** Whether the tenant has the licence group. Without a file everything is allowed. */
  licensed(tenantId: string | undefined, group: string): boolean;
  /** Variables that the tenant's runs start with; the caller's override them. */
  startupVariables(tenantId: string | undefined): JsonObject;
  /** How many turns in a row the tenant's calls have where those of several tenants wait for a worker. */
  dispatchShare(tenantId: string | undefined): number;
}

/**
 * `licensesFile`: {"<tenant id>" or "*": ["group", …]}. `startupVariablesFile`: {"<tenant id>" or "*": {name: value}}. `tenantSharesFile`: {"<tenant id>" or "*": share}.
 * Throws ConfigError, which names the file and its problems.
 */
export function readTenantSettings(files: {
  readonly licensesFile?: string;
  readonly startupVariablesFile?: string;
  readonly tenantSharesFile?: string;
}): TenantSettings {
  const licences = readByTenant(files.licensesFile, isGroups, "a list of licence groups");
  const variables = readByTenant(files.startupVariablesFile, areVariables, "an object of variables") ?? {};
  const shares = readByTenant(files.tenantSharesFile, isShare, `an integer from 1 to ${MOST_SHARE}`) ?? {};
  return {
    licensed: (tenantId, group) =>
      !licences ||
      Boolean(ofTenant(licences, tenantId)?.includes(group)) ||
      Boolean(licences[EVERYONE]?.includes(group)),
    startupVariables: (tenantId) => ({ ...variables[EVERYONE], ...ofTenant(variables, tenantId) }),
    dispatchShare: (tenantId) => ofTenant(shares, tenantId) ?? shares[EVERYONE] ?? 1,
  };
}

type ByTenant<T> = Readonly<Record<string, T>>;

function ofTenant<T>(all: ByTenant<T>, tenantId: string | undefined): T | undefined {
  return tenantId !== undefined && Object.hasOwn(all, tenantId) ? all[tenantId] : undefined;
}

/** Undefined: no file is configured. */
function readByTenant<T>(
  file: string | undefined,
  fits: (value: unknown) => value is T,
  expected: string,
): ByTenant<T> | undefined {
  if (file === undefined) return undefined;
  const document = parse(file);
  if (!isObject(document) || typeof measure(document) !== "number")
    throw new ConfigError([`${file}: must be a JSON object with tenant ids as its keys`]);
  const problems = Object.keys(document).filter((tenant) => !fits(document[tenant]));
  if (problems.length > 0) throw new ConfigError(problems.map((tenant) => `${file}: ${tenant}: must be ${expected}`));
  return document as unknown as ByTenant<T>;
}

function parse(file: string): unknown {
  try {
    return parseJsonFile(readFileSync(file));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new ConfigError([`${file}: ${code === undefined ? message : `cannot be read (${code})`}`]);
  }
}

/** Whether all members have names that variables may have. */
export function areVariables(value: unknown): value is JsonObject {
  return isObject(value) && Object.keys(value).every((name) => name !== "" && !FORBIDDEN_NAMES.has(name));
}

function isGroups(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((group) => typeof group === "string");
}

const MOST_SHARE = 1_000;

function isShare(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MOST_SHARE;
}
