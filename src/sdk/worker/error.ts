// How an action fails in a way that its workflow can tell apart. Any other error counts as one of unknown outcome.

export interface ActionErrorOptions {
  /** Whether another attempt may succeed. Default true. */
  readonly retryable?: boolean;
  /** The effect may have happened all the same: it is undone if the run rolls back. Default false. */
  readonly outcomeUnknown?: boolean;
  readonly cause?: unknown;
}

export class ActionError extends Error {
  override readonly name = "ActionError";
  readonly retryable: boolean;
  readonly outcomeUnknown: boolean;

  constructor(
    /** What workflows branch on and retry policies name. */
    readonly code: string,
    message: string = code,
    options: ActionErrorOptions = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryable = options.retryable ?? true;
    this.outcomeUnknown = options.outcomeUnknown ?? false;
  }
}
