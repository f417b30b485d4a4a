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
  readonly metadata?: object | undefined;
  readonly recorded_at: string;
}

export interface Failure {
  readonly code: string;
  readonly message: string;
}

export const typeOf = ({ event_type }: Row): AuditType => event_type as AuditType;
export const stateAfter = ({ to_state }: Row): RunState => to_state as RunState;
export const timeOf = ({ recorded_at }: Row): number => Date.parse(recorded_at);

/** Whether a row is of an undo: in a rollback, or of a try. */
export const isUndo = (row: Row): boolean => saidIn(row, "phase") === "compensation";

export const saidIn = ({ metadata }: Row, name: string): unknown =>
  (metadata as Readonly<Record<string, unknown>> | undefined)?.[name];

export const textIn = (row: Row, name: string): string | undefined => {
  const value = saidIn(row, name);
  return typeof value === "string" ? value : undefined;
};

export const kindOf = (row: Row): string | undefined => textIn(row, "kind");

export const willRetry = (row: Row): boolean => saidIn(row, "will_retry") === true;

export const isIncident = (row: Row): boolean => saidIn(row, "incident") !== undefined;

export function failureOf(row: Row): Failure {
  return { code: textIn(row, "code") ?? "error", message: textIn(row, "message") ?? "" };
}
