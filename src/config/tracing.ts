// The settings of traces. They are OpenTelemetry's own, with its names, forms and defaults
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/); those that are not here, such as the timeout, the compression
// and the certificates of a request, are read by its exporter.
import type { Environment } from "./environment.js";

export interface TracingConfig {
  /** `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` and `v1/traces`. */
  readonly url: string;
  /** `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_EXPORTER_OTLP_TRACES_HEADERS` (none). Those of a collector's login. */
  readonly headers: Readonly<Record<string, string>>;
  /** `OTEL_TRACES_SAMPLER` (parentbased_always_on) and `OTEL_TRACES_SAMPLER_ARG` (1). */
  readonly sampler: { readonly ratio: number; readonly followsCaller: boolean };
  /** `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` (saga). */
  readonly resource: Readonly<Record<string, string>>;
  /** `OTEL_BSP_MAX_QUEUE_SIZE` (2048), `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` (512) and `OTEL_BSP_SCHEDULE_DELAY` (5000). */
  readonly queue: { readonly queued: number; readonly batch: number; readonly delayMs: number };
}

const SAMPLERS = ["always_on", "always_off", "traceidratio"] as const;
const FOLLOWING = "parentbased_";
const LOCAL_COLLECTOR = "http://localhost:4318";
const HTTP = ["http", "https"] as const;
const QUEUE = { min: 1, max: 1_000_000 };

/** Undefined: there are no traces. */
export function readTracing(environment: Environment): TracingConfig | undefined {
  const isDisabled = environment.text("OTEL_SDK_DISABLED")?.toLowerCase() === "true";
  const exporter = environment.choice("OTEL_TRACES_EXPORTER", ["otlp", "none"]);
  const base = environment.url("OTEL_EXPORTER_OTLP_ENDPOINT", HTTP);
  const own = environment.url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", HTTP);
  if (isDisabled || exporter === "none" || (exporter === undefined && own === undefined && base === undefined))
    return undefined;
  refuseProtocols(environment);
  return {
    url: own ?? `${(base ?? LOCAL_COLLECTOR).replace(/\/$/, "")}/v1/traces`,
    headers: {
      ...readPairs(environment, "OTEL_EXPORTER_OTLP_HEADERS"),
      ...readPairs(environment, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),
    },
    sampler: readSampler(environment),
    resource: {
      "service.name": "saga",
      ...readPairs(environment, "OTEL_RESOURCE_ATTRIBUTES"),
      ...readName(environment),
    },
    queue: readQueue(environment),
  };
}

function refuseProtocols(environment: Environment): void {
  for (const name of ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]) {
    const protocol = environment.text(name);
    if (protocol !== undefined && protocol !== "http/protobuf")
      environment.problem(name, "must be http/protobuf: collectors take it at port 4318");
  }
}

function readSampler(environment: Environment): TracingConfig["sampler"] {
  const names = SAMPLERS.flatMap((name) => [name, `${FOLLOWING}${name}`] as const);
  const name = environment.choice("OTEL_TRACES_SAMPLER", names) ?? `${FOLLOWING}always_on`;
  const text = environment.text("OTEL_TRACES_SAMPLER_ARG") ?? "1";
  const ratio = Number(text);
  const isRatio = /^\d*\.?\d+(e-?\d+)?$/i.test(text) && ratio >= 0 && ratio <= 1;
  const root = name.replace(FOLLOWING, "");
  if (root === "traceidratio" && !isRatio)
    environment.problem("OTEL_TRACES_SAMPLER_ARG", "must be a number from 0 to 1");
  const ratios: Readonly<Record<string, number>> = { always_on: 1, always_off: 0 };
  return { ratio: ratios[root] ?? ratio, followsCaller: name.startsWith(FOLLOWING) };
}

function readQueue(environment: Environment): TracingConfig["queue"] {
  const queued = environment.integer("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE) ?? 2_048;
  const batch = environment.integer("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", QUEUE) ?? Math.min(512, queued);
  const delayMs = environment.integer("OTEL_BSP_SCHEDULE_DELAY", { min: 1, max: 3_600_000 }) ?? 5_000;
  if (batch > queued)
    environment.problem("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "must not be larger than OTEL_BSP_MAX_QUEUE_SIZE");
  return { queued, batch, delayMs };
}

function readName(environment: Environment): Record<string, string> {
  const name = environment.text("OTEL_SERVICE_NAME");
  return name === undefined ? {} : { "service.name": name };
}

/** `key=value` by commas, with percent encoding. The problem shows no value: it may be a secret. */
function readPairs(environment: Environment, name: string): Record<string, string> {
  const pairs = (environment.text(name) ?? "").split(",").filter((pair) => pair.trim() !== "");
  try {
    return Object.fromEntries(pairs.map(pairOf));
  } catch {
    environment.problem(name, "must be key=value pairs by commas, with other characters percent-encoded");
    return {};
  }
}

function pairOf(pair: string): readonly [string, string] {
  const at = pair.indexOf("=");
  const key = decodeURIComponent(pair.slice(0, Math.max(at, 0)).trim());
  if (key === "") throw new URIError("a pair without a key");
  return [key, decodeURIComponent(pair.slice(at + 1).trim())];
}
