// Which action a step or an undo calls: that of a contract, in the newest version or in the contract's own, or one whose name is computed.
import type { Template } from "./expression.js";
import type { AnyAction } from "./scope.js";

/** The text of an action's name, "service.name" or "service.name@version", computed from the scope S. */
export type NamedLater<S> = (scope: S) => Template<string>;

/**
 * The same action, in the version that its contract says: "service.name@2". A step or an undo with the contract itself calls the newest version that
 * is not deprecated.
 */
export const pinned = <A extends AnyAction>(action: A): A => Object.freeze({ ...action, isPinned: true });

/** The name in the document. Throws TypeError, with the path, for what is no contract. */
export function nameOfAction(action: unknown, path: string): string {
  const { service, name, version, isPinned = false } = (action ?? {}) as Partial<AnyAction> & { isPinned?: boolean };
  if (typeof service !== "string" || typeof name !== "string")
    throw new TypeError(`${path} takes an action of defineAction`);
  return `${service}.${name}${isPinned ? `@${version}` : ""}`;
}
