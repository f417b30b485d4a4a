// Nodes of several record formats on one database: each has a heartbeat, which beats when the test says so, and polls on request.
import type { RecordFormats } from "../../machines/index.js";
import { DatabaseClock } from "../../src/clock.js";
import { uuidv7 } from "../../src/ids.js";
import { Membership } from "../../src/shard/membership.js";
import { silentLog, type TestDatabase } from "../harness/database.js";
import type { Reply } from "./hand-dispatcher.js";
import { type Half, startHalf } from "./rig.js";

export interface Node extends Half {
  readonly membership: Membership;
}

/** The worker never answers by itself; a failure is retried later. */
const silent: Reply = ({ call }) => (call.action === "fail" ? { code: "not_yet" } : undefined);

/** It has these record formats, by default those of this release, and is added to the nodes. */
export async function joined(
  database: TestDatabase,
  nodes: Node[],
  formats?: RecordFormats,
  reply: Reply = silent,
): Promise<Node> {
  let membership: Membership | undefined;
  const half = await startHalf(database, {
    formats,
    recordFormat: () => membership?.recordFormat ?? 1,
    reply,
  });
  const clock = new DatabaseClock();
  membership = new Membership({
    ...{ nodeId: uuidv7(), sql: database.sql, clock, log: silentLog, onAlive: () => {} },
    formats,
  });
  await membership.beat();
  const node = { ...half, membership };
  nodes.push(node);
  return node;
}

export async function leave({ stop, membership }: Node): Promise<void> {
  await stop();
  await membership.stop();
}
