// Who uses the console, and what they may do: every page asks here before it offers something. Nothing is read or sent.
import { createContext, useCallback, useContext } from "react";
import { mayDo, mayMakeTrigger } from "../session/may.js";
import type { OperationId } from "../session/needs.js";
import type { Principal } from "./resources.js";

export type { OperationId } from "../session/needs.js";

/** Given by the gate around the pages. */
export const PrincipalContext = createContext<Principal | undefined>(undefined);

/** Undefined: access is off. */
export const usePrincipal = (): Principal | undefined => useContext(PrincipalContext);

/** With access off, anyone may do everything. */
export function useMay(): (operation: OperationId) => boolean {
  const principal = usePrincipal();
  return useCallback((operation) => mayDo(principal, operation), [principal]);
}

/** Whether triggers of this type are offered, to be made and to be changed. The roles are asked for beside it. */
export const useMayMakeTrigger = (type: string): boolean => mayMakeTrigger(usePrincipal(), type);
