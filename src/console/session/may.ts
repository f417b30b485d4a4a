// What a principal may do, by what the operations need. The service decides; this is what the console offers.
import { isRole, meets } from "../../access/roles.js";
import { NEEDS, type OperationId } from "./needs.js";

/** As the service describes a principal. */
interface Rights {
  readonly roles: readonly string[];
  /** Absent: all of them. */
  readonly workflows?: readonly string[];
}

/** They would reach the runs of other workflows. */
const FOR_ALL_WORKFLOWS: readonly OperationId[] = [
  "publishEvent",
  "registerActions",
  "createRule",
  "publishRule",
  "unpublishRule",
];

/** Without a principal, access is off. */
export function mayDo(principal: Rights | undefined, operation: OperationId): boolean {
  if (!principal) return true;
  const roles = new Set(principal.roles.filter(isRole));
  return meets(roles, NEEDS[operation]) && !(isNarrowed(principal) && FOR_ALL_WORKFLOWS.includes(operation));
}

/** The events that fire a record trigger may be of any workflow's records. It can be deleted, and fired by hand. */
export const mayMakeTrigger = (principal: Rights | undefined, type: string): boolean =>
  type !== "record_transition" || principal === undefined || !isNarrowed(principal);

/** To some workflows. */
export const isNarrowed = ({ workflows }: Rights): boolean => workflows !== undefined && !workflows.includes("*");
