// How a command ends: its exit codes, and the error that carries one. What is printed is decided where it is caught.

/** How a command ends. Scripts depend on these numbers: they must never change. */
export const EXIT = {
  succeeded: 0,
  /** The run failed, a check or a test found something, or the service has a fault. */
  failed: 1,
  /** Arguments or settings are wrong. */
  usage: 2,
  /** The run was cancelled. */
  cancelled: 3,
  /** The run has not ended in time. */
  late: 4,
  /** The service refused the request. */
  refused: 5,
  /** The service does not answer. */
  unreachable: 6,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** The command cannot do what it was asked. It says so in one sentence, and what to do. */
export class Failure extends Error {
  override readonly name = "Failure";
  constructor(
    message: string,
    readonly code: ExitCode = EXIT.usage,
  ) {
    super(message);
  }
}
