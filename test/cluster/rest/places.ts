// The places of the REST suite: a single node, the node that owns the runs, and a node that does not. Real nodes in this process,
// each with a real worker on its gRPC port.
import { type NodeHandle, startNode } from "../../../src/cluster/node.js";
import { loadConfig } from "../../../src/config/index.js";
import { uuidv7 } from "../../../src/ids.js";
import { ownerOf, SHARDS } from "../../../src/shard/placement.js";
import { logLines } from "../../bus/log-lines.js";
import { openShop, type Shop } from "../../faults/shop.js";
import { accessSettings } from "../../harness/access.js";
import { createTestDatabase, silentLog, type TestDatabase } from "../../harness/database.js";
import { until } from "../../harness/until.js";

export interface Place {
  readonly httpPort: number;
  /** Connected to the owner of the runs. */
  readonly shop: Shop;
  readonly database: TestDatabase;
  /** An id for a run of the owner. */
  newRunId(): string;
  close(): Promise<void>;
}

export type OpenPlace = (redisUrl: string) => Promise<Place>;

export const PLACES: Readonly<Record<string, OpenPlace>> = {
  "a node alone": openAlone,
  "the owner": (redisUrl) => openTwo(redisUrl, ([owner]) => owner),
  "another node": (redisUrl) => openTwo(redisUrl, ([, other]) => other),
};

async function openAlone(): Promise<Place> {
  const database = await createTestDatabase({ max: 2 });
  const node = await startNode({ config: config({}), databaseUrl: database.url, log: silentLog });
  return placeAt(node, [node], database, () => uuidv7());
}

/** Two nodes that know each other; the first one owns the runs. */
async function openTwo(redisUrl: string, asked: (nodes: [NodeHandle, NodeHandle]) => NodeHandle): Promise<Place> {
  const database = await createTestDatabase({ max: 2 });
  const over = config({ REDIS_URL: redisUrl, REDIS_PREFIX: `test:${uuidv7()}:` });
  const logs = [logLines(), logLines()];
  const open = async (nth: number) =>
    startNode({ config: over, databaseUrl: database.url, log: logs[nth]?.log ?? silentLog });
  const nodes: [NodeHandle, NodeHandle] = [await open(0), await open(1)];
  const knowsBoth = ({ lines }: ReturnType<typeof logLines>) =>
    lines.some(({ msg, nodes: count }) => msg === "shards placed" && count === 2);
  await until(() => logs.every(knowsBoth), { what: "two nodes that know of each other" });
  const ids = nodes.map(({ nodeId }) => nodeId);
  const owned = SHARDS.filter((shard) => ownerOf(shard, ids) === nodes[0].nodeId);
  let nth = 0;
  return placeAt(asked(nodes), nodes, database, () => uuidv7(owned[nth++ % owned.length]));
}

async function placeAt(
  { httpPort }: NodeHandle,
  nodes: readonly [NodeHandle, ...NodeHandle[]],
  database: TestDatabase,
  newRunId: () => string,
): Promise<Place> {
  const shop = await openShop({ grpc: `127.0.0.1:${nodes[0].grpcPort}`, api: `http://127.0.0.1:${httpPort}` });
  const close = async () => {
    shop.letAllGo();
    await shop.stop();
    for (const node of nodes) await node.stop();
    await database.drop();
  };
  return { httpPort, shop, database, newRunId, close };
}

function config(env: Readonly<Record<string, string>>) {
  return loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "info", ...accessSettings(), ...env }).config;
}
