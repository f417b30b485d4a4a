// The log's lines and where they go, and the metrics' registry: instances do not share anything.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import fs, { existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createLogger } from "../src/log.js";
import { LogOutput, type Write } from "../src/log-output.js";
import { createMetrics } from "../src/metrics/index.js";
import { createTestDatabase, type TestDatabase } from "./harness/database.js";
import { until } from "./harness/until.js";

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

describe("an error of Postgres in the log", () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase({ max: 1 });
    await database.sql`create table noted (note text not null, unique (note), check (length(note) > 99), count int)`;
  });
  afterAll(() => database.drop());

  it.each([
    ["a value that is no number", "22P02", "select 'hunter2'::int"],
    ["a value that is no JSON", "22P02", `select '{"a": hunter2}'::json`],
    ["a row that fails a check", "23514", "insert into noted values ('hunter2')"],
    ["a row without a value", "23502", "insert into noted values (null, 7), ('hunter2', 8)"],
  ])("of %s has its code and no value", async (_, code, statement) => {
    const error = await database.sql.unsafe(statement).then(
      () => undefined,
      (error: Error) => error,
    );
    const [own, outer] = logged((log) => {
      log.warn({ err: error }, "failed");
      log.warn({ err: new Error("the commit failed", { cause: error }) }, "failed");
    });
    expect(own?.err).toMatchObject({ type: "PostgresError", code, severity: "ERROR" });
    expect(outer?.err).toMatchObject({ type: "Error", message: "the commit failed", cause: { code } });
    expect(JSON.stringify([own, outer])).not.toContain("hunter2");
  });

  it("has its words where they have no value", async () => {
    const error = await database.sql`select * from noted_elsewhere`.catch((error: Error) => error);
    const [line] = logged((log) => log.warn({ err: error }, "failed"));
    expect(line?.err).toMatchObject({ message: 'relation "noted_elsewhere" does not exist', code: "42P01" });
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
    const output = new LogOutput(openSync(path, "w"), { writeBytes: disk(state) });
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
    const output = new LogOutput(1, { writeBytes: () => {} });
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
    const output = new LogOutput(openSync(path, "a"), { writeBytes: slow });
    output.write("one\n");
    output.write("two\n");
    await vi.waitFor(async () => {
      await vi.advanceTimersByTimeAsync(500);
      expect(lines()).toEqual(["one", "two"]);
    });
    expect(output.lost).toBe(0);
  });

  it("a pipe gets as many whole lines at once as it takes in one piece", async () => {
    const chunks: string[] = [];
    const writeBytes: Write = (_, bytes, done) => {
      chunks.push(Buffer.from(bytes).toString());
      setImmediate(done, null, bytes.length);
    };
    const output = new LogOutput(1, { writeBytes, chunkBytes: 4_096 });
    const all = Array.from({ length: 200 }, (_, nth) => `${"é".repeat(nth === 9 ? 3_000 : nth)}\n`);
    for (const line of all) output.write(line);
    await vi.waitFor(() => expect(chunks.join("")).toBe(all.join("")));
    const long = chunks.filter((chunk) => Buffer.byteLength(chunk) > 4_096);
    expect([long, chunks.every((chunk) => chunk.endsWith("\n"))]).toEqual([[all[9]], true]);
  });

  it("what waits is written when the process ends", () => {
    const output = new LogOutput(openSync(path, "w"), { writeBytes: () => {} });
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

describe("a pipe that nobody reads from for a while", () => {
  let pipe: string;
  let reading: number;
  const processes: ChildProcess[] = [];
  beforeEach(() => {
    pipe = join(fs.mkdtempSync(join(process.env.TMPDIR ?? "/tmp", "saga-log-")), "pipe");
    execFileSync("mkfifo", [pipe]);
    reading = openSync(pipe, fs.constants.O_RDWR | fs.constants.O_NONBLOCK);
  });
  afterEach(() => {
    for (const each of processes.splice(0)) each.kill("SIGKILL");
    fs.closeSync(reading);
  });

  /** A process whose standard output is the pipe. */
  function logging(script: string): Promise<number | null> {
    const log = JSON.stringify(pathToFileURL(join(import.meta.dirname, "..", "dist", "src", "log.js")));
    const code = `import { createLogger } from ${log}; const log = createLogger({ logLevel: "info" }); ${script}`;
    const started = spawn("sh", ["-c", 'exec "$0" --input-type=module -e "$1" > "$2"', process.execPath, code, pipe]);
    processes.push(started);
    return new Promise((resolve) => started.once("exit", resolve));
  }

  function readSome(): string {
    const bytes = Buffer.alloc(65_536);
    try {
      return bytes.toString("latin1", 0, fs.readSync(reading, bytes));
    } catch {
      return "";
    }
  }

  it("does not keep a process from its end", async () => {
    const ended = logging(`
      process.on("SIGTERM", () => process.exit(7));
      for (let nth = 0; nth < 5_000; nth++) log.info({ text: "x".repeat(100) }, "line");
      setInterval(() => {}, 1_000);`);
    // There is more than the pipe takes: once it has something, it is full, also after this piece is read.
    await until(() => readSome() !== "");
    processes[0]?.kill("SIGTERM");
    expect(await ended).toBe(7);
  }, 20_000);

  it("gets every line of a process that ends as soon as it is read from, whole and in order", async () => {
    const ended = logging(`for (let nth = 0; nth < 1_000; nth++) log.info({ nth }, "x".repeat(50)); process.exit(0)`);
    let text = "";
    let isOver = false;
    void ended.then(() => {
      isOver = true;
    });
    await until(() => {
      const some = readSome();
      text += some;
      return isOver && some === "";
    });
    expect(
      text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).nth),
    ).toEqual([...Array(1_000).keys()]);
  }, 20_000);

  it("gets whole lines, whichever processes write to it", async () => {
    const script = `
      let nth = 0;
      const go = () => {
        for (let each = 0; each < 100; each++) log.info({ nth: nth++ }, "x".repeat(nth % 700));
        if (nth < 2_000) setTimeout(go, 1); else setTimeout(() => {}, 60_000);
      };
      go();`;
    for (const _ of [1, 2]) void logging(script);
    let text = "";
    const lines = () => text.split("\n").slice(0, -1);
    await until(
      () => {
        text += readSome();
        return lines().length === 4_000;
      },
      { within: 20_000, pause: 1 },
    );
    for (const line of lines()) expect(() => JSON.parse(line), line).not.toThrow();
  }, 30_000);
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
