// The alert rules and the boards of docs/monitoring, by Prometheus itself: each rule fires when it should, and each query of rules and boards has data, or
// a zero, on the page of a cluster that works.
// @module-tag long
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { BOARDS } from "../docs/boards.js";
import { charge, refused } from "../faults/helping.js";
import { openShop, type Shop } from "../faults/shop.js";
import { credential, workerToken } from "../harness/access.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import { describeWithPrometheus, Prometheus, promtool } from "./prometheus.js";

const RULES = join(packageRoot(), "docs", "monitoring", "alerts.yml");
const RETRY = { max_attempts: 3, initial_backoff_ms: 1 };

/** Each condition in a line of its own, as the file has it: name and expression. */
const ALERTS = [...readFileSync(RULES, "utf8").matchAll(/- alert: (\w+)\n(?:\s*#.*\n)?\s*expr: (.*)\n/g)].map(
  ([, name = "", expr = ""]) => ({ name, expr }),
);

/** What an alert compares: the query without its bound. */
const compared = (expr: string) => expr.replace(/ (?:==|<|>) [\d.]+$/, "");

interface Board {
  readonly title: string;
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

const boardQueries = Object.values(BOARDS as Readonly<Record<string, Board>>).flatMap(({ title: board, panels }) =>
  panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ where: `${board}, ${title}`, expr }))),
);

/** As Grafana fills it in, with all workflows and services. */
const filledIn = (expr: string) => expr.replaceAll("$__rate_interval", "1m").replaceAll(/\$(workflow|service)/g, ".*");

describeWithPrometheus("the alert rules", () => {
  it("are rules, and each fires in its case and not in a cluster that is well", () => {
    expect(promtool("check", "rules", RULES)).toContain(`${ALERTS.length} rules found`);
    expect(promtool("test", "rules", join(packageRoot(), "test", "monitoring", "alerts.test.yml"))).toContain(
      "SUCCESS",
    );
  });

  it("are all tried", () => {
    const tried = readFileSync(join(packageRoot(), "test", "monitoring", "alerts.test.yml"), "utf8");
    const untried = ALERTS.filter(({ name }) => !new RegExp(`alertname="${name}"`).test(tried));
    expect(untried.map(({ name }) => name)).toEqual([]);
  });
});

/** They have no value here, and docs/operations.md says so. */
const WITHOUT_VALUE = new Set(["SagaCertificateExpires"]);

describeWithPrometheus("on the page of a cluster that works", () => {
  let database: TestDatabase;
  let service: ServiceProcess;
  let shop: Shop;
  let prometheus: Prometheus;
  /** Takes whatever comes. */
  let collector: Server;

  beforeAll(async () => {
    database = await createTestDatabase({ max: 2 });
    collector = createServer((_, answer) => answer.end()).listen(0, "127.0.0.1");
    await once(collector, "listening");
    const { port } = collector.address() as AddressInfo;
    const traced = { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` };
    service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2", ...traced });
    await service.start();
    shop = await openShop({ grpc: service.grpcAddress, api: service.url });
    const works = [charge("pay", { next: "ship" }), charge("ship", { action: "shop.flaky", retry: RETRY })];
    const breaks = [charge("pay", { compensation: { action: "shop.refuse" }, next: "no" }), refused];
    await publish("works", works);
    await publish("breaks", breaks);
    prometheus = await Prometheus.start({ target: new URL(`${service.url}/metrics`), rules: RULES, ...workerToken() });
  });
  afterAll(async () => {
    await prometheus?.stop();
    await shop?.stop();
    await service?.kill();
    collector?.close();
    await database.drop();
  });

  async function post(path: string, body: object): Promise<{ readonly run_id: string }> {
    const headers = { ...credential(), "content-type": "application/json" };
    const answer = await fetch(`${service.url}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as { readonly run_id: string };
  }

  const publish = (id: string, steps: readonly Step[]) =>
    post("/workflows", { ...{ id, name: id, version: 1, published: true }, start: steps[0]?.id, steps });

  it("each rule and each panel has data, or a zero", async () => {
    expect(boardQueries.length).toBeGreaterThan(40);
    const asked = [
      ...ALERTS.filter(({ name }) => !WITHOUT_VALUE.has(name)).map(({ name, expr }) => ({
        where: name,
        expr: compared(expr),
      })),
      ...boardQueries.map(({ where, expr }) => ({ where, expr: filledIn(expr) })),
    ];
    let missing = asked;
    // A rate needs two scrapes between which something has happened.
    await until(
      async () => {
        for (const workflow_id of ["works", "breaks"]) await post("/sagas/start?wait_ms=10000", { workflow_id });
        const answers = await Promise.all(missing.map(({ expr }) => prometheus.query(expr)));
        missing = missing.filter((_, nth) => answers[nth]?.length === 0);
        if (missing.length === 0) return true;
        throw new Error(missing.map(({ where, expr }) => `${where}: ${expr}`).join("\n"));
      },
      { within: 180_000, pause: 500 },
    );
  });

  it.each(["saga_run_seconds_bucket", "saga_attempt_seconds_bucket", "saga_schedule_to_start_seconds_bucket"])(
    "%s leads to the trace of a run that it counts",
    async (series) => {
      const traces = new Set<string>();
      const found = async () => {
        const { run_id } = await post("/sagas/start?wait_ms=10000", { workflow_id: "works" });
        traces.add(run_id.replaceAll("-", ""));
        const exemplars = await prometheus.exemplars(series);
        return exemplars.some(({ trace_id = "" }) => traces.has(trace_id));
      };
      expect(await until(found, { pause: 500 })).toBe(true);
    },
  );

  it("each rule is evaluated, and none but those of the runs that failed fires", async () => {
    const rules = await until(async () => {
      const all = await prometheus.rules();
      return all.every(({ health }) => health !== "unknown") && all;
    });
    expect(rules).toHaveLength(ALERTS.length);
    expect(rules.filter(({ health }) => health !== "ok")).toEqual([]);
    const firing = await prometheus.query('ALERTS{alertstate="firing"}');
    const names = new Set(firing.map(({ metric }) => metric.alertname));
    expect([...names].filter((name) => !["SagaUndoFailed", "SagaReviewsRise"].includes(name ?? ""))).toEqual([]);
  });
});
