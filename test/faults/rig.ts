// The whole service in this process, on a test database, with a real worker on its gRPC port.
import { type NodeHandle, startNode } from "../../src/cluster/node.js";
import { loadConfig } from "../../src/config/index.js";
import { accessSettings } from "../harness/access.js";
import { silentLog } from "../harness/database.js";
import { Client } from "./client.js";
import { openShop, type Shop } from "./shop.js";

export interface Service {
  readonly node: NodeHandle;
  readonly client: Client;
  readonly shop: Shop;
  /** Safe to call twice. */
  stop(): Promise<void>;
}

export interface ServiceOptions {
  readonly hints?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

export async function startService(databaseUrl: string, { hints, env }: ServiceOptions = {}): Promise<Service> {
  const { config } = loadConfig({ HTTP_PORT: "0", GRPC_PORT: "0", LOG_LEVEL: "silent", ...accessSettings(), ...env });
  const node = await startNode({ config, databaseUrl, log: silentLog, hints });
  const api = `http://127.0.0.1:${node.httpPort}`;
  const shop = await openShop({ grpc: `127.0.0.1:${node.grpcPort}`, api });
  const stop = async () => {
    shop.letAllGo();
    await shop.stop();
    await node.stop();
  };
  return { node, client: new Client(api), shop, stop };
}
