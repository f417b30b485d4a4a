// Whether a tenant may use a workflow: a workflow needs the licence groups of the registered actions that its steps name.
import { actionsNamed, type Program, parseActionName } from "../../machines/index.js";
import type { Catalog } from "../catalog/catalog.js";
import { tenantsOfRun } from "../store/owners.js";

export interface LicenceDeps {
  readonly catalog: Pick<Catalog, "action">;
  readonly licences: { licensed(tenantId: string | undefined, group: string): boolean };
}

/** A sentence about the first licence that is missing. An action that is not registered yet, or computed, is checked when its step is entered. */
export function missingLicence(
  program: Program,
  tenantId: string | undefined,
  { catalog, licences }: LicenceDeps,
): string | undefined {
  const tenants = tenantsOfRun(tenantId);
  for (const name of actionsNamed(program)) {
    const parsed = parseActionName(name);
    const group = parsed && catalog.action(parsed.service, parsed.name, parsed.version, tenants)?.licenseGroup;
    if (group !== undefined && !licences.licensed(tenantId, group))
      return `the licence group ${group} of the action ${name} is not granted`;
  }
  return undefined;
}
