// The ports of a service before its nodes listen on them: a taken one is reported in one sentence, and a free one is chosen.
import { createServer, type Server } from "node:net";
import type { Config } from "../config/index.js";

type Ports = Pick<Config, "host" | "httpPort" | "grpcPort">;

/** A port of the configuration cannot be listened on. */
export class AddressNotFree extends Error {
  override readonly name = "AddressNotFree";
}

/** Throws AddressNotFree. A node that begins to listen later may still fail: another process can be faster. */
export async function refuseTakenPorts({ host, httpPort, grpcPort }: Ports): Promise<void> {
  const ports = { HTTP_PORT: httpPort, GRPC_PORT: grpcPort };
  for (const [name, port] of Object.entries(ports)) {
    if (port === 0) continue;
    const server = await listen(host, port).catch((error: NodeJS.ErrnoException) => {
      throw new AddressNotFree(sentence(error, { host, name, port }), { cause: error });
    });
    await closed(server);
  }
}

/**
 * With port 0 node:cluster gives all nodes one port, but a new one after all of them have died. So the port is chosen here, for
 * the life of the service. Another process may take it before the first node does; then the start fails.
 */
export async function choosePorts({ host, httpPort, grpcPort }: Ports): Promise<[number, number]> {
  const held = await Promise.all([httpPort, grpcPort].map((port) => (port === 0 ? listen(host, 0) : undefined)));
  const ports = held.map((server) => (server?.address() as { port: number } | undefined)?.port);
  await Promise.all(held.map((server) => server && closed(server)));
  return [ports[0] ?? httpPort, ports[1] ?? grpcPort];
}

function sentence({ code, message }: NodeJS.ErrnoException, at: { host: string; name: string; port: number }): string {
  const { host, name, port } = at;
  if (code === "EADDRINUSE")
    return `${name} ${port} is in use on ${host}: end the process that listens there, or set ${name} to another port`;
  if (code === "EACCES") return `${name} ${port} may not be used by this account: set ${name} to a port above 1023`;
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") return `HOST ${host} is no address of this machine`;
  return `${name} ${port} cannot be listened on at ${host}: ${message}`;
}

function listen(host: string, port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(port, host, () => resolve(server));
  });
}

const closed = (server: Server) => new Promise((resolve) => server.close(resolve));
