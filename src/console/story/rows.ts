// What a story reads in an audit row, by name. Rows come from the service; what is missing or of another kind is left out.
import type { AuditType, RunState } from "../../../machines/index.js";

/** An audit row as the API answers it. */
export interface Row {
  readonly seq: number;
  readonly event_type: string;
  readonly step_id?: string | undefined;
  readonly attempt: number;
  readonly from_state: string;
  readonly to_state: string;
  readonly actor: string;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  readonly recorded_at: string;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
}

export const typeOf = ({ event_type }: Row): AuditType => event_type as AuditType;
export const stateAfter = ({ to_state }: Row): RunState => to_state as RunState;
export const timeOf = ({ recorded_at }: Row): number => Date.parse(recorded_at);

/** Of an undo: in a rollback, or of a try. */
export const isUndo = ({ metadata }: Row): boolean => metadata?.phase === "compensation";

export const textIn = ({ metadata }: Row, name: string): string | undefined => {
  const value = metadata?.[name];
  return typeof value === "string" ? value : undefined;
};

export const kindOf = (row: Row): string | undefined => textIn(row, "kind");

export const willRetry = ({ metadata }: Row): boolean => metadata?.will_retry === true;

export const isIncident = ({ metadata }: Row): boolean => metadata?.incident !== undefined;

export function failureOf(row: Row): Failure {
  return { code: textIn(row, "code") ?? "error", message: textIn(row, "message") ?? "" };
}
