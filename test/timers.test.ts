// No timer is set beyond what the host can wait, 24.8 days: one that is rings at once. Every timer of the sources has a constant, or is
// listed here with what bounds it; times that users choose are an `Alarm`'s (src/sdk/timer.ts).
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../src/config/package.js";

const SRC = join(packageRoot(), "src");
const LONGEST_MS = 2 ** 31 - 1;

/** Timers by what bounds them: the file and the delay as it is written. */
const BOUNDED: Readonly<Record<string, readonly string[]>> = {
  "a constant of the room, or the option of a test": [
    "access/in-time.ts: ms",
    "access/issuer-keys.ts: readWithinMs",
    "api/http/receive.ts: bounds.stallMs",
    "api/inspect.ts: pingMs",
    "api/stream.ts: pingMs",
    "cli/bench/load.ts: ms",
    "cli/modules/child.ts: withinMs",
    "cli/dev/files.ts: Math.min(SETTLE_MS, left)",
    "cluster/supervisor.ts: ms",
    "cluster/supervisor.ts: this.times.silence / SILENCE_CHECKS",
    "conformance/run.ts: startMs + CASE_MS",
    "console/run/use-tree.tsx: AGAIN_MS / 4",
    "dispatch/grpc/stream.ts: limits.helloMs",
    "dispatch/grpc/stream.ts: this.limits.stallMs",
    "dispatch/grpc/carrier.ts: limits.tickMs",
    "dispatch/grpc/carrier.ts: graceMs",
    "dispatch/push/carrier.ts: limits.tickMs",
    "dispatch/relay/demand.ts: this.options.limits.demandGatherMs",
    "dispatch/relay/relay.ts: limits.tickMs",
    "dispatch/webhook/courier.ts: this.limits.attemptMs",
    "events/event-consumer.ts: lookMs",
    "log-output.ts: ms",
    "inspect/page.ts: ${PATIENCE_S * 1_000}",
    "main.ts: timeoutMs",
    "sdk/timer.ts: ms",
    "trial/trial-process.ts: hangMs / HANG_CHECKS",
    "tracing/span-queue.ts: graceMs",
    "store/migrate/readiness.ts: times.pause",
    "store/lists/read-pool.ts: this.timeoutMs",
    "work/loop.ts: ms",
    "work/loop.ts: pause",
  ],
  "a backoff with a maximum": [
    "bus/exchange.ts: Math.min(withinMs, MAX_WAIT_MS)",
    "cli/dev/worker.ts: pause",
    "console/browser/live.ts: delay",
    "console/browser/session.ts: backoff(failures, ASKED_AGAIN_MS)",
    "dispatch/offers.ts: delay",
    "dispatch/push/reporter.ts: ms",
    "events/event-consumer.ts: pause",
    "operate/pace.ts: ms",
    "run/committer.ts: backoff(nth, PAUSE_MS)",
    "sdk/broker/link.ts: backoff(this.failures++, { base, cap })",
    "store/embedded/postgres.ts: ms",
    "store/embedded/server.ts: ms",
    "store/migrate/migration-locks.ts: backoff(tries, PAUSE_MS)",
  ],
  "the schema of a parameter, or a setting with a maximum": [
    "api/waiting.ts: ms",
    "operate/progress.ts: ms",
    "tenants/startup-provider.ts: timeoutMs",
    "tracing/span-queue.ts: delayMs",
    "tracing/span-queue.ts: limits.delayMs",
  ],
  "TIMER_HORIZON_MS: what is due later is the poll's": ["run/resident.ts: Math.max(1, ahead + 1)"],
  completeTiming: [
    "sdk/worker/callback/reports.ts: jitteredBackoff(timing, tries)",
    "sdk/worker/connection-pool.ts: wait",
    "sdk/worker/connection.ts: jitteredBackoff(this.timing, this.failures++)",
    "sdk/worker/connection.ts: this.timing.abortGraceMs",
    "sdk/worker/connection.ts: this.timing.helloMs",
    "sdk/worker/register.ts: jitteredBackoff(timing, tries)",
    "sdk/worker/register.ts: this.options.timing.registerAgainMs",
    "sdk/worker/worker.ts: timing.resendMs",
  ],
  "MAX_MS, or less than the time that is left of one that it bounds": [
    "sdk/client/pause.ts: ms",
    "sdk/client/transport.ts: timeoutMs",
  ],
  LONGEST_TIMER_MS: ["sdk/timer.ts: part", "sdk/worker/executor.ts: interval"],
};

/** The methods of sockets that have the names of timers. */
const OTHERS = /(?:raw|socket)\.$/;
const CALLS = /\b(setTimeout|setInterval|AbortSignal\.timeout|timeoutSignal|delay)\(/g;

interface Timer {
  readonly file: string;
  readonly delay: string;
}

function timersOf(path: string): Timer[] {
  const text = readFileSync(path, "utf8").replace(/^\s*(\/\/|\/?\*).*$/gm, "");
  const file = relative(SRC, path);
  // node:timers/promises has the delay first.
  const isPromised = /import \{ setTimeout \} from "node:timers\/promises"/.test(text);
  return [...text.matchAll(CALLS)].flatMap(({ 1: name = "", index }) => {
    if (OTHERS.test(text.slice(0, index))) return [];
    const given = argumentsOf(text, index + name.length + 1);
    const first = /timeout(?:Signal)?$|^delay$/.test(name) || isPromised;
    return [{ file, delay: given[first ? 0 : 1] ?? "1" }];
  });
}

/** The arguments as they are written, from the place behind the parenthesis. */
function argumentsOf(text: string, from: number): string[] {
  const found: string[] = [];
  let [depth, begin, quote] = [1, from, ""];
  for (let at = from; depth > 0 && at < text.length; at++) {
    const sign = text.charAt(at);
    if (quote !== "") quote = sign === quote ? "" : quote;
    else if (/["'`]/.test(sign)) quote = sign;
    else if (/[([{]/.test(sign)) depth++;
    else if (/[)\]}]/.test(sign)) depth--;
    if ((sign === "," && depth === 1 && quote === "") || depth === 0) {
      found.push(text.slice(begin, at).trim());
      begin = at + 1;
    }
  }
  return found.filter((argument) => argument !== "");
}

const timers = (readdirSync(SRC, { recursive: true }) as string[])
  .filter((name) => /\.tsx?$/.test(name) && !name.includes("generated") && name !== "ambient.ts")
  .flatMap((name) => timersOf(join(SRC, name)));

/** `within` of src/sdk/timer.ts says why. */
const FORGOTTEN = /AbortSignal\.any\(\[[^\]]*AbortSignal\.timeout/;

const isConstant = (delay: string) => /^[A-Z][A-Z0-9_]*$/.test(delay);
const isNumber = (delay: string) => /^[\d_]+$/.test(delay);

describe("a timer of the sources", () => {
  it("has a constant, or is listed with what bounds it", () => {
    expect(timers.length).toBeGreaterThan(80);
    const computed = timers.filter(({ delay }) => !isConstant(delay) && !isNumber(delay));
    const found = new Set(computed.map(({ file, delay }) => `${file}: ${delay}`));
    expect([...found].sort()).toEqual(Object.values(BOUNDED).flat().sort());
  });

  it("is not a limit that only `AbortSignal.any` refers to: Node 20 forgets it", () => {
    const root = packageRoot();
    const files = ["src", "examples", "bench"].flatMap((folder) =>
      (readdirSync(join(root, folder), { recursive: true }) as string[]).map((name) => join(folder, name)),
    );
    const sources = files.filter((path) => /\.(?:tsx?|mjs)$/.test(path) && !/\/(?:dist|node_modules)\//.test(path));
    expect(sources.length).toBeGreaterThan(500);
    expect(sources.filter((path) => FORGOTTEN.test(readFileSync(join(root, path), "utf8")))).toEqual([]);
    expect(FORGOTTEN.test("AbortSignal.any([signal, AbortSignal.timeout(MS)])")).toBe(true);
  });

  it("with a constant has one that a timer can wait", () => {
    for (const { file, delay } of timers) {
      const text = isConstant(delay) ? constantOf(file, delay) : delay;
      if (!isNumber(text)) continue;
      expect(Number(text.replaceAll("_", "")), `${file}: ${delay}`).toBeLessThanOrEqual(LONGEST_MS);
    }
  });
});

/** The value of a constant that the file itself has as a number. */
function constantOf(file: string, name: string): string {
  const text = readFileSync(join(SRC, file), "utf8");
  return new RegExp(`const ${name} = ([\\d_]+);`).exec(text)?.[1] ?? "";
}
