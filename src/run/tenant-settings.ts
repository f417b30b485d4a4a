// What tenants are granted, from two files read once at start: licence groups, and the variables their runs start with.
// Not credentials: who a caller is, the access room says.
import { readFileSync } from "node:fs";
import { isObject, type JsonObject, measure } from "../../machines/index.js";
import { ConfigError } from "../config/index.js";

/** Stands for every tenant, and for none. */
const EVERYONE = "*";

export interface Grants {
  /** Whether the tenant has the licence group. Without a file everything is allowed. */
  licensed(tenantId: string | undefined, group: string): boolean;
  /** What a run of the tenant starts with; the caller's variables win over it. */
  startupVariables(tenantId: string | undefined): JsonObject;
}

/**
 * `licensesFile`: {"<tenant id>" or "*": ["group", …]}. `variablesFile`: {"<tenant id>" or "*": {name: value}}.
 * Throws ConfigError naming the file and what is wrong with it.
 */
export function readGrants(files: { readonly licensesFile?: string; readonly startupVariablesFile?: string }): Grants {
  const licences =
    files.licensesFile === undefined
      ? undefined
      : readTenants(files.licensesFile, isGroups, "a list of licence groups");
  const variables =
    files.startupVariablesFile === undefined
      ? {}
      : readTenants(files.startupVariablesFile, isObject, "an object of variables");
  const ofTenant = <T>(all: Readonly<Record<string, T>>, tenantId: string | undefined): T | undefined =>
    tenantId !== undefined && Object.hasOwn(all, tenantId) ? all[tenantId] : undefined;
  return {
    licensed: (tenantId, group) =>
      !licences ||
      Boolean(ofTenant(licences, tenantId)?.includes(group)) ||
      Boolean(licences[EVERYONE]?.includes(group)),
    startupVariables: (tenantId) => ({ ...variables[EVERYONE], ...ofTenant(variables, tenantId) }),
  };
}

function readTenants<T>(file: string, fits: (value: unknown) => value is T, what: string): Readonly<Record<string, T>> {
  const document = parsed(file);
  if (!isObject(document) || typeof measure(document) !== "number")
    throw new ConfigError([`${file}: must be an object by tenant`]);
  const problems = Object.keys(document).filter((tenant) => !fits(document[tenant]));
  if (problems.length > 0) throw new ConfigError(problems.map((tenant) => `${file}: ${tenant}: must be ${what}`));
  return document as unknown as Readonly<Record<string, T>>;
}

function parsed(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new ConfigError([`${file}: ${error instanceof Error ? error.message : "cannot be read"}`]);
  }
}

function isGroups(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((group) => typeof group === "string");
}
