// The faults of a compressed week. Each begins when everything is up, and ends when its cause is gone; that the service is whole again is awaited
// afterwards. What a fault resolves with is printed.
import { setTimeout as delay } from "node:timers/promises";
import { until } from "../../harness/until.js";
import { Bystander } from "./bystander.js";
import { DAY_MS } from "./clocks.js";
import { NODES, nodesOf, type Stage, tellRedis } from "./stage.js";

/** The rhythm of the kills. */
const KILL_MS = 2_000;
/** A fault that is held lasts this long from when it is there, so that work meets it. */
const HELD_MS = 3_000;
const MOST_HELD_MS = 10_000;
/** A machine with other work starts a node, or notices a fault, in tens of seconds. */
const WITHIN_MS = 60_000;
/** Pages of the filler: more than any relation has free. */
const FILLER_ROWS = 200;

const DISK_FULL = "53100";
/** The part of the full disks that have a checkpoint. */
const CHECKPOINTS = 0.3;

export type Random = () => number;

export interface FaultContext {
  readonly stage: Stage;
  readonly random: Random;
  /** How long nodes are killed in one stretch. */
  readonly killingMs: number;
}

export interface Fault {
  readonly name: string;
  happen(context: FaultContext): Promise<Readonly<Record<string, unknown>>>;
}

const chosen = <T>(values: readonly T[], random: Random) => values[Math.floor(random() * values.length)] as T;

/** Nodes of the young machine: its primary starts them again, with pauses that grow. */
const kills: Fault = {
  name: "a node killed every two seconds",
  async happen({ stage, killingMs }) {
    const began = performance.now();
    let killed = 0;
    for (; performance.now() - began < killingMs; await delay(KILL_MS)) {
      const [oldest] = await until(() => nodesOf(stage.young).length > 0 && nodesOf(stage.young), {
        ...{ within: WITHIN_MS, what: "a node to kill" },
      });
      process.kill(oldest as number, "SIGKILL");
      killed++;
    }
    return { killed };
  },
};

const failover: Fault = {
  name: "the primary of Postgres killed, the standby promoted",
  happen: ({ stage }) => stage.postgres.failOver(),
};

/**
 * It is full when Postgres says so to a session of ours, and lasts until it has said so to a node, or that takes too long. A checkpoint at that moment
 * can end the server; it is started again when there is room. Some have one.
 */
const diskFull: Fault = {
  name: "the disk of Postgres full",
  async happen({ stage, random }) {
    const server = stage.postgres.primary;
    const { data } = server;
    const checkpoint = random() < CHECKPOINTS;
    const usedMegabytes = data.usedMegabytes;
    let nodesTold = 0;
    const isFull = async () => data.fill() > 0 && ((await codeOfGrowth(stage)) === DISK_FULL || !server.isRunning);
    try {
      await stage.sql`create table if not exists week_filler (value text)`;
      await until(isFull, { within: WITHIN_MS, what: "a full disk" });
      const [full, before] = [performance.now(), server.foundFull];
      const held = () => performance.now() - full;
      // It fails, or the session ends with the server.
      if (checkpoint) await stage.sql`checkpoint`.catch(() => {});
      // What becomes free meanwhile is taken, too.
      for (; held() < HELD_MS || (nodesTold === 0 && held() < MOST_HELD_MS); await delay(HELD_MS / 10)) {
        data.fill();
        nodesTold = server.foundFull - before;
      }
    } finally {
      data.free();
    }
    let revived = 0;
    const hasRoom = async () => {
      if (await server.revive()) revived++;
      return (await codeOfGrowth(stage)) === undefined;
    };
    await until(hasRoom, { within: WITHIN_MS, pause: 200, what: "room again" });
    await stage.sql`truncate week_filler`;
    return { usedMegabytes, nodesTold, checkpoint, revived };
  },
};

/** What Postgres answers to a table that grows. */
async function codeOfGrowth({ sql }: Stage): Promise<string | undefined> {
  const text = "f".repeat(2_000);
  try {
    await sql`insert into week_filler select ${text} || n from generate_series(1, ${FILLER_ROWS}::int) n`;
    return undefined;
  } catch (error) {
    return (error as { readonly code?: string }).code;
  }
}

/** A bystander takes every session that is left, while a node is killed: its successor must wait for one. */
const noSessions: Fault = {
  name: "Postgres out of connections",
  async happen({ stage }) {
    const bystander = new Bystander(stage.postgres.primary);
    try {
      await bystander.takeAll();
      const [oldest] = nodesOf(stage.young);
      if (oldest !== undefined) process.kill(oldest, "SIGKILL");
      // The sessions of the dead node are free when Postgres has noticed: these, too.
      const refused = async () => {
        await bystander.takeAll();
        return bystander.othersRefused > 0;
      };
      await until(refused, { within: WITHIN_MS, pause: 200, what: "a node that gets no session" });
      await delay(HELD_MS);
      return { sessionsTaken: bystander.taken, refusals: bystander.othersRefused };
    } finally {
      await bystander.leave();
    }
  },
};

const redisLost: Fault = {
  name: "Redis flushed, then killed and started again",
  async happen({ stage }) {
    const flushed = await tellRedis(stage.redis.url, "FLUSHALL");
    await stage.redis.kill();
    await delay(HELD_MS);
    await stage.redis.start();
    return { flushed };
  },
};

/** That of a machine, or of both, to anywhere within three days of the database's. */
const clocks: Fault = {
  name: "clocks of the machines stepped",
  async happen({ stage, random }) {
    const stepped = stage.machines.map(({ clock }) => {
      const by = Math.round((random() * 2 - 1) * 3 * DAY_MS);
      clock.set(stage.databaseAheadMs + by);
      return Math.round(by / 1_000);
    });
    await delay(HELD_MS);
    return { secondsAgainstPostgres: stepped };
  },
};

/** It keeps its sessions and connections. The others take its runs over, and it thaws with what it held. */
const frozen: Fault = {
  name: "a node frozen and thawed",
  async happen({ stage, random }) {
    const pid = chosen(stage.machines.flatMap(nodesOf), random);
    const began = performance.now();
    process.kill(pid, "SIGSTOP");
    try {
      const isGone = async () => (await stage.aliveNodes()) < stage.machines.length * NODES;
      await until(isGone, { within: WITHIN_MS, pause: 100, what: "a node that counts as gone" });
      await delay(HELD_MS);
    } finally {
      process.kill(pid, "SIGCONT");
    }
    return { frozenMs: Math.round(performance.now() - began), old: nodesOf(stage.old).includes(pid) };
  },
};

export const FAULTS: readonly Fault[] = [kills, failover, diskFull, noSessions, redisLost, clocks, frozen];

/** All faults in an order of chance, again and again: each has happened once before one happens twice. */
export function* dealt(random: Random): Generator<Fault, never> {
  for (;;) {
    const deck = [...FAULTS];
    while (deck.length > 0) yield deck.splice(Math.floor(random() * deck.length), 1)[0] as Fault;
  }
}
