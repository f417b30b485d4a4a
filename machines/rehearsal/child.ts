// Children as their parent sees them: a run, or the stand-in of a sub-saga whose step is mocked, which runs nothing.
import type { RunCommand } from "../commands.js";
import type { RunIdentity } from "../context.js";
import type { EndedChild } from "../facts.js";
import { isTerminal } from "../lifecycle.js";
import type { Message } from "./memory.js";
import type { Mock } from "./mocks.js";
import type { RehearsedRun } from "./run.js";

export interface Child {
  readonly id: string;
  readonly parentRunId: string | undefined;
  readonly parentEntry: number;
  /** Absent while it runs. */
  readonly ended: EndedChild | undefined;
}

export function childOf({ id, context: { run, state, output = null, ending } }: RehearsedRun): Child {
  const { parentRunId, parentEntry = 0, parentBranchId: branch = "" } = run;
  if (!isTerminal(state)) return { id, parentRunId, parentEntry, ended: undefined };
  const error = ending && (ending.error ?? { code: "cancelled", message: ending.reason });
  const ended = { branch, state: state as EndedChild["state"], output, ...(error && { error }) };
  return { id, parentRunId, parentEntry, ended };
}

/** It ends as its mock says, and is silent if that says `timeout`. */
export class StandIn {
  private ended: EndedChild | undefined;

  constructor(private readonly identity: RunIdentity) {}

  get child(): Child {
    const { id, parentRunId, parentEntry = 0 } = this.identity;
    return { id, parentRunId, parentEntry, ended: this.ended };
  }

  play(mock: Mock | undefined): Omit<Message, "id"> | undefined {
    if (!mock || "output" in mock) return this.end({ state: "succeeded", output: mock?.output ?? null });
    const { code, message = code } = mock.error;
    return code === "timeout" ? undefined : this.end({ state: "failed", output: null, error: { code, message } });
  }

  cancel(): Omit<Message, "id"> | undefined {
    return this.ended ? undefined : this.end({ state: "cancelled", output: null });
  }

  /** What its parent is told. */
  private end(end: Omit<EndedChild, "branch">): Omit<Message, "id"> {
    this.ended = { branch: "", ...end };
    const { parentRunId: to = "", parentEntry: entry = 0 } = this.identity;
    const { state, error } = end;
    const command: RunCommand = { type: "child", entry, state, ...(error && { error }), owed: 0, unprotected: {} };
    return { to, command };
  }
}
