// A run as the API answers it, as far as commands read it, and how its state looks and ends. docs/openapi.json has the whole.
import { EXIT, type ExitCode } from "../exit.js";
import type { Style } from "../frame/terminal.js";

export type RunState = "pending" | "running" | "paused" | "compensating" | "succeeded" | "failed" | "cancelled";

export interface RunError {
  readonly code: string;
  readonly message: string;
  readonly step_id?: string;
  readonly cause?: unknown;
}

export interface Run {
  readonly id: string;
  readonly workflow_id: string;
  readonly version: number;
  readonly definition_id: string;
  readonly state: RunState;
  readonly paused_reason?: string;
  readonly current_step?: string;
  readonly business_key?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly priority?: number;
  readonly fairness_key?: string;
  readonly fairness_weight?: number;
  readonly tenant_id?: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly output?: unknown;
  readonly started_at: string;
  readonly last_event_at: string;
  readonly terminal_at?: string;
  readonly wakeup_at?: string;
  readonly awaited_signal?: string;
  readonly awaited_event_topic?: string;
  readonly incident?: RunError & { readonly attempts: number; readonly phase?: string };
  readonly error?: RunError;
  readonly last_error?: string;
  readonly requires_manual_review: boolean;
  readonly parent_run_id?: string;
  readonly parent_step_id?: string;
  readonly parent_branch_id?: string;
  readonly root_run_id?: string;
  readonly rerun_of?: string;
  readonly forked_from?: { readonly saga_id: string; readonly step: string; readonly entry: number };
  readonly dry_run?: boolean;
  readonly trigger_id?: string;
}

export interface RunEvent {
  readonly id: string;
  readonly run_id: string;
  readonly seq: number;
  readonly event_type: string;
  readonly step_id?: string;
  readonly attempt: number;
  readonly from_state: string;
  readonly to_state: string;
  readonly actor: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly recorded_at: string;
}

export const ENDED: readonly RunState[] = ["succeeded", "failed", "cancelled"];

export const hasEnded = ({ state }: Pick<Run, "state">): boolean => ENDED.includes(state);

/** Of a run that has ended. */
export const exitOf = ({ state }: Pick<Run, "state">): ExitCode =>
  state === "failed" ? EXIT.failed : state === "cancelled" ? EXIT.cancelled : EXIT.succeeded;

export const styleOf = (state: string): Style =>
  state === "succeeded"
    ? "green"
    : state === "failed"
      ? "red"
      : state === "cancelled" || state === "compensating"
        ? "magenta"
        : state === "paused"
          ? "yellow"
          : "cyan";

/** `paused: signal`. */
export const stateOf = ({ state, paused_reason, incident }: Pick<Run, "state" | "paused_reason" | "incident">) =>
  paused_reason !== undefined ? `${state}: ${paused_reason}` : incident !== undefined ? `${state}: incident` : state;

/** The path of a run, or of something below it. */
export const pathOf = (id: string, rest = ""): string => `/sagas/${encodeURIComponent(id)}${rest}`;
