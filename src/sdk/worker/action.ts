// The registration of an action with the service: its contract, and how the service reaches the worker. Its code stays here (handlers.ts).
import type { ActionContract } from "../contract/index.js";

/** How the service reaches the worker. */
export interface Reach {
  readonly transport: "grpc" | "http" | "rmq";
  readonly address?: string;
}

/** The ActionRegistration that the service takes. */
export function registration(action: ActionContract, reach: Reach): Readonly<Record<string, unknown>> {
  const { retry } = action;
  return dropUndefined({
    action_name: action.name,
    version: action.version,
    description: action.description,
    category: action.category,
    compensable: action.compensable,
    input_schema: action.input,
    output_schema: action.output,
    error_codes: action.errorCodes,
    default_retry: retry && {
      max_attempts: retry.maxAttempts,
      initial_backoff_ms: retry.initialBackoffMs,
      ...dropUndefined({
        max_backoff_ms: retry.maxBackoffMs,
        multiplier: retry.multiplier,
        jitter: retry.jitter,
        non_retryable_codes: retry.nonRetryableCodes,
      }),
    },
    default_timeout_ms: action.timeoutMs,
    deprecated: action.deprecated ?? false,
    dry_run_supported: action.dryRunSupported ?? false,
    license_group: action.licenseGroup,
    ...reach,
  });
}

function dropUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
