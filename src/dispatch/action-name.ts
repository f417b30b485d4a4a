// The name by which calls and workers meet: one version of an action of a service.
import type { ActionCall } from "../../machines/index.js";

export type ActionName = Pick<ActionCall, "service" | "action" | "version">;

/** "charge@1": how a worker names one version of an action. */
export function versionedAction({ action, version }: Pick<ActionName, "action" | "version">): string {
  return `${action}@${version}`;
}
