// An action as a contract: what it is called, takes and gives, and how it is retried. Its code is elsewhere (`handle` of a worker), so that a
// definition, a client and a test can import the contract without the worker's libraries.
import type { TSchema } from "typebox";
import { refuseUnknown } from "./unknown-member.js";

/** The retry policy of an action's steps, where a step has none of its own. Omitted fields have the orchestrator's defaults. */
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

/** What `defineAction` takes. The type parameters keep the literals, so that a definition knows which actions want an undo. */
export interface ActionOptions<
  Service extends string = string,
  Name extends string = string,
  Input extends TSchema = TSchema,
  Output extends TSchema = TSchema,
  Compensable extends boolean = boolean,
> {
  /** The service whose workers execute it, matching [A-Za-z0-9_.:-]{1,128}. */
  readonly service: Service;
  /** Matches [A-Za-z0-9_:-]{1,128}, without a dot: workflows name the action "service.name". */
  readonly name: Name;
  /** Counts from 1, the default. A worker may serve an old and a new version side by side. */
  readonly version?: number;
  readonly description?: string;
  readonly category?: string;
  /** The action has an effect that another action can undo. Default false. */
  readonly compensable?: Compensable;
  /** A TypeBox schema or plain JSON Schema. The service checks inputs against it before it dispatches. */
  readonly input: Input;
  /** The same for outputs: an output that does not fit fails the step, with the code `schema_mismatch`. */
  readonly output: Output;
  /** Time limit of each attempt in milliseconds, where the step has none. */
  readonly timeoutMs?: number;
  readonly retry?: RetryOptions;
  /** The error codes that it fails with: documentation for authors of workflows. */
  readonly errorCodes?: readonly string[];
  /** The action may be called with `ctx.dryRun` set, and then changes nothing outside. Default false. */
  readonly dryRunSupported?: boolean;
  readonly deprecated?: boolean;
  readonly licenseGroup?: string;
}

/** An action as `defineAction` returns it. */
export interface ActionContract<
  Service extends string = string,
  Name extends string = string,
  Input extends TSchema = TSchema,
  Output extends TSchema = TSchema,
  Compensable extends boolean = boolean,
> extends Omit<ActionOptions<Service, Name, Input, Output, Compensable>, "version" | "compensable"> {
  readonly version: number;
  readonly compensable: Compensable;
}

const NAME = /^[A-Za-z0-9_:-]{1,128}$/;
/** Of a service, dots too: the name of an action begins behind the last one. */
const SERVICE = /^[A-Za-z0-9_.:-]{1,128}$/;

/** What an action may have: a misspelt limit or policy would not count, and its author would learn that in production. */
const MEMBERS: Readonly<Record<keyof ActionOptions, true>> = {
  ...{ service: true, name: true, version: true, description: true, category: true, compensable: true, input: true },
  ...{ output: true, timeoutMs: true, retry: true, errorCodes: true, dryRunSupported: true, deprecated: true },
  ...{ licenseGroup: true },
};
const RETRY_MEMBERS: Readonly<Record<keyof RetryOptions, true>> = {
  ...{ maxAttempts: true, initialBackoffMs: true, maxBackoffMs: true, multiplier: true, jitter: true },
  nonRetryableCodes: true,
};

/** Throws TypeError if a name or the version is invalid, a schema is missing, or a member is unknown. */
export function defineAction<
  const Service extends string,
  const Name extends string,
  const Input extends TSchema,
  const Output extends TSchema,
  const Compensable extends boolean = false,
>(
  options: ActionOptions<Service, Name, Input, Output, Compensable>,
): ActionContract<Service, Name, Input, Output, Compensable> {
  const { version = 1, compensable = false as Compensable, service, name, retry } = options;
  if (!NAME.test(name)) throw new TypeError(`action name ${JSON.stringify(name)} must match ${NAME}`);
  if (!SERVICE.test(service))
    throw new TypeError(`service ${JSON.stringify(service)} of action ${name} must match ${SERVICE}`);
  if (!Number.isInteger(version) || version < 1)
    throw new TypeError(`version of action ${name} must be an integer of 1 or more`);
  refuseUnknown(`action ${name}`, options, MEMBERS);
  if (retry) refuseUnknown(`retry of action ${name}`, retry, RETRY_MEMBERS);
  for (const member of ["input", "output"] as const)
    if (!isSchema(options[member])) throw new TypeError(`action ${name} needs ${member}, a JSON Schema`);
  return Object.freeze({ ...options, version, compensable });
}

const isSchema = (value: unknown) => (typeof value === "object" && value !== null) || typeof value === "boolean";
