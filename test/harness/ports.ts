// Free TCP ports on 127.0.0.1, for processes that cannot choose their own.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below the ports that systems give to outgoing connections (Linux: from 32,768): a service that is restarted would otherwise find
 * that a connection has taken its port in the meantime.
 */
const FIRST_PORT = 11_000;
const PORTS_OF_A_PROCESS = 1_000;
const PROCESSES = 20;

const first = FIRST_PORT + (Number(process.env.VITEST_POOL_ID ?? 0) % PROCESSES) * PORTS_OF_A_PROCESS;
let next = randomInt(PORTS_OF_A_PROCESS);

/** Each test process has ports of its own, and gives none out a second time before it has given out all. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let tries = 0; ports.length < count; tries++) {
    if (tries === PORTS_OF_A_PROCESS) throw new Error(`no free port from ${first} on`);
    const port = first + (next++ % PORTS_OF_A_PROCESS);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
