// The children of a rehearsed run as their parent sees them: runs, and mocked sub-sagas, which run nothing.

import type { RunCommand } from "../messages/command.js";
import type { EndedChild } from "../messages/fact.js";
import type { SentCommand } from "../messages/owed.js";
import type { StepError } from "../state/entry.js";
import type { RunIdentity } from "../state/identity.js";
import { isTerminal } from "../state/lifecycle.js";
import { givenCode } from "../values/error-code.js";
import type { RunId } from "../values/ids.js";
import type { Mock } from "./mocks.js";
import type { RehearsedRun } from "./run.js";

export interface Child {
  readonly id: RunId;
  readonly parentRunId: RunId | undefined;
  readonly parentEntry: number;
  /** Absent while it runs. */
  readonly ended: EndedChild | undefined;
}

export function childOf({ id, context: { run, state, output = null, ending } }: RehearsedRun): Child {
  const { parentRunId, parentEntry = 0, parentBranchId: branch = "" } = run;
  if (!isTerminal(state)) return { id, parentRunId, parentEntry, ended: undefined };
  const cancelled: StepError | undefined = ending && { code: "cancelled", message: ending.reason };
  const error = ending?.error ?? cancelled;
  const ended = { branch, state: state as EndedChild["state"], output, ...(error && { error }) };
  return { id, parentRunId, parentEntry, ended };
}

/** A sub-saga whose step has a mock. It ends as the mock says, and is silent if the mock says `timeout`. */
export class MockedSaga {
  private ended: EndedChild | undefined;

  constructor(private readonly identity: RunIdentity) {}

  get child(): Child {
    const { id, parentRunId, parentEntry = 0 } = this.identity;
    return { id, parentRunId, parentEntry, ended: this.ended };
  }

  play(mock: Mock | undefined): Omit<SentCommand, "id"> | undefined {
    if (!mock || "output" in mock) return this.end({ state: "succeeded", output: mock?.output ?? null });
    const { code, message = code } = mock.error;
    return code === "timeout"
      ? undefined
      : this.end({ state: "failed", output: null, error: { code: givenCode(code), message } });
  }

  cancel(): Omit<SentCommand, "id"> | undefined {
    return this.ended ? undefined : this.end({ state: "cancelled", output: null });
  }

  /** The command to its parent. */
  private end(end: Omit<EndedChild, "branch">): Omit<SentCommand, "id"> {
    this.ended = { branch: "", ...end };
    const { parentRunId: to, parentEntry: entry = 0 } = this.identity;
    if (to === undefined) throw new Error("a mocked sub-saga has no parent");
    const { state, error } = end;
    const command: RunCommand = { type: "child", entry, state, ...(error && { error }), owed: 0, unprotected: {} };
    return { to, command };
  }
}
