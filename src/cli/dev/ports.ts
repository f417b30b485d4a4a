// The ports of a service that `saga dev` starts: those that are set, or else the usual ones, or the next free ones. Another process may be faster: the
// service then says so.
import { createServer } from "node:net";
import type { DevSettings } from "../../config/dev.js";

export const USUAL = { http: 8080, grpc: 9090 };
/** Programs that take a port of their own begin at the usual ones, too. */
const TRIES = 100;

export interface Ports {
  readonly http: number;
  readonly grpc: number;
  /** The usual ones that another program has. */
  readonly taken: readonly number[];
}

/** A set port is not tried: if it is taken, the service refuses to start, and says what to do. */
export async function choosePorts({
  host,
  httpPort,
  grpcPort,
}: Pick<DevSettings, "host" | "httpPort" | "grpcPort">): Promise<Ports> {
  const http = await chosen(httpPort, USUAL.http, host, grpcPort);
  const grpc = await chosen(grpcPort, USUAL.grpc, host, http);
  const taken = [
    ...(httpPort === undefined && http !== USUAL.http ? [USUAL.http] : []),
    ...(grpcPort === undefined && grpc !== USUAL.grpc ? [USUAL.grpc] : []),
  ];
  return { http, grpc, taken };
}

/** 0 is any free one, which has to be known before the service starts: the worker is told. */
async function chosen(
  set: number | undefined,
  usual: number,
  host: string,
  other: number | undefined,
): Promise<number> {
  if (set !== undefined && set !== 0) return set;
  const from = set === 0 ? 0 : usual;
  for (let port = from; port < from + TRIES; port++) {
    const free = port === other ? undefined : await freeAt(port, host);
    if (free !== undefined && free !== other) return free;
    if (from === 0) port--;
  }
  return usual;
}

function freeAt(port: number, host: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(undefined));
    server.listen(port, host, () => {
      const { port: taken } = server.address() as { port: number };
      server.close(() => resolve(taken));
    });
  });
}
