// What a run has made of a command as a commit of the memory store, and the commit of a start. Both are those of the service: a unit makes them.

import type { Answer, RunCommand } from "../messages/command.js";
import type { Owed } from "../messages/owed.js";
import type { Transition } from "../messages/transition.js";
import type { RunContext } from "../state/context.js";
import type { RunIdentity } from "../state/identity.js";
import { type CommandReach, EVERYTHING } from "../state/reach.js";
import { newRun, RECORD_FORMATS } from "../state/record.js";
import type { JsonObject } from "../values/json.js";
import { confirmation, newRunRows, type RunCommit, startedEvent, Unit, type UnitHost } from "../writes/unit.js";
import type { RunPlace } from "./store.js";

/** What a run has made of a command. */
export interface CarriedOut {
  /** After the transitions. */
  readonly context: RunContext;
  /** The place that the decision was based on. */
  readonly place: RunPlace;
  readonly command: RunCommand;
  /** A repeat is recognised by it. An inbox row has the id of its command. */
  readonly id?: string;
  readonly answer: Answer;
  readonly transitions: readonly Transition[];
  /** What a decision without transitions owes. */
  readonly owed?: Owed;
  /** Database time. */
  readonly now: number;
  /** Absent: the command is the service's own. */
  readonly reach?: CommandReach;
}

/** `newFence`: a token that no other commit has. */
export function commitOf(done: CarriedOut, newFence: UnitHost["newFence"]): RunCommit {
  const { context, place, command, id, answer, transitions, owed = {}, now, reach = EVERYTHING } = done;
  const host = { ...IN_MEMORY, newFence };
  const { revision, fence } = place;
  const received = { command, id, inboxId: id, keep: false };
  const based = { context, revision, fence, reach };
  if (transitions.length === 0) return confirmation({ ...based, received, answer, owed }, now, host);
  const unit = new Unit(place, host);
  for (const transition of transitions) unit.add(context.run, transition);
  unit.recordAnswer(received, answer);
  return unit.toCommit(based, now);
}

/** Scopes share nothing: nothing is gained by it in memory. There is no broker. */
const IN_MEMORY: Omit<UnitHost, "newFence"> = {
  recordOf: (context) => RECORD_FORMATS.encode(context, RECORD_FORMATS.writes),
  keptScope: (scope, own) => ({
    scope: { ...scope, manifest: { own, shared: {} }, manifest_hash: undefined },
    values: [],
  }),
};

/** The commit of a run that starts from outside. */
export function startOf(
  identity: RunIdentity,
  variables: JsonObject | undefined,
  newFence: UnitHost["newFence"],
): RunCommit {
  const mark = { requestHash: "", fence: newFence() };
  return {
    runId: identity.id,
    tenantId: identity.tenantId,
    rows: newRunRows(newRun(identity, variables ?? {}), startedEvent(identity, "api"), mark),
  };
}
