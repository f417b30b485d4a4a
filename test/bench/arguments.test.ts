import { describe, expect, it } from "vitest";
import { BENCH_HELP, benchCommand, REPORT_HELP, reportCommand, UsageError } from "../../bench/arguments.js";
import { SCENARIO_NAMES } from "../../bench/result.js";
import { scenarioNamed } from "../../bench/scenarios/index.js";
import { chosen, sizeOf } from "../../bench/suite.js";

const options = (...args: string[]) => {
  const command = benchCommand(args);
  if (typeof command === "string") throw new Error(`${args} is ${command}`);
  return command;
};

describe("the command line of the bench", () => {
  it("has defaults for everything", () => {
    expect(options()).toMatchObject({ scenarios: [], repetitions: 3, nodes: 1, rows: 1_000_000, settings: {} });
  });

  it("takes scenarios by commas and repeated", () => {
    const args = ["--scenario", "start,rules", "--scenario", "park"];
    expect(options(...args).scenarios).toEqual(["start", "rules", "park"]);
  });

  it("takes settings of the service, whose values may hold an equals sign", () => {
    expect(options("--set", "LOG_LEVEL=warn", "--set", "SAGA_SIGNING_SECRET=a=b").settings).toEqual({
      LOG_LEVEL: "warn",
      SAGA_SIGNING_SECRET: "a=b",
    });
  });

  it("takes a duration in seconds, and a target without its last slash", () => {
    expect(options("--duration", "1.5").durationMs).toBe(1_500);
    expect(options("--target", "http://saga.example/base/").target).toBe("http://saga.example/base");
  });

  it.each([
    [["--scenario", "nothing"], "there is no scenario nothing"],
    [["--count", "0"], "--count takes a whole number from 1, not 0"],
    [["--count", "ten"], "--count takes a whole number from 1, not ten"],
    [["--rate", "-1"], "--rate"],
    [["--rate", "0"], "--rate takes a number above 0, not 0"],
    [["--rate", "5", "--concurrency", "5"], "closed loop"],
    [["--target", "saga.example"], "--target takes a URL that begins with http:// or https://"],
    [["--database", "mysql://user:secret@host"], "--database takes a URL that begins with postgres://"],
    [["--grpc", "host", "--target", "http://saga.example"], "--grpc takes HOST:PORT, not host"],
    [["--grpc", "host:1"], "give --target too"],
    [["--target", "http://saga.example", "--set", "LOG_LEVEL=warn"], "a service that the bench starts"],
    [["--set", "nothing"], "--set takes NAME=VALUE"],
    [["--speed"], "--speed"],
    [["extra"], "extra"],
  ])("refuses %j", (args, sentence) => {
    expect(() => benchCommand(args)).toThrow(UsageError);
    expect(() => benchCommand(args)).toThrow(sentence);
  });

  it("repeats no password", () => {
    expect(() => benchCommand(["--database", "mysql://user:secret@host"])).toThrow(/^(?!.*secret)/);
  });

  it("describes every option", () => {
    expect(benchCommand(["--help"])).toBe("help");
    expect(benchCommand(["--list"])).toBe("list");
    for (const option of [
      "scenario",
      "target",
      "rate",
      "warmup",
      "rows",
      "json",
      "worker-host",
      "service",
      "set",
      "profile",
    ])
      expect(BENCH_HELP).toContain(`--${option}`);
  });
});

describe("the command line of the report", () => {
  it("takes files and where to write", () => {
    expect(reportCommand(["a.json", "b.json", "--out", "r.html"])).toEqual({
      files: ["a.json", "b.json"],
      out: "r.html",
    });
    expect(reportCommand(["--help"])).toBe("help");
    expect(REPORT_HELP).toContain("--out");
  });

  it("refuses to guess either", () => {
    expect(() => reportCommand(["--out", "r.html"])).toThrow("name at least one result file");
    expect(() => reportCommand(["a.json"])).toThrow("--out is missing");
  });
});

describe("the chosen scenarios", () => {
  const names = (...args: string[]) => chosen(options(...args)).map(({ name }) => name);

  it("are all that the deployment allows, unless they are named", () => {
    expect(names("--amqp", "amqp://host")).toEqual([...SCENARIO_NAMES]);
    expect(names()).not.toContain("three-steps-rabbitmq");
    expect(names("--target", "http://saga.example")).not.toContain("cold-start");
    expect(names("--rate", "10")).not.toContain("park");
    expect(names("--scenario", "rules")).toEqual(["rules"]);
  });

  it("are an error if they are named and cannot be measured", () => {
    expect(() => names("--scenario", "three-steps-rabbitmq")).toThrow("it needs RabbitMQ");
    expect(() => names("--scenario", "cold-start", "--target", "http://saga.example")).toThrow("not with --target");
    expect(() => names("--scenario", "park", "--rate", "10")).toThrow("one piece of work");
  });
});

describe("the size of a repetition", () => {
  const size = (...args: string[]) => sizeOf(scenarioNamed("rules"), options(...args));

  it("is that of the scenario, or of the command line", () => {
    expect(size()).toEqual({ count: 6_000, concurrency: 64, warmup: 1_500, rows: 1_000_000 });
    expect(size("--count", "8", "--concurrency", "2")).toMatchObject({ count: 8, concurrency: 2, warmup: 2 });
    expect(size("--warmup", "0")).toMatchObject({ warmup: 0 });
  });

  it("has no count if a duration ends it", () => {
    expect(size("--duration", "2")).toMatchObject({ count: Number.MAX_SAFE_INTEGER, durationMs: 2_000, warmup: 1_500 });
    expect(size("--duration", "2", "--count", "9")).toMatchObject({ count: 9, durationMs: 2_000 });
  });
});
