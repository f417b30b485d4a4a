// The granter of concurrency slots, composed: the owner of the first shard polls for the whole cluster, every node grants what its own runs
// have touched.
import { asShardId } from "../ids.js";
import { type GranterOptions, SlotGranter } from "../run/slots/granter.js";
import type { Placement } from "../shard/placement.js";
import type { Foundations } from "./foundations.js";

export function composeSlotGranter(
  { nodeId, sql, log, hints, config }: Foundations,
  { placement, afterCommit }: Pick<GranterOptions, "afterCommit"> & { readonly placement: Placement },
): SlotGranter {
  const polls = () => placement.owner(asShardId(0)) === nodeId;
  return new SlotGranter({ sql, log, hints, afterCommit, polls, room: config.capacity.slotRoom });
}
