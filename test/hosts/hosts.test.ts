// Three machines as docs/deploy/hosts sets them up, while servers fail over, hosts are cut off and links break, under load. The laws are those of every
// test of faults: what was acknowledged ends as it should, every history is sound, and no run is unwatched. How long it takes until runs end again is
// printed. Each fault happens twice, or as often as SAGA_TEST_HOST_FAULTS says.
// @module-tag alone
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Client } from "../faults/client.js";
import { Load } from "../faults/load.js";
import { openShop, type Shop } from "../faults/shop.js";
import { Trips } from "../faults/trips.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { LostMoments } from "./lost-moments.js";
import { Machines, missing } from "./machines.js";
import { Progress } from "./progress.js";
import type { Host } from "./rig.js";

const TIMES = Number(process.env.SAGA_TEST_HOST_FAULTS ?? 2);
/** A fault with all that follows from it, until everything is up again. */
const MINUTES_OF_A_FAULT = 5;
/** An order, or a trip between two waits, lasts over a fault: a request that gets no answer takes 40 s of it. */
const PATIENCE_MS = 240_000;
/** Runs that were held up by the last fault. */
const REST_MS = 300_000;
/** A primary that is cut off has a successor before. */
const SILENT_WITHIN_MS = 120_000;
/** While a link is bad, so many runs must end. */
const MEANWHILE = 5;

const lacking = missing();

/** What is done, and undone. The time until a run ends again is measured between the two, from when `begin` returns: the fault is there then. */
interface Fault {
  readonly name: string;
  /** For each time that is asked for. Absent: once. */
  readonly hosts?: number;
  /** It lasts until so many runs have ended one after the other. */
  readonly meanwhile?: number;
  /** It lasts until the nodes of the host count as gone. */
  readonly silences?: true;
  /** Resolves with the hosts that it happens to. */
  begin(machines: Machines, nth: number): Promise<readonly Host[]>;
  end?(machines: Machines, victims: readonly Host[]): Promise<unknown> | undefined;
}

const leaderOf = (machines: Machines) => until(() => machines.leader(), { pause: 200, what: "a primary" });

const FAULTS: readonly Fault[] = [
  {
    name: "the primary of Postgres and its Patroni killed",
    async begin(machines) {
      const leader = await leaderOf(machines);
      await leader.get("patroni").kill();
      expect(await leader.killAll("postgres")).toBeGreaterThan(0);
      return [leader];
    },
    end: async (_, [leader]) => leader?.get("patroni").start(),
  },
  {
    name: "the primary of Postgres moved in order",
    async begin(machines) {
      const leader = await leaderOf(machines);
      const moved = machines.switchover();
      await Promise.race([
        moved,
        until(async () => !(await machines.isPrimary(leader)), { what: "the end of a primary" }),
      ]);
      return [leader];
    },
  },
  {
    name: "the master of Redis killed",
    async begin(machines) {
      const master = await until(() => machines.master(), { pause: 200, what: "a master of Redis" });
      await master.get("redis").kill();
      return [master];
    },
    async end(machines, [old]) {
      // Started before Sentinel has named another one, it would be the master again.
      await until(async () => (await machines.master()) !== undefined, { pause: 200, what: "another master" });
      old?.get("redis").start();
    },
  },
  {
    name: "RabbitMQ killed",
    async begin({ broker }) {
      await broker.get("rabbitmq").kill();
      await broker.killAll("beam", "epmd", "erl", "inet_gethost");
      return [broker];
    },
    end: async (_, [broker]) => broker?.get("rabbitmq").start(),
  },
  {
    name: "a host cut off",
    silences: true,
    async begin(machines, nth) {
      const host = await machines.inTurn(nth);
      host.cut();
      return [host];
    },
    end: async (_, [host]) => host?.mend(),
  },
  {
    name: "a link open in one direction only",
    silences: true,
    async begin(machines, nth) {
      const host = await machines.inTurn(nth);
      // What it sends is lost, or what is sent to it. In six times each role has both.
      await host.drop(nth % 2 === 0 ? "egress" : "ingress");
      return [host];
    },
    end: (_, [host]) => host?.pass(),
  },
  {
    name: "a host without power",
    silences: true,
    async begin(machines, nth) {
      const host = await machines.inTurn(nth);
      await host.powerOff();
      return [host];
    },
    end: (_, [host]) => host?.powerOn(),
  },
  {
    name: "one packet in a hundred lost everywhere",
    meanwhile: 50,
    async begin({ hosts }) {
      for (const host of hosts) await host.drop("ingress", "numgen random mod 100 < 1");
      return hosts;
    },
    async end(_, hosts) {
      for (const host of hosts) await host.pass();
    },
  },
  {
    name: "200 ms from host to host",
    async begin({ hosts }) {
      for (const host of hosts) await host.slow(100);
      return hosts;
    },
    async end(_, hosts) {
      for (const host of hosts) await host.fast();
    },
  },
  {
    name: "one host after the other restarted in order",
    hosts: 3,
    async begin(machines, nth) {
      const host = machines.hosts[nth % machines.hosts.length] as Host;
      // The service first, which hands its runs over. The primary moves before its server stops.
      await host.get("saga").stop();
      if (await machines.isPrimary(host)) await machines.switchover();
      for (const program of host.all) if (program.spec.name !== "saga") await program.stop();
      await host.powerOff();
      return [host];
    },
    end: (_, [host]) => host?.powerOn(),
  },
];

const name = `three machines${lacking.length > 0 ? ` (missing: ${lacking.join(", ")})` : ""}`;

describe.skipIf(lacking.length > 0)(name, () => {
  let machines: Machines;
  let shops: Shop[];
  let client: Client;

  beforeAll(async () => {
    machines = await Machines.start();
    client = new Client(machines.url);
    shops = [await openShop({ grpc: machines.grpc, api: machines.url })];
    await Progress.publish(client);
  }, 300_000);
  afterEach(({ task }) => {
    if (task.result?.state === "fail") console.error(machines.troublesTold().join("\n"));
  });
  afterAll(async () => {
    for (const shop of shops ?? []) await shop.stop();
    await machines?.stop();
  }, 120_000);

  async function happens(fault: Fault, nth: number, progress: Progress): Promise<number> {
    const roles = new Map((await machines.members()).map(({ name, role }) => [name, role]));
    const victims = await fault.begin(machines, nth);
    const began = performance.now();
    const resumedMs = await progress.resumes();
    for (let ended = 0; ended < (fault.meanwhile ?? MEANWHILE); ended++) await progress.resumes();
    for (const host of fault.silences ? victims : [])
      await until(() => machines.isSilent(host), { within: SILENT_WITHIN_MS, pause: 200, what: `${host.name} gone` });
    await fault.end?.(machines, victims);
    await machines.healthy();
    const healthyAfterMs = Math.round(performance.now() - began);
    const at = victims.map((host) => `${host.name} (${roles.get(host.name)})`).join();
    report({ fault: fault.name, nth, at, resumedMs, healthyAfterMs });
    return resumedMs;
  }

  it("are as `saga doctor` wants them", async () => {
    const findings = await machines.doctor();
    const bad = findings.filter(({ state }) => state === "bad");
    expect(bad).toEqual([]);
    const stateOf = (name: string) => findings.find((finding) => finding.name === name)?.state;
    const asked = ["database", "primary", "settings", "sessions", "durability", "redis", "rabbitmq"];
    expect(asked.map(stateOf)).toEqual(asked.map(() => "ok"));
  });

  for (const fault of FAULTS) {
    const times = TIMES * (fault.hosts ?? 1);
    it(
      `bring all that they have acknowledged to its right end: ${fault.name}`,
      async () => {
        const load = new Load([client], shops, PATIENCE_MS);
        const trips = new Trips(client, shops, PATIENCE_MS);
        const progress = new Progress(machines.url);
        await load.begin({ atOnce: 3 });
        await trips.begin(4);
        const resumedMs: number[] = [];
        try {
          for (let nth = 0; nth < times; nth++) {
            await load.more(MEANWHILE);
            resumedMs.push(await happens(fault, nth, progress));
            trips.nextStage();
          }
        } finally {
          await Promise.all([load.end(), trips.end()]);
        }
        const orders = (await load.finish(REST_MS)).length;
        const ended = await trips.finish(machines.database.sql, REST_MS);
        const probes = await progress.finish(client);
        await nothingUnwatched(machines.database.sql);
        report({ fault: fault.name, times, resumedMs, orders, trips: ended, probes });
      },
      (times * MINUTES_OF_A_FAULT + 10) * 60_000,
    );
  }

  it(
    "lose what was acknowledged in the moments that an asynchronous standby lacks, and nothing else",
    async () => {
      await machines.configurePatroni({ synchronous_mode: false });
      try {
        for (let nth = 0; nth < TIMES; nth++) {
          await machines.healthy(false);
          const lost = new LostMoments(machines, client, shops);
          report({ fault: "an asynchronous failover", nth, ...(await lost.happen()) });
          await nothingUnwatched(machines.database.sql);
        }
      } finally {
        await machines.configurePatroni({ synchronous_mode: true });
        await machines.healthy();
      }
    },
    (TIMES * MINUTES_OF_A_FAULT + 10) * 60_000,
  );
});
