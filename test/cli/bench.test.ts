// `saga bench` against a service: what it measures and prints, what it refuses, and what it leaves behind.
// @module-tag long
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "../harness/until.js";
import { begin, saga, useRig } from "./rig.js";

interface Result {
  readonly runs: number;
  readonly succeeded: number;
  readonly runs_per_second: number;
  readonly latency_ms?: { readonly p50: number; readonly p95: number; readonly p99: number };
  readonly errors: Readonly<Record<string, number>>;
  readonly terminated: number;
}

describe("saga bench", () => {
  const rig = useRig();
  const unended = async (workflow: string) => {
    const states = "state=pending&state=running&state=paused&state=compensating";
    return (await rig().api<{ total: number }>("GET", `/sagas?workflow_id=${workflow}&${states}&count=exact`)).total;
  };
  const isPublished = async (workflow: string) => (await rig().saga("start", workflow)).code !== 5;

  it("measures runs of steps that do nothing, in a pipe as text and as JSON, and takes its workflow away", async () => {
    const { code, stdout, stderr } = await rig().saga("bench", "--runs", "40", "--concurrency", "4");
    expect([code, stderr]).toEqual([
      0,
      `saga: up to 40 runs of saga-bench-noop in 1 min 0 s, at most 4 at once, at ${rig().url}\n`,
    ]);
    expect(stdout).toMatch(
      /^runs {5}40 in [\d.]+ s: [\d.]+ succeeded a second\nlatency {2}p50 .*, p95 .*, p99 .*\nerrors {3}none\n$/,
    );
    // The workflow that was taken away is published again.
    const result = await rig().json<Result>("bench", "--runs", "30", "--rate", "200");
    expect(result).toMatchObject({
      workflow_id: "saga-bench-noop",
      runs: 30,
      succeeded: 30,
      errors: {},
      terminated: 0,
    });
    const { p50, p95, p99 } = result.latency_ms ?? { p50: 0, p95: 0, p99: 0 };
    expect([p50 > 0, p50 <= p95, p95 <= p99, result.runs_per_second > 0]).toEqual([true, true, true, true]);
    expect([await isPublished("saga-bench-noop"), await unended("saga-bench-noop")]).toEqual([false, 0]);
    const { total } = await rig().api<{ total: number }>(
      "GET",
      "/sagas?workflow_id=saga-bench-noop&state=succeeded&count=exact",
    );
    expect(total).toBe(70);
  });

  it("measures runs of actions with a worker of its own, starts none after its time, and ends the worker", async () => {
    const grpc = rig().grpc;
    const result = await rig().json<Result>("bench", "--grpc", grpc, "--time", "2s", "--rate", "20");
    expect(result).toMatchObject({ workflow_id: "saga-bench-actions", errors: {}, terminated: 0 });
    expect(result.runs).toBeGreaterThan(0);
    expect(result.runs).toBeLessThanOrEqual(40);
    expect([await isPublished("saga-bench-actions"), await unended("saga-bench-actions")]).toEqual([false, 0]);
    await until(async () => {
      const { items } = await rig().api<{ items: { service: string }[] }>("GET", "/workers");
      return items.every(({ service }) => service !== "saga-bench");
    });
  });

  it("says errors by kind, with 1, and terminates at Ctrl-C what has not ended, with 130", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((done) => silent.listen(0, "127.0.0.1", done));
    onTestFinished(() => {
      silent.closeAllConnections();
      silent.close();
    });
    const address = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const command = begin(
      ["bench", "--grpc", rig().grpc, "--rate", "20", "--runs", "100000", "--time", "1h", "-o", "json"],
      rig().env,
    );
    await until(() => command.stderr.includes("up to 100000 runs"));
    // From now on nobody answers.
    const action = { action_name: "echo", input_schema: { type: "object" }, output_schema: { type: "object" } };
    await rig().api("POST", "/registry/register", {
      service: "saga-bench",
      actions: [{ ...action, transport: "http", address }],
    });
    await until(async () => (await unended("saga-bench-actions")) >= 5);
    command.child.kill("SIGINT");
    const { code, stdout, stderr } = await command.ended;
    expect([code, stderr.split("\n").length]).toEqual([130, 2]);
    const result = JSON.parse(stdout) as Result;
    expect(result.terminated).toBeGreaterThanOrEqual(5);
    expect([await isPublished("saga-bench-actions"), await unended("saga-bench-actions")]).toEqual([false, 0]);
  });

  it("counts a run that does not succeed as an error of its kind, and ends with 1", async () => {
    const command = begin(["bench", "--rate", "10", "--runs", "100000", "--time", "5s", "-o", "json"], rig().env);
    await until(() => command.stderr.includes("up to 100000 runs"));
    await rig().api("POST", "/workflows/saga-bench-noop/versions/1/unpublish");
    const { code, stdout } = await command.ended;
    const { runs, succeeded, errors } = JSON.parse(stdout) as Result;
    expect([code, errors["404 not_found"]]).toEqual([1, runs - succeeded]);
  });

  it("refuses a service beyond this machine, wrong options, an address without a service, and one that is away", async () => {
    const away = { SAGA_URL: "http://saga.invalid:8080" };
    expect(await saga(["bench"], away)).toMatchObject({
      ...{ code: 2, stdout: "" },
      stderr: expect.stringMatching(/^saga: bench: http:\/\/saga\.invalid:8080 is not this machine.*--yes/),
    });
    expect(await saga(["bench", "--yes"], away)).toMatchObject({ code: 6, stdout: "" });
    expect(await rig().saga("bench", "--rate", "0")).toMatchObject({
      ...{ code: 2, stdout: "" },
      stderr: expect.stringContaining("--rate must be a whole number from 1"),
    });
    expect(await saga(["bench"], { SAGA_URL: "http://127.0.0.1:1" })).toMatchObject({ code: 6, stdout: "" });
    expect(await rig().saga("bench", "--grpc", "nonsense")).toMatchObject({ code: 2, stdout: "" });
  });
});
