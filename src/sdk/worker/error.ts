// The error by which an action fails its step with a code.

export interface ActionErrorOptions {
  /** Whether another attempt may succeed. Default true. */
  readonly retryable?: boolean;
  /** The effect may have happened all the same, and is undone if the run rolls back. Default false. */
  readonly outcomeUnknown?: boolean;
  readonly cause?: unknown;
}

/**
 * Throw it from an action to fail the step with a code that the workflow can tell apart. It states that the action had
 * no effect, unless `outcomeUnknown` is set; any other error that an action throws counts as retryable and of unknown
 * outcome.
 */
export class ActionError extends Error {
  override readonly name = "ActionError";
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;

  constructor(
    /** The step's error code: catches and retry policies name it. At most 128 characters. */
    readonly code: string,
    message: string = code,
    options: ActionErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? true;
    this.outcomeUnknown = options.outcomeUnknown ?? false;
  }
}
