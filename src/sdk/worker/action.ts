// What a worker can do: an action with its schemas and its code, and the registration that tells the service about it.
import type { Static, TSchema } from "typebox";
import type { ActionContext } from "./context.js";

export interface RetryOptions {
  /** Counts the first attempt; -1 is unlimited. */
  readonly maxAttempts: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs?: number;
  readonly multiplier?: number;
  readonly jitter?: boolean;
  readonly nonRetryableCodes?: readonly string[];
}

interface ActionFacts {
  /** Without a dot: workflows name it as "service.name". */
  readonly name: string;
  /** From 1, the default. Both the old and the new version may be served side by side. */
  readonly version?: number;
  readonly description?: string;
  readonly category?: string;
  /** That the action has an effect which another action can undo. */
  readonly compensable?: boolean;
  /** For each attempt, where the step does not say otherwise. */
  readonly timeoutMs?: number;
  readonly retry?: RetryOptions;
  /** The codes that it fails with, for those who write workflows. */
  readonly errorCodes?: readonly string[];
  /** That it can be called with `ctx.dryRun`, touching nothing then. */
  readonly dryRunSupported?: boolean;
  readonly deprecated?: boolean;
  readonly licenseGroup?: string;
  /** Heartbeats are sent for as long as `execute` runs, where the step asks for any. Default true; false: call `ctx.heartbeat()`. */
  readonly autoHeartbeat?: boolean;
}

export interface ActionOptions<I extends TSchema, O extends TSchema> extends ActionFacts {
  /** A TypeBox schema or plain JSON Schema. The service checks inputs against it before it dispatches. */
  readonly input: I;
  readonly output: O;
  /**
   * Returns the output, a JSON object (nothing: `{}`). Throw `ActionError` to fail in a way the workflow can tell apart;
   * anything else thrown counts as "may have happened". May be called twice for one step: use `ctx.idempotencyKey`.
   */
  execute(input: Static<I>, ctx: ActionContext): Promise<Static<O>> | Static<O>;
}

export interface Action<I = unknown, O = unknown> extends ActionFacts {
  readonly version: number;
  readonly input: TSchema;
  readonly output: TSchema;
  execute(input: I, ctx: ActionContext): Promise<O> | O;
}

const NAME = /^[A-Za-z0-9_:-]{1,128}$/;

export function defineAction<const I extends TSchema, const O extends TSchema>(
  options: ActionOptions<I, O>,
): Action<Static<I>, Static<O>> {
  const version = options.version ?? 1;
  if (!NAME.test(options.name)) throw new TypeError(`action name ${JSON.stringify(options.name)} must match ${NAME}`);
  if (!Number.isInteger(version) || version < 1)
    throw new TypeError(`version of action ${options.name} must be 1 or more`);
  return Object.freeze({ ...options, version });
}

/** An ActionRegistration as the service takes it; members without a value are absent. */
export function registration(action: Action): Readonly<Record<string, unknown>> {
  const { retry } = action;
  return dropUndefined({
    action_name: action.name,
    version: action.version,
    description: action.description,
    category: action.category,
    compensable: action.compensable ?? false,
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
    transport: "grpc",
  });
}

function dropUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
