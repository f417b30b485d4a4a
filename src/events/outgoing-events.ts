// The events that a run owes to RabbitMQ, as rows of its commit: those that its steps emit, and those of its lifecycle. They are published
// after the commit, by event-publisher.ts; without a broker, or with the setting off, there is no row.
import {
  beginningOf,
  type CommittedEvent,
  isTerminal,
  type JsonObject,
  type Publishable,
  type Row,
  type RunIdentity,
  type RunState,
} from "../../machines/index.js";
import { eventId, shardOf } from "../ids.js";

/** Which events go to RabbitMQ. Absent where it is asked for: none. */
export interface OutgoingEvents {
  readonly emitted: boolean;
  readonly lifecycle: boolean;
}

const MAX_MESSAGE_CHARS = 1_000;

/** The rows that a run owes for them. `from`: the run whose commit has them, if it is another one: the parent that creates the run. */
export function outgoingRows(
  run: RunIdentity,
  publishable: readonly Publishable[],
  outgoing: OutgoingEvents,
  from = run.id,
): Row<"outgoing_event">[] {
  const of = { from_run: from, run_id: run.id, shard: shardOf(run.id) };
  return publishable.flatMap((each): Row<"outgoing_event">[] => {
    if ("topic" in each) return outgoing.emitted ? [{ ...of, id: each.id, topic: undefined, payload: undefined }] : [];
    const lifecycle = outgoing.lifecycle ? lifecycleOf(run, each) : undefined;
    return lifecycle ? [{ ...of, ...lifecycle }] : [];
  });
}

/** A branch or an item is a part of its run, and a dry run touches nothing outside: neither has a lifecycle that others see. */
function lifecycleOf(run: RunIdentity, event: CommittedEvent) {
  const state = lifecycleState(event);
  if (state === undefined || run.family || run.dryRun) return undefined;
  // Both names are formats: consumers bind to the topic, and recognise a repeat by the id, which is that of the audit row.
  const id = eventId(run.id, event.seq);
  return { id, topic: `saga.run.${state}`, payload: lifecyclePayload(run, event) };
}

/** A pause is not told of: a run may pause at every step. */
function lifecycleState({ type, from, to }: CommittedEvent): RunState | "started" | undefined {
  if (type === "saga.started") return "started";
  return from !== to && (to === "compensating" || isTerminal(to)) ? to : undefined;
}

/** Neither inputs nor output: they may be large, or for few eyes. Members may be added. */
function lifecyclePayload(run: RunIdentity, { to, at, seq, metadata }: CommittedEvent): JsonObject {
  const { id, workflowId, version, businessKey, tenantId, triggerId, parentRunId } = run;
  const optional = {
    business_key: businessKey,
    tenant_id: tenantId,
    trigger_id: triggerId,
    parent_run_id: parentRunId,
  };
  const present = Object.entries(optional).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return {
    ...{ run_id: id, workflow_id: workflowId, version, state: to, at: new Date(at).toISOString(), seq },
    ...Object.fromEntries(present),
    ...(to === "failed" && { error: errorOf(metadata) }),
  };
}

function errorOf({ code = "", message = "" }: JsonObject = {}): JsonObject {
  return { code: String(code), message: beginningOf(String(message), MAX_MESSAGE_CHARS) };
}
