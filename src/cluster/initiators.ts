// Two parts of the core, composed: triggers and bulk jobs. Both work by themselves for the shards of the node, and reach runs through the router.
import { Operate } from "../operate/index.js";
import type { Admission } from "../run/admission.js";
import type { Runs } from "../run/ports.js";
import type { Membership } from "../shard/membership.js";
import type { Placement } from "../shard/placement.js";
import { Triggers } from "../trigger/index.js";
import type { Foundations } from "./foundations.js";

interface Around {
  readonly runs: Runs;
  readonly placement: Placement;
  readonly membership: Membership;
  readonly admission: Admission;
}

export interface Initiators {
  readonly triggers: Triggers;
  readonly operate: Operate;
}

export function composeInitiators(
  { sql, upkeep, config, log, clock, metrics, catalog, schemas, tenants }: Foundations,
  { runs, placement, admission }: Around,
): Initiators {
  const shards = () => [...placement.mine];
  return {
    triggers: new Triggers({
      ...{ sql: upkeep, log, clock, metrics, catalog, schemas, runs, shards },
      licences: tenants,
    }),
    operate: new Operate({
      ...{ sql, upkeep, log, metrics, runs, shards, perSecond: config.capacity.bulkPerSecond },
      shedding: () => admission.shedding !== undefined,
    }),
  };
}
