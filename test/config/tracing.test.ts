// The settings of traces are OpenTelemetry's: when there are any, what is mandatory, and what stops the start.
import { describe, expect, it } from "vitest";
import { Environment } from "../../src/config/environment.js";
import { ConfigError, loadConfig } from "../../src/config/index.js";
import { readTracing } from "../../src/config/tracing.js";

function read(env: Readonly<Record<string, string>>) {
  const environment = new Environment(env);
  return { tracing: readTracing(environment), problems: environment.problems };
}

const AT = { OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example/" };

describe("the settings of traces", () => {
  it.each([
    ["nothing is set", {}],
    ["only a sampler is set", { OTEL_TRACES_SAMPLER: "always_on" }],
    ["the exporter is none", { ...AT, OTEL_TRACES_EXPORTER: "none" }],
    ["the SDK is disabled", { ...AT, OTEL_SDK_DISABLED: "true" }],
  ])("are absent where %s", (_, env) => {
    expect(read(env)).toEqual({ tracing: undefined, problems: [] });
  });

  it("have defaults for all but the address", () => {
    expect(read(AT)).toEqual({
      tracing: {
        ...{ url: "https://collector.example/v1/traces", headers: {}, sampler: { ratio: 1, followsCaller: true } },
        resource: { "service.name": "saga" },
        queue: { queued: 2_048, batch: 512, delayMs: 5_000 },
      },
      problems: [],
    });
  });

  it("have the collector of this machine where spans are asked for without an address", () => {
    expect(read({ OTEL_TRACES_EXPORTER: "otlp" }).tracing?.url).toBe("http://localhost:4318/v1/traces");
  });

  it("take an address of traces as it is", () => {
    const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "http://traces.example:9/in?tenant=1";
    expect(read({ ...AT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT }).tracing?.url).toBe(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
  });

  it("take pairs with percent encoding, and the more special one of two headers", () => {
    const headers = { OTEL_EXPORTER_OTLP_HEADERS: "a=1, b = x%2Cy ,", OTEL_EXPORTER_OTLP_TRACES_HEADERS: "a=2=3" };
    const resource = { OTEL_RESOURCE_ATTRIBUTES: "deployment.environment=h%C3%A4user,service.name=other" };
    expect(read({ ...AT, ...headers, ...resource }).tracing).toMatchObject({
      headers: { a: "2=3", b: "x,y" },
      resource: { "deployment.environment": "häuser", "service.name": "other" },
    });
    expect(read({ ...AT, ...resource, OTEL_SERVICE_NAME: "mine" }).tracing?.resource["service.name"]).toBe("mine");
  });

  it.each([
    ["always_on", undefined, { ratio: 1, followsCaller: false }],
    ["parentbased_always_off", undefined, { ratio: 0, followsCaller: true }],
    ["traceidratio", "0.01", { ratio: 0.01, followsCaller: false }],
    ["parentbased_traceidratio", "1e-3", { ratio: 0.001, followsCaller: true }],
    ["traceidratio", ".5", { ratio: 0.5, followsCaller: false }],
    ["traceidratio", "0", { ratio: 0, followsCaller: false }],
    ["traceidratio", undefined, { ratio: 1, followsCaller: false }],
    ["always_on", "no number", { ratio: 1, followsCaller: false }],
  ])("sample by %s with %s", (name, arg, sampler) => {
    const env = { ...AT, OTEL_TRACES_SAMPLER: name, ...(arg !== undefined && { OTEL_TRACES_SAMPLER_ARG: arg }) };
    expect(read(env)).toMatchObject({ tracing: { sampler }, problems: [] });
  });

  it.each([
    ["OTEL_TRACES_SAMPLER", "jaeger_remote"],
    ["OTEL_TRACES_EXPORTER", "zipkin"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"],
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "a-secret-without-a-name"],
    ["OTEL_RESOURCE_ATTRIBUTES", "a=%zz"],
    ["OTEL_BSP_MAX_QUEUE_SIZE", "0"],
    ["OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096"],
    ["OTEL_BSP_SCHEDULE_DELAY", "soon"],
  ])("are refused with %s=%s, and no value is shown", (name, value) => {
    const { problems } = read({ ...AT, [name]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name} must `));
    if (value.length > 4) expect(problems[0]).not.toContain(value);
  });

  it.each(["-0.1", "1.5", "x", "0x1", "", " "])("are refused with the ratio %j", (arg) => {
    const { problems } = read({ ...AT, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: arg });
    expect(problems).toEqual(arg === "" ? [] : ["OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1"]);
  });

  it("print no credential", () => {
    const { config } = loadConfig({ ...AT, OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20abc" });
    expect(config.tracing?.headers).toEqual({ authorization: "Bearer abc" });
    expect(JSON.stringify(config)).not.toContain("abc");
    expect(() => loadConfig({ ...AT, OTEL_TRACES_SAMPLER: "x" })).toThrow(ConfigError);
  });
});
