// A cluster in one process: whole cores of nodes on one simulated Postgres, with their bus, their workers and their clients, in a world that repeats from
// its seed. What goes wrong is drawn from the seed, too; afterwards all is well again, and everything must end.
import { Duplex } from "node:stream";
import type { Sql } from "postgres";
import { asRunId, type RunId } from "../../machines/index.js";
import { type Core, createCore } from "../../src/cluster/core.js";
import type { Surroundings } from "../../src/cluster/foundations.js";
import { loadConfig } from "../../src/config/index.js";
import { SagaError } from "../../src/errors.js";
import { isStoreAway } from "../../src/store/engine/failure.js";
import { silentLog } from "../harness/database.js";
import { Ledger, SimulatedWorker } from "./workers/stream-worker.js";
import { SimulatedBroker } from "./world/broker.js";
import { connectorOf } from "./world/broker-connection.js";
import { SimulatedBus } from "./world/bus.js";
import { SIGNING_SECRET, SimulatedHosts } from "./world/hosts.js";
import type { Refusal, SimulatedPostgres } from "./world/postgres.js";
import { type Busy, type Chance, chanceOf, type Life, World } from "./world/world.js";

/** No node connects to it: the way to the store is the world's. */
export const STORE_URL = "postgres://saga@store.invalid/saga";

const ENVIRONMENT = {
  ...{ DATABASE_URL: STORE_URL, LOG_LEVEL: "silent", SAGA_CONSOLE: "off" },
  ...{ AMQP_URL: "amqp://broker.invalid", SAGA_SIGNING_SECRET: SIGNING_SECRET },
};

/** A machine on which a node lives, one life after the other. */
export interface Home {
  readonly name: string;
  life: Life | undefined;
  /** Absent: it is down, or starting. */
  core: Core | undefined;
  lives: number;
}

const QUIET = { shedRuns: 1_000_000, shedLoopMs: 1_000_000, shedHeapPercent: 10_000 };
/** What a supervisor waits for before it starts a node again. */
const RESTART_MS = 500;
/** How long a client waits for an answer, before it asks again elsewhere. */
const CLIENT_MS = 10_000;

/** Of each stream: with little, steps wait for one another, and none may be handed out too many. */
const CREDITS = [1, 2, 4, 8];

export class Cluster {
  readonly world: World;
  readonly bus: SimulatedBus;
  readonly hosts: SimulatedHosts;
  readonly broker: SimulatedBroker;
  readonly homes: readonly Home[];
  readonly ledger = new Ledger();
  readonly workers: readonly SimulatedWorker[];
  /** How often the store has forgotten its last commits. */
  losses = 0;
  /** What the store does for no node now. */
  refusal: Refusal | undefined;
  /** What has happened, for people. */
  readonly story: string[] = [];
  private readonly chance: Chance;

  constructor(
    readonly seed: number,
    readonly postgres: SimulatedPostgres,
    { nodes, workers }: { readonly nodes: number; readonly workers: number },
  ) {
    this.world = new World(seed, (life) => this.wire(life));
    this.chance = chanceOf(`${seed} cluster`);
    this.bus = new SimulatedBus(this.world, chanceOf(`${seed} bus`));
    this.hosts = new SimulatedHosts(this.world, chanceOf(`${seed} hosts`));
    this.broker = new SimulatedBroker(this.world, chanceOf(`${seed} broker`));
    this.homes = Array.from({ length: nodes }, (_, nth) => newHome(`n${nth + 1}`));
    const maxInFlight = CREDITS[Math.floor(chanceOf(`${seed} credit`)() * CREDITS.length)] ?? 1;
    this.workers = Array.from({ length: workers }, (_, nth) => {
      const name = `w${nth + 1}`;
      return new SimulatedWorker({
        ...{ name, service: "shop", maxInFlight, world: this.world, ledger: this.ledger },
        chance: chanceOf(`${seed} ${name}`),
        nodes: () => this.reachable.map(({ life, core }) => ({ life, dispatcher: core.dispatcher })),
      });
    });
  }

  get busy(): Busy {
    return this.postgres;
  }

  tell(line: string): void {
    this.story.push(`${(this.world.now / 1_000).toFixed(3)} s: ${line}`);
  }

  /** Nodes that are up and answer. */
  get reachable(): { readonly home: Home; readonly life: Life; readonly core: Core }[] {
    return this.homes.flatMap((home) => {
      const { life, core } = home;
      return life?.isAlive && !life.isFrozen && core ? [{ home, life, core }] : [];
    });
  }

  async pass(ms: number): Promise<void> {
    await this.world.run(this.world.now + ms, () => false, this.busy);
  }

  /** Lets time pass until the promise has settled. Throws what it is rejected with, and where the time is over. */
  async during<Value>(promise: Promise<Value>, withinMs: number): Promise<Value> {
    let settled: { readonly value: Value } | { readonly error: unknown } | undefined;
    promise.then(
      (value) => {
        settled = { value };
      },
      (error: unknown) => {
        settled = { error };
      },
    );
    const until = this.world.now + withinMs;
    await this.world.run(until, () => settled !== undefined, this.busy);
    if (!settled) throw new Error(`still waiting after ${withinMs} ms`);
    if ("error" in settled) throw settled.error;
    return settled.value;
  }

  /** No node holds anything. */
  get isIdle(): boolean {
    return this.reachable.every(({ core: { dispatcher, runtime } }) => {
      return dispatcher.inFlight === 0 && dispatcher.queued === 0 && runtime.residents.busy === 0;
    });
  }

  /** Brings a node up. One that cannot start is started again, as by a supervisor. */
  start(home: Home): void {
    const life: Life = { name: `${home.name}/${++home.lives}`, isAlive: true, isFrozen: false, missed: [], skewMs: 0 };
    home.life = life;
    this.tell(`${life.name} starts`);
    const { config } = loadConfig(ENVIRONMENT);
    const surroundings: Surroundings = {
      openBus: (options) => this.bus.open(life, options),
      trialProcess: EVERY_SUSPECT_LIVES,
      dial: this.hosts.dialOf(life),
      connectBroker: connectorOf(this.broker, life),
    };
    const capacity = { ...config.capacity, ...QUIET };
    const begun = this.world.as(life, async () => {
      const settings = { ...config, capacity };
      const core = await createCore({ config: settings, databaseUrl: STORE_URL, log: silentLog, surroundings });
      core.listening(8080);
      await core.start();
      if (life.isAlive) home.core = core;
    });
    begun.catch((error: unknown) => {
      if (!life.isAlive) return;
      this.tell(`${life.name} does not start: ${error}`);
      this.end(home);
      this.world.later(RESTART_MS, () => this.start(home), null);
    });
  }

  /** Nothing that it has begun goes on. */
  crash(home: Home): void {
    const { life } = home;
    if (!life?.isAlive) return;
    this.tell(`${life.name} crashes`);
    this.end(home);
  }

  /** Ends as on SIGTERM. */
  async stop(home: Home): Promise<void> {
    const { life, core } = home;
    if (!life?.isAlive || !core) return;
    this.tell(`${life.name} stops`);
    home.core = undefined;
    await this.world.as(life, async () => {
      await core.drain();
      await core.dispatcher.stop(1_000);
      await core.stop();
    });
    if (home.life === life) this.end(home);
  }

  private end(home: Home): void {
    const { life } = home;
    if (!life) return;
    life.isAlive = false;
    home.core = undefined;
    this.postgres.cutAll(life.name);
    this.broker.sweep();
  }

  /** What happens to what nodes, and the operator, send to the store. */
  fate(fate: SimulatedPostgres["fate"]): void {
    this.postgres.fate = fate;
  }

  /** The server is gone, with all sessions and what they had not committed. */
  cutAll(): void {
    for (const { life } of this.homes) if (life) this.postgres.cutAll(life.name);
  }

  /** All of its sessions end. */
  cut({ name }: Life): void {
    this.tell(`the sessions of ${name} are cut`);
    this.postgres.cutAll(name);
  }

  /** Asks a node that is up. Undefined: there was no answer in time. */
  async ask<Value>(act: (core: Core) => Promise<Value>): Promise<Answered<Value> | undefined> {
    const nodes = this.reachable;
    const node = nodes[Math.floor(this.chance() * nodes.length)];
    if (!node) {
      await this.sleep(100);
      return undefined;
    }
    return new Promise((resolve) => {
      this.world.later(CLIENT_MS, () => resolve(undefined), null);
      this.world
        .as(node.life, () => act(node.core))
        .then(
          (value) => resolve({ value }),
          (error: unknown) => resolve({ error }),
        );
    });
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.world.later(ms, resolve, null));
  }

  /** A node's way to the store. */
  private wire(life: Life): Duplex {
    return new Wire(this.postgres.connect(life.name), (happen) => void this.world.later(0, happen, life));
  }
}

/** The end of a session that a driver gets: what it hears belongs to the life of its node. Otherwise it is as a socket of Node. */
class Wire extends Duplex {
  constructor(
    private readonly inner: Duplex,
    heard: (happen: () => void) => void,
  ) {
    super({ emitClose: false, autoDestroy: false });
    this.on("error", () => {});
    inner.on("data", (chunk: Buffer) => heard(() => this.destroyed || this.push(chunk)));
    inner.on("error", (error: Error) => heard(() => this.destroyed || this.emit("error", error)));
    inner.on("close", (hadError: boolean) =>
      heard(() => {
        this.destroy();
        this.emit("close", hadError);
      }),
    );
  }

  get readyState(): string {
    if (this.destroyed) return "closed";
    return this.writableEnded ? "readOnly" : "open";
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.inner.write(chunk);
    done();
  }

  override _final(done: () => void): void {
    this.inner.end();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.inner.destroy();
    done(error);
  }
}

export type Answered<Value> = { readonly value: Value } | { readonly error: unknown };

const newHome = (name: string): Home => ({ name, life: undefined, core: undefined, lives: 0 });

/** No process of its own dies here. */
const EVERY_SUSPECT_LIVES = {
  isRunning: true,
  try: async (suspects: readonly unknown[]) => ({
    outcomes: new Map(suspects.map((_, nth) => [nth, "lived" as const])),
  }),
  end: async () => {},
};

/** The ids of runs whose state the store has as one of these. */
export async function unended(sql: Sql): Promise<RunId[]> {
  const rows = await sql<{ id: string }[]>`select id from runs where terminal_at is null order by id`;
  return rows.map(({ id }) => asRunId(id));
}

/** What the API answers with 503. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof SagaError ? error.status === 503 : isStoreAway(error);
