// Whose runs the sender of a command may command. What is outside does not exist for it. Credentials, and what else they allow, are not here.
import type { RunIdentity } from "./identity.js";

export interface CommandReach {
  /** Of the run: one of these, which a run of no tenant never has; or `*`, any and none. */
  readonly tenants: readonly string[] | "*";
  /** Of the run. Absent: any. */
  readonly workflows?: { match(workflowId: string): boolean };
}

/** Of what the service itself sends: its timers, its workers' answers, the commands from run to run. */
export interface Everything {
  readonly tenants: "*";
  readonly workflows?: undefined;
}
export const EVERYTHING: Everything = { tenants: "*" };

export function isWithin(
  { tenants, workflows }: CommandReach,
  { tenantId, workflowId }: Pick<RunIdentity, "tenantId" | "workflowId">,
): boolean {
  const isOfTenant = tenants === "*" || (tenantId !== undefined && tenants.includes(tenantId));
  return isOfTenant && (workflows?.match(workflowId) ?? true);
}
