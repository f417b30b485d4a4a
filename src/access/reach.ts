// A reach as it travels: to the node that owns a run, to the process of a trial, into the row of a bulk job. A wire and storage format: its members
// may be added to, never changed.
import { Patterns } from "./patterns.js";
import type { Reach, Tenants } from "./principal.js";

export interface PlainReach {
  readonly tenants: Tenants;
  readonly workflows?: readonly string[];
}

export function plainReach({ tenants, workflows }: Reach): PlainReach {
  return { tenants, ...(workflows && { workflows: workflows.texts }) };
}

export function reachOfPlain({ tenants, workflows }: PlainReach): Reach {
  return { tenants, ...(workflows && { workflows: new Patterns(workflows) }) };
}

/** Undefined: it is none. Nothing is taken for "all" because it is absent, or of another type. */
export function readPlainReach(value: unknown): PlainReach | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { tenants, workflows } = value as { readonly tenants?: unknown; readonly workflows?: unknown };
  if (tenants !== "*" && !areTexts(tenants)) return undefined;
  if (workflows === undefined) return { tenants };
  return areTexts(workflows) ? { tenants, workflows } : undefined;
}

function areTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((text) => typeof text === "string");
}
