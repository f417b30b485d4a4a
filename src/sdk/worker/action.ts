// An action: its schemas, its code, and its registration with the service.
import type { Static, TSchema } from "typebox";
import type { ActionContext } from "./context.js";
import { refuseUnknown } from "./options.js";

/**
 * The retry policy of an action's steps, where a step has none of its own. Omitted fields have the orchestrator's
 * defaults.
 */
export interface RetryOptions {
  /** Includes the first attempt; -1 is unlimited. */
  readonly maxAttempts: number;
  /** Pause before the second attempt, in milliseconds. */
  readonly initialBackoffMs: number;
  /** The longest pause, in milliseconds. */
  readonly maxBackoffMs?: number;
  /** Each pause is the one before, multiplied by this. */
  readonly multiplier?: number;
  readonly jitter?: boolean;
  /** Error codes after which there is no further attempt. */
  readonly nonRetryableCodes?: readonly string[];
}

interface ActionFacts {
  /** Matches [A-Za-z0-9_:-]{1,128}, without a dot: workflows name the action "service.name". */
  readonly name: string;
  /** Counts from 1, the default. A worker may serve an old and a new version side by side. */
  readonly version?: number;
  readonly description?: string;
  readonly category?: string;
  /** The action has an effect that another action can undo. Default false. */
  readonly compensable?: boolean;
  /** Time limit of each attempt in milliseconds, where the step has none. */
  readonly timeoutMs?: number;
  readonly retry?: RetryOptions;
  /** The error codes that it fails with: documentation for authors of workflows. */
  readonly errorCodes?: readonly string[];
  /** The action may be called with `ctx.dryRun` set, and then changes nothing outside. Default false. */
  readonly dryRunSupported?: boolean;
  readonly deprecated?: boolean;
  readonly licenseGroup?: string;
  /**
   * Send heartbeats while `execute` runs, for steps with a heartbeat timeout. Default true. If false, call
   * `ctx.heartbeat()`.
   */
  readonly autoHeartbeat?: boolean;
}

export interface ActionOptions<I extends TSchema, O extends TSchema> extends ActionFacts {
  /** A TypeBox schema or plain JSON Schema. The service checks inputs against it before it dispatches. */
  readonly input: I;
  /** The same for outputs: an output that does not fit fails the step, with the code `schema_mismatch`. */
  readonly output: O;
  /**
   * Returns the output, a JSON object; undefined means `{}`. Throw `ActionError` to fail with a code of your own; after
   * any other error the effect counts as "may have happened". It may be called twice for one step: use
   * `ctx.idempotencyKey`.
   */
  execute(input: Static<I>, ctx: ActionContext): Promise<Static<O>> | Static<O>;
}

/** An action as `defineAction` returns it. */
export interface Action<I = unknown, O = unknown> extends ActionFacts {
  readonly version: number;
  readonly input: TSchema;
  readonly output: TSchema;
  execute(input: I, ctx: ActionContext): Promise<O> | O;
}

const NAME = /^[A-Za-z0-9_:-]{1,128}$/;

/** What an action may have: a misspelt limit or policy would not count, and its author would learn that in production. */
const MEMBERS: Readonly<Record<keyof ActionOptions<TSchema, TSchema>, true>> = {
  ...{ name: true, version: true, description: true, category: true, input: true, output: true, execute: true },
  ...{ compensable: true, timeoutMs: true, retry: true, errorCodes: true, dryRunSupported: true, deprecated: true },
  ...{ licenseGroup: true, autoHeartbeat: true },
};
const RETRY_MEMBERS: Readonly<Record<keyof RetryOptions, true>> = {
  ...{ maxAttempts: true, initialBackoffMs: true, maxBackoffMs: true, multiplier: true, jitter: true },
  nonRetryableCodes: true,
};

/**
 * Types `execute` by the schemas. Throws TypeError if the name or the version is invalid, a schema or `execute` is missing, or a member is unknown.
 */
export function defineAction<const I extends TSchema, const O extends TSchema>(
  options: ActionOptions<I, O>,
): Action<Static<I>, Static<O>> {
  const version = options.version ?? 1;
  if (!NAME.test(options.name)) throw new TypeError(`action name ${JSON.stringify(options.name)} must match ${NAME}`);
  if (!Number.isInteger(version) || version < 1)
    throw new TypeError(`version of action ${options.name} must be an integer of 1 or more`);
  refuseUnknown(`action ${options.name}`, options, MEMBERS);
  if (options.retry) refuseUnknown(`retry of action ${options.name}`, options.retry, RETRY_MEMBERS);
  for (const member of ["input", "output"] as const)
    if (!isSchema(options[member])) throw new TypeError(`action ${options.name} needs ${member}, a JSON Schema`);
  if (typeof options.execute !== "function") throw new TypeError(`action ${options.name} needs execute, a function`);
  return Object.freeze({ ...options, version });
}

const isSchema = (value: unknown) => (typeof value === "object" && value !== null) || typeof value === "boolean";

/** How the service reaches the worker. */
export interface Reach {
  readonly transport: "grpc" | "http" | "rmq";
  readonly address?: string;
}

/** The ActionRegistration that the service takes. */
export function registration(action: Action, reach: Reach): Readonly<Record<string, unknown>> {
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
    ...reach,
  });
}

function dropUndefined(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
