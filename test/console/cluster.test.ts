// The page of the cluster in a real browser, against a real service of two nodes; and its reading of metrics, alone. Placement is tested with its room.
// @module-tag both
import { beforeAll, describe, expect, it } from "vitest";
import { type History, MAX_POINTS, seen } from "../../src/console/cluster/history.js";
import { distribution, parseMetrics, rate, total } from "../../src/console/cluster/metrics.js";
import { describeWithBrowser, openPage } from "../harness/browser.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { call } from "./runs-service.js";

const PAGE = `# HELP saga_transitions_total Transitions of runs that became durable.
# TYPE saga_transitions_total counter
saga_transitions_total 100
saga_destinations_away{transport="rmq",reason="no_queue"} 2
saga_destinations_away{transport="http",reason="say \\"busy\\""} 1
saga_commit_seconds_bucket{le="0.005"} 6
saga_commit_seconds_bucket{le="0.05"} 9
saga_commit_seconds_bucket{le="+Inf"} 10
saga_commit_seconds_sum 0.4
saga_commit_seconds_count 10
process_cpu_seconds_total 12.5
`;

const reading = (at: number, text: string) => ({ at, metrics: parseMetrics(text) });

describe("a page of metrics", () => {
  it("is read with its labels; what is not of the service is left out", () => {
    const metrics = parseMetrics(PAGE);
    expect(total(metrics, "saga_transitions_total")).toBe(100);
    expect(total(metrics, "saga_destinations_away")).toBe(3);
    expect(metrics.get("saga_destinations_away")?.[1]?.labels).toEqual({ transport: "http", reason: 'say "busy"' });
    expect(metrics.has("process_cpu_seconds_total")).toBe(false);
    expect(total(metrics, "saga_unknown")).toBeUndefined();
  });

  it("gives a rate with the one before, and none over a restart, where counters begin again", () => {
    const [before, after] = [reading(1_000, "saga_x_total 10"), reading(3_000, "saga_x_total 30")];
    expect(rate(before, after, "saga_x_total")).toBe(10);
    expect(rate(after, reading(5_000, "saga_x_total 4"), "saga_x_total")).toBeUndefined();
    expect(rate(before, before, "saga_x_total")).toBeUndefined();
  });

  it("gives the mean and the 99th percentile of what happened in between alone", () => {
    const before = reading(0, PAGE);
    const later = `saga_commit_seconds_bucket{le="0.005"} 106
saga_commit_seconds_bucket{le="0.05"} 109
saga_commit_seconds_bucket{le="+Inf"} 110
saga_commit_seconds_sum 0.6
saga_commit_seconds_count 110`;
    const between = distribution(before, reading(2_000, later), "saga_commit_seconds");
    expect(between).toMatchObject({ count: 100, p99: 0.005 });
    expect(between?.mean).toBeCloseTo(0.002);
    expect(distribution(before, before, "saga_commit_seconds")).toBeUndefined();
  });
});

describe("what the page has seen", () => {
  it("is a point for each further reading, and forgets the oldest", () => {
    let history: History = { points: [] };
    for (let n = 0; n <= MAX_POINTS + 5; n++)
      history = seen(history, reading(n * 2_000, `saga_commits_total ${n * 4}`));
    expect(history.points).toHaveLength(MAX_POINTS);
    expect(history.points.at(-1)).toMatchObject({ at: (MAX_POINTS + 5) * 2, commits: 2 });
    expect(history.points.at(-1)?.commitMs).toBeUndefined();
  });

  it("is the same after the same reading", () => {
    const history = seen({ points: [] }, reading(0, PAGE));
    expect(seen(history, reading(0, PAGE))).toBe(history);
  });
});

describeWithBrowser("the page of the cluster", { tags: "long" }, () => {
  let service: ServiceProcess;
  let database: TestDatabase;

  beforeAll(async () => {
    database = await createTestDatabase();
    atFileEnd(() => database.drop());
    service = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "2" })).start();
  });

  it("shows the nodes, all shards owned, the backlog, and how the service commits while the page is open", async () => {
    const { page, faults } = await openPage(service.url, "/console/cluster");
    const nodes = page.getByRole("region", { name: "Nodes" });
    await nodes.getByText("2 nodes are alive. They own 256 of 256 shards.").waitFor();
    expect(await nodes.locator("tbody tr").count()).toBe(2);
    const backlog = page.getByRole("region", { name: "Backlog" });
    await backlog.getByText("runs to wake").waitFor();
    await call(service, "POST", "/registry/register", { service: "shop", actions: [{ action_name: "pack" }] });
    const steps = [{ id: "pack", type: "action", action: "shop.pack" }];
    await call(service, "POST", "/workflows", { id: "packs", name: "Packs", start: "pack", steps, published: true });
    await call(service, "POST", "/sagas/start", { workflow_id: "packs" });
    await backlog.getByText("1 call that waits for a worker").waitFor();
    const live = page.getByRole("region", { name: "Commits" });
    await live.getByText("Transitions a second").waitFor();
    await live.locator(".plot canvas").nth(2).waitFor();
    expect(faults).toEqual([]);
  });

  it("names each node by host, process and id, as the lines of its log do", async () => {
    const { page } = await openPage(service.url, "/console/cluster");
    await page.locator("tbody tr").nth(1).waitFor();
    const shown = await page.locator("tbody tr > td:first-child").allInnerTexts();
    const logged = service.log.flatMap((line) => {
      const { hostname, pid, nodeId, msg } = JSON.parse(line) as Record<string, unknown>;
      return msg === "gRPC server listening" ? `${hostname} process ${pid}\n${nodeId}` : [];
    });
    expect(logged).toHaveLength(2);
    expect(shown.map((text) => text.replaceAll("\u00a0", " ")).sort()).toEqual(logged.sort());
  });

  it("shows a node that was killed with its service as gone, and no more after ten minutes", async () => {
    const { page } = await openPage(service.url, "/console/cluster");
    const rows = page.getByRole("region", { name: "Nodes" }).locator("tbody tr");
    const nodes = async () => {
      const body = await (await fetch(`${service.url}/api/v1/cluster`)).json();
      return (body as { nodes: { node_id: string; alive: boolean }[] }).nodes;
    };
    const before = new Set((await nodes()).map(({ node_id }) => node_id));
    const other = await (await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" })).start();
    const id = (await nodes()).find(({ node_id }) => !before.has(node_id))?.node_id ?? "";
    const row = rows.filter({ hasText: id });
    await row.getByText("alive").waitFor();
    await other.kill();
    await row.getByText("gone").waitFor();
    // Its clock is the database's.
    const silentFor = (seconds: number) => database.sql`
      update nodes set heartbeat_at = now() - make_interval(secs => ${seconds}) where node_id = ${id}`;
    await silentFor(590);
    expect((await nodes()).find(({ node_id }) => node_id === id)?.alive).toBe(false);
    await silentFor(600);
    expect(new Set((await nodes()).map(({ node_id }) => node_id))).toEqual(before);
    await until(async () => (await row.count()) === 0 && (await rows.count()) === 2, {
      what: "a page without the node",
    });
  });
});
