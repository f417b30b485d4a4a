// The log's lines and where they go, and the metrics' registry: instances do not share anything.

// The log's lines and where they go, and the metrics' registry: instances do not share anything.
import fs, { existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLogger } from "../src/log.js";
import { LogOutput, type Write } from "../src/log-output.js";
import { createMetrics } from "../src/metrics.js";

function logged(work: (log: ReturnType<typeof createLogger>) => void, logLevel = "info"): Record<string, unknown>[] {
  const lines: string[] = [];
  work(createLogger({ logLevel }, { write: (line) => void lines.push(line) }));
  return lines.map((line) => JSON.parse(line));
}

describe("log", () => {
  it("writes JSON lines with level names and RFC 3339 times", () => {
    const [line] = logged((log) => log.child({ node: "n1" }).warn({ run: "r" }, "slow"));
    expect(line).toMatchObject({ level: "warn", node: "n1", run: "r", msg: "slow" });
    expect(line?.time).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  });

  it("keeps to its level", () => {
    expect(logged((log) => log.info("no"), "warn")).toEqual([]);
  });

  it("hides credentials, also one level down and in headers", () => {
    const secrets = {
      token: "hunter2",
      hello: { token: "hunter2" },
      headers: { authorization: "Bearer hunter2" },
      req: { headers: { authorization: "Bearer hunter2", cookie: "hunter2" } },
    };
    const lines = logged((log) => log.info(secrets, "hello"));
    expect(JSON.stringify(lines)).not.toContain("hunter2");
    expect(lines).toHaveLength(1);
  });
});

describe("where the log goes", () => {
  let path: string;
  beforeEach(() => {
    path = join(fs.mkdtempSync(join(process.env.TMPDIR ?? "/tmp", "saga-log-")), "log");
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
  const lines = () => readFileSync(path, "utf8").split("\n").filter(Boolean);
  /** A disk with room for so many bytes, on which writes end as they do on a real one. */
  const disk = (state: { room: number }): Write => {
    return (fd, bytes, done) => {
      if (state.room === 0) return void setImmediate(done, Object.assign(new Error("no space"), { code: "ENOSPC" }), 0);
      const part = bytes.subarray(0, Math.min(bytes.length, state.room));
      state.room -= part.length;
      fs.write(fd, part, done);
    };
  };

  it("every line arrives, whole and in order", async () => {
    const output = new LogOutput(openSync(path, "w"));
    const all = Array.from({ length: 500 }, (_, nth) => `line ${nth} é😀`);
    for (const line of all) output.write(`${line}\n`);
    await vi.waitFor(() => expect(lines()).toEqual(all));
    expect(output.lost).toBe(0);
  });

  it("lines that a full disk does not take are lost and counted, and the next line says so", async () => {
    const state = { room: 25 };
    const output = new LogOutput(openSync(path, "w"), disk(state));
    const told: number[] = [];
    output.onRecovery = (lost) => {
      told.push(lost);
      output.write(`lost ${lost}\n`);
    };
    output.write("0123456789\n");
    await vi.waitFor(() => expect(lines()).toEqual(["0123456789"]));
    output.write("abcdefghij\n");
    output.write("klmnopqrst\n");
    await vi.waitFor(() => expect(output.lost).toBe(1));
    state.room = 1_000;
    await vi.advanceTimersByTimeAsync(500);
    output.write("uvwxyz\n");
    await vi.waitFor(() => expect(lines()).toEqual(["0123456789", "abcdefghij", "klm", "uvwxyz", "lost 1"]));
    expect(told).toEqual([1]);
  });

  it("what waits for a stalled reader is bounded", async () => {
    const output = new LogOutput(1, () => {});
    for (let nth = 0; nth < 3_000; nth++) output.write(`${"x".repeat(1_000)}\n`);
    expect(output.lost).toBeGreaterThan(1_900);
    expect(output.lost).toBeLessThan(2_000);
  });

  it("a reader that is slow for a while gets every line", async () => {
    let busy = 3;
    const slow: Write = (fd, bytes, done) => {
      if (busy-- > 0) return void setImmediate(done, Object.assign(new Error("again"), { code: "EAGAIN" }), 0);
      fs.write(fd, bytes, done);
    };
    writeFileSync(path, "");
    const output = new LogOutput(openSync(path, "a"), slow);
    output.write("one\n");
    output.write("two\n");
    await vi.waitFor(async () => {
      await vi.advanceTimersByTimeAsync(500);
      expect(lines()).toEqual(["one", "two"]);
    });
    expect(output.lost).toBe(0);
  });

  it("what waits is written when the process ends", () => {
    const output = new LogOutput(openSync(path, "w"), () => {});
    for (const line of ["in the write that never ends", "one", "two"]) output.write(`${line}\n`);
    output.flushNow();
    expect(lines()).toEqual(["one", "two"]);
  });

  it.runIf(existsSync("/dev/full"))("a device that is full costs lines and nothing else", async () => {
    const output = new LogOutput(openSync("/dev/full", "w"));
    output.write("one\n");
    await vi.waitFor(() => expect(output.lost).toBe(1));
    output.write("two\n");
    output.flushNow();
  });
});

describe("metrics", () => {
  it("each instance has its own counters, under the public names", async () => {
    const [one, other] = [createMetrics(), createMetrics()];
    one.transitions.inc(3);
    one.httpSeconds.observe({ method: "GET", route: "/x", status: "200" }, 0.1);
    expect(await one.registry.getSingleMetricAsString("saga_transitions_total")).toContain("saga_transitions_total 3");
    expect(await other.registry.getSingleMetricAsString("saga_transitions_total")).toContain(
      "saga_transitions_total 0",
    );
    const names = one.registry.getMetricsAsArray().map((metric) => metric.name);
    expect(names).toEqual(
      expect.arrayContaining([
        "saga_transitions_total",
        "saga_commits_total",
        "saga_commit_rows",
        "saga_commit_seconds",
        "saga_runs_resident",
        "saga_commit_conflicts_total",
        "saga_dispatches_in_flight",
        "saga_dispatches_queued",
        "saga_runs_unwatched",
        "saga_streams_open",
        "saga_http_request_seconds",
        "process_cpu_user_seconds_total",
        "nodejs_eventloop_lag_seconds",
      ]),
    );
  });
});
