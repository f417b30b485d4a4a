// A sub-saga whose step has a mock. It has the row of a run, and runs nothing: it ends as the mock says.

import { type CarriedOut, commitOf } from "../memory/commit.js";
import type { MemoryStore } from "../memory/store.js";
import { commandOwed } from "../messages/owed.js";
import type { Transition } from "../messages/transition.js";
import { patched } from "../state/context.js";
import type { StepError } from "../state/entry.js";
import type { ChildState } from "../state/group.js";
import type { RunIdentity } from "../state/identity.js";
import { newRun } from "../state/record.js";
import { givenCode } from "../values/error-code.js";
import type { Json } from "../values/json.js";
import type { Mock } from "./mock.js";

interface End {
  readonly state: ChildState;
  readonly output?: Json;
  readonly error?: StepError;
}

export interface MockedSagaHost {
  readonly store: MemoryStore;
  readonly now: number;
  uuid(seed: string): string;
}

export class MockedSaga {
  constructor(
    private readonly identity: RunIdentity,
    private readonly host: MockedSagaHost,
  ) {}

  /** It is silent if the mock says `timeout`. */
  play(mock: Mock | undefined): void {
    if (!mock || "output" in mock) return this.end({ state: "succeeded", output: mock?.output });
    const { code, message = code } = mock.error;
    if (code !== "timeout") this.end({ state: "failed", error: { code: givenCode(code), message } });
  }

  cancel(): void {
    this.end({ state: "cancelled" });
  }

  /** Its parent is told. */
  private end({ state, output, error }: End): void {
    const { identity, host } = this;
    const { id, parentRunId: to, parentEntry: entry = 0 } = identity;
    const place = host.store.placeOf(id);
    if (!place || to === undefined) throw new Error("a mocked sub-saga has a row and a parent");
    const ended = { type: "child", entry, state, ...(error && { error }), owed: 0, unprotected: {} } as const;
    const told = { id: host.uuid(`ended/${id}`), to, command: ended };
    const { writes = [] } = commandOwed({ run: identity, now: host.now }, told);
    const ending = state === "succeeded" ? undefined : { to: state, error, reason: error?.message ?? "cancelled" };
    const transition: Transition = {
      ...{ type: "end", patch: { state, output, ending }, stored: [], audit: [], writes, sends: [] },
    };
    const done: CarriedOut = {
      ...{ context: patched(newRun(identity, {}), transition.patch), place, transitions: [transition], now: host.now },
      ...{ command: { type: "advance" }, answer: { type: "advanced" } },
    };
    // One that has ended stays as it is.
    host.store.commit(commitOf(done, host.store.newFence));
  }
}
