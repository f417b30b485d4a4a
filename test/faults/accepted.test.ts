// A worker that has accepted a dispatch holds it, whatever happens to the nodes: over HTTP and RabbitMQ, with nodes killed, added and replaced.
// The workers' own books say how often each dispatch came, and which hand-over was cut: its connection closed before the worker responded.
// @module-tag long
// @access both
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "amqplib";
import { expect, it } from "vitest";
import { MAY_COME_TWICE } from "../../src/dispatch/push/recovered.js";
import { uuidv7 } from "../../src/ids.js";
import { startEmbeddedPostgres } from "../../src/store/embedded/postgres.js";
import { type Database, openDatabase } from "../../src/store/engine/connection.js";
import { type LogLine, livingNodes, logged } from "../cluster/rig.js";
import { reportHeaders } from "../dispatch/carriers-rig.js";
import { putKeysBack } from "../harness/access.js";
import { silentLog } from "../harness/database.js";
import { brokerSettings, ownQueue } from "../harness/rabbitmq.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { nothingUnwatched, report } from "../run/seen.js";
import { Client, PAUSE_MS } from "./client.js";

/** Half of them over HTTP. */
const DISPATCHES = 300;
/** Hand-overs that are under way when their node is killed. */
const CUT = 30;
/** The work of a step: nodes are killed, replaced and added meanwhile. */
const WORKS_MS = 20_000;
/** A worker takes so long to accept, so that nodes come and go while dispatches are handed over. */
const RESPONDS_MS = 200;
const WITHIN_MS = 90_000;

interface Step {
  readonly dispatch_id: string;
  readonly callback_url: string;
  readonly callback_token?: string;
}

/** A worker that accepts at once or when it is told to, and answers when it is told to. */
class Ledger {
  /** Each time that a dispatch came, and whether the service could know that it was accepted. */
  readonly came = new Map<string, ("accepted" | "cut")[]>();
  /** When each came and from where, for the message of a failure. */
  readonly arrivals: (readonly [id: string, how: "accepted" | "cut", atMs: number, from: string])[] = [];
  readonly steps = new Map<string, Step>();
  private answering = false;

  constructor(private readonly answer: (step: Step) => Promise<void>) {}

  note(step: Step, how: "accepted" | "cut"): void {
    this.came.set(step.dispatch_id, [...(this.came.get(step.dispatch_id) ?? []), how]);
    this.arrivals.push([step.dispatch_id, how, Date.now(), new URL(step.callback_url).host]);
    if (how === "cut" || this.steps.has(step.dispatch_id)) return;
    this.steps.set(step.dispatch_id, step);
    if (this.answering) void this.answer(step);
  }

  answerAll(): void {
    this.answering = true;
    for (const step of this.steps.values()) void this.answer(step);
  }

  count(how: "accepted" | "cut"): number {
    return [...this.came.values()].flat().filter((each) => each === how).length;
  }

  /** The arrivals of each dispatch that came again although its hand-over was not cut. */
  get repeated() {
    const ids = [...this.came].filter(([, all]) => all.filter((how) => how === "accepted").length > 1);
    return ids.map(([id]) => this.arrivals.filter(([of]) => of === id));
  }
}

class HttpWorker {
  /** Responses that are held back. */
  readonly held = new Set<ServerResponse>();
  holding = false;
  private readonly server: Server;

  constructor(private readonly ledger: Ledger) {
    this.server = createServer((request, response) => void this.take(request, response));
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/steps`;
  }

  private async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const step = JSON.parse(Buffer.concat(chunks).toString()) as Step;
    response.once("close", () => {
      this.held.delete(response);
      this.ledger.note(step, response.writableEnded ? "accepted" : "cut");
    });
    if (this.holding) this.held.add(response);
    else setTimeout(() => response.writeHead(202).end(), RESPONDS_MS);
  }

  letGo(): void {
    this.holding = false;
    for (const response of this.held) response.writeHead(202).end();
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Outbox rows of dispatches: those that no worker is known to have accepted. */
async function owed({ sql }: Database): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from outbox where kind = 'action'`;
  return row?.count ?? 0;
}

async function restart(service: ServiceProcess): Promise<void> {
  const before = logged(service, "all nodes replaced").length;
  process.kill(service.pid, "SIGHUP");
  await until(() => logged(service, "all nodes replaced").length > before, { within: WITHIN_MS, what: "new nodes" });
}

describeWithRedis("accepted dispatches", (redis) => {
  describeWithRabbitMq("over HTTP and RabbitMQ", (amqp) => {
    it("come once each with nodes killed, added and replaced, unless their hand-over was cut or a node says that it is unsure", {
      timeout: 600_000,
    }, async () => {
      // A server of its own: five nodes at once need most of the sessions that a Postgres has.
      const dataDir = await mkdtemp(join(tmpdir(), "saga-accepted-"));
      const postgres = await startEmbeddedPostgres({ dataDir, log: silentLog });
      const database = openDatabase(postgres.url, { max: 2, applicationName: "saga-test", log: silentLog });
      const env = {
        ...{ DATABASE_URL: postgres.url, REDIS_URL: redis, REDIS_PREFIX: `test:${uuidv7()}:` },
        ...brokerSettings(amqp),
      };
      const [service, added] = [
        await createService({ ...env, SAGA_WORKERS: "3" }),
        await createService({ ...env, SAGA_WORKERS: "1" }),
      ];
      await service.start();
      await putKeysBack(database.sql);
      await until(() => livingNodes(service).length === 3);
      const client = new Client(service.url);
      // The service that a dispatch came from may be gone.
      const answer = async (step: Step) => {
        const { pathname, search } = new URL(step.callback_url);
        const report = { method: "POST", headers: reportHeaders(step), body: JSON.stringify({ result: { ok: true } }) };
        await delay(WORKS_MS);
        await until(async () => (await fetch(service.url + pathname + search, report)).status === 202, {
          ...{ within: WITHIN_MS, pause: PAUSE_MS, what: "the acceptance of an answer" },
        });
      };
      const [overHttp, overRabbitMq] = [new Ledger(answer), new Ledger(answer)];
      const worker = new HttpWorker(overHttp);
      const broker = await connect(amqp);
      const channel = await broker.createChannel();
      const queue = ownQueue("far");
      await channel.assertQueue(queue);
      await channel.consume(
        queue,
        (message) => message && overRabbitMq.note(JSON.parse(message.content.toString()) as Step, "accepted"),
        { noAck: true },
      );
      const actions = [
        { action_name: "http", transport: "http", address: await worker.listen(), compensable: true },
        { action_name: "rmq", transport: "rmq", address: queue },
      ];
      expect((await client.insist("POST", "/registry/register", { service: "far", actions })).status).toBe(200);
      for (const name of ["http", "rmq"])
        await client.publish(name, [{ id: "work", type: "action", action: `far.${name}`, timeout_ms: 600_000 }]);
      const runs: string[] = [];
      const start = async (count: number, names = ["http", "rmq"]) => {
        for (let nth = 0; nth < count; nth++) runs.push(await client.start(names[nth % names.length] ?? "http"));
      };
      /** On return its primary has seen it die, so its connections are closed, and what was cut is in the books. */
      const kill = async () => {
        const deaths = () => logged(service, "node died, starting another").length;
        const before = deaths();
        process.kill(livingNodes(service)[0]?.pid ?? 0, "SIGKILL");
        await until(() => deaths() > before, { within: WITHIN_MS, what: "the death of a node" });
      };
      const threeNodes = () =>
        until(() => livingNodes(service).length === 3, { within: WITHIN_MS, what: "three nodes" });

      // A node joins while hand-overs are under way, and leaves again.
      const half = (DISPATCHES - CUT) / 2;
      await Promise.all([start(half), added.start()]);
      await Promise.all([start(DISPATCHES - CUT - half), added.stop()]);
      await until(async () => (await owed(database)) === 0, { within: WITHIN_MS, what: "the acceptances" });

      // Nodes are killed with hand-overs under way, and with nothing else of which they alone know.
      worker.holding = true;
      await start(CUT, ["http"]);
      await until(() => worker.held.size === CUT, { within: WITHIN_MS, what: "hand-overs under way" });
      while (overHttp.count("cut") === 0) {
        await kill();
        await threeNodes();
      }
      worker.letGo();
      await until(() => overHttp.steps.size + overRabbitMq.steps.size === DISPATCHES, {
        ...{ within: WITHIN_MS, what: "all dispatches" },
      });
      await until(async () => (await owed(database)) === 0, { within: WITHIN_MS, what: "the acceptances" });

      // While the workers work: nodes are killed, replaced and added.
      overHttp.answerAll();
      overRabbitMq.answerAll();
      await kill();
      await threeNodes();
      await Promise.all([restart(service), added.start()]);
      await added.stop();
      const ended = async () => {
        const [row] = await database.sql<
          { count: number }[]
        >`select count(*)::int as count from runs where state = 'succeeded'`;
        return row?.count === DISPATCHES;
      };
      await until(ended, { within: WITHIN_MS, pause: 100, what: "the end of all runs" });
      const cut = overHttp.count("cut");
      report({
        dispatches: DISPATCHES,
        posts: overHttp.count("accepted") + cut,
        cut,
        messages: overRabbitMq.count("accepted"),
      });
      const repeated = [...overHttp.repeated, ...overRabbitMq.repeated];
      const unsure = [service, added].flatMap((each) => logged(each, MAY_COME_TWICE));
      expect(repeated.length, JSON.stringify(repeated)).toBeLessThanOrEqual(
        unsure.reduce((sum, line) => sum + Number((line as LogLine & { dispatches: number }).dispatches), 0),
      );
      expect(cut).toBeGreaterThan(0);
      await nothingUnwatched(database.sql);

      await worker.close();
      await broker.close();
      await service.stop();
      await database.close();
      await postgres.stop();
      await rm(dataDir, { recursive: true, force: true });
    });
  });
});
