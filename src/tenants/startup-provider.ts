// The startup variables of a tenant's new runs from an HTTP service: bounded, cached, and asked once for all starts that need the
// answer at the same time. Whether a run starts without an answer is a setting; what the caller gives is merged by the starter.

import { isObject, type JsonObject, measure, WeightedCache } from "../../machines/index.js";
import { performance, timeoutSignal } from "../ambient.js";
import { ConfigError, type StartupProviderConfig } from "../config/index.js";
import { ExchangeFailed, exchange, type Incoming } from "../egress/exchange.js";
import { Guard } from "../egress/guard.js";
import { type Secret, type Secrets, secretMisuse } from "../egress/secrets.js";
import { overloaded } from "../errors.js";
import { parseJson } from "../json-text.js";
import type { Logger } from "../log.js";
import type { Metrics } from "../metrics/index.js";
import { areVariables, type TenantSettings } from "./tenant-settings.js";

/** The variables that a run starts with, and what `saga.started` says of their provider. */
export interface StartupVariables {
  readonly variables: JsonObject;
  readonly audit?: JsonObject;
}

/** Why there is no answer. A status is the code `http_<status>`. */
type Fault = "timeout" | "network" | "refused" | "too_large" | "not_variables" | "too_many_requests" | `http_${number}`;

interface Answered {
  readonly variables: JsonObject;
  /** Epoch ms, for the audit row. */
  readonly fetchedAt: number;
}
type Kept = (Answered | { readonly fault: Fault }) & { readonly staleAt: number };

/** The largest answer: more would hold the loop while it is parsed. */
const MAX_ANSWER_BYTES = 256 * 1024;
/** The size of all kept answers, in characters of JSON. */
const MAX_KEPT_CHARS = 16 * 1024 * 1024;
/** What each costs beside its variables. */
const KEPT_CHARS = 200;
/** Requests at a time, each for another tenant. */
const MAX_REQUESTS = 64;
/** A failure answers the next starts, too: they would wait for the timeout one after another. */
const FAULT_MS = 1_000;

export interface StartupProviderOptions extends Omit<StartupProviderConfig, "secret"> {
  readonly secret?: Secret;
  /** Masks all secrets: none comes back into a run. */
  readonly mask: Secrets["mask"];
  readonly log: Pick<Logger, "warn">;
  readonly metrics: Pick<Metrics, "startupVariables" | "startupSeconds">;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  /** Monotonic milliseconds. */
  readonly elapsed?: () => number;
}

export class StartupProvider {
  private readonly guard: Guard;
  private readonly host: string;
  private readonly kept = new WeightedCache<string, Kept>(MAX_KEPT_CHARS);
  private readonly asking = new Map<string, Promise<Kept>>();
  private readonly elapsed: () => number;

  constructor(private readonly options: StartupProviderOptions) {
    this.host = new URL(options.url).hostname;
    // The operator names this host, so it may be a private one; nothing else is connected to.
    const named = this.host.replace(/^\[|\]$/g, "");
    this.guard = new Guard({ admits: (host) => host === named, connectMs: options.timeoutMs });
    this.elapsed = options.elapsed ?? (() => performance.now());
  }

  /** Throws SagaError 503 if there is no answer and runs must not start without one. */
  async of(tenantId: string | undefined): Promise<Required<StartupVariables>> {
    const key = tenantId ?? "";
    const known = this.fresh(key);
    const answer = known ?? (await this.ask(key));
    if ("fault" in answer) return this.without(answer.fault);
    const outcome = known ? "cached" : "fetched";
    this.options.metrics.startupVariables.inc({ outcome });
    const fetched_at = new Date(answer.fetchedAt).toISOString();
    const audit = { source: "http", outcome, fetched_at };
    return { variables: answer.variables, audit };
  }

  private without(fault: Fault): Required<StartupVariables> {
    const { metrics, onFailure } = this.options;
    metrics.startupVariables.inc({ outcome: `failed_${onFailure}` });
    if (onFailure === "closed")
      throw overloaded(`the startup variables cannot be read from ${this.host} now (${fault}); try again`);
    return { variables: {}, audit: { source: "http", outcome: "unavailable", reason: fault } };
  }

  private fresh(key: string): Kept | undefined {
    const kept = this.kept.get(key);
    return kept && kept.staleAt > this.elapsed() ? kept : undefined;
  }

  /** Starts of one tenant share a request. */
  private ask(key: string): Promise<Kept> | Kept {
    const asked = this.asking.get(key);
    if (asked) return asked;
    if (this.asking.size >= MAX_REQUESTS) return { fault: "too_many_requests", staleAt: 0 };
    const asking = this.fetch(key).finally(() => this.asking.delete(key));
    this.asking.set(key, asking);
    return asking;
  }

  private async fetch(key: string): Promise<Kept> {
    const began = this.elapsed();
    const answer = await this.request(key);
    this.options.metrics.startupSeconds.observe({ outcome: requestOutcome(answer) }, (this.elapsed() - began) / 1_000);
    if ("fault" in answer)
      this.options.log.warn({ host: this.host, reason: answer.fault }, "startup variables missing");
    const ms = "fault" in answer ? FAULT_MS : this.options.cacheMs;
    const kept = { ...answer, staleAt: this.elapsed() + ms };
    const size = "fault" in answer ? 0 : Number(measure(answer.variables));
    if (ms > 0) this.kept.set(key, kept, KEPT_CHARS + size);
    return kept;
  }

  private async request(tenantId: string): Promise<Answered | { fault: Fault }> {
    const { timeoutMs } = this.options;
    const url = new URL(this.options.url);
    if (tenantId !== "") url.searchParams.set("tenant_id", tenantId);
    const outgoing = { method: "GET", url: url.href, headers: this.headers(), followRedirects: false } as const;
    const bounds = { signal: timeoutSignal(timeoutMs), maxBytes: MAX_ANSWER_BYTES, overlong: "fails" } as const;
    try {
      return this.read(await exchange(this.guard, { ...outgoing, ...bounds }));
    } catch (error) {
      if (!(error instanceof ExchangeFailed)) throw error;
      return { fault: error.kind === "aborted" ? "timeout" : error.kind };
    }
  }

  private headers(): Record<string, string> {
    const { secret } = this.options;
    const headers = { "user-agent": "saga-orchestrator", accept: "application/json", "accept-encoding": "identity" };
    return { ...headers, ...(secret && { [secret.header]: secret.line }) };
  }

  private read({ status, body }: Incoming): Answered | { fault: Fault } {
    if (status !== 200) return { fault: `http_${status}` };
    const { mask } = this.options;
    const value = parsed(mask.bytes(body));
    if (!isObject(value) || !areVariables(value) || typeof measure(value) !== "number")
      return { fault: "not_variables" };
    return { variables: mask.json(value), fetchedAt: this.options.now() };
  }
}

function requestOutcome(answer: Answered | { fault: Fault }): "ok" | "timeout" | "failed" {
  if (!("fault" in answer)) return "ok";
  return answer.fault === "timeout" ? "timeout" : "failed";
}

function parsed(body: Buffer): unknown {
  try {
    return parseJson(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Throws ConfigError if the secret does not exist or must not be sent to the provider. */
export function openStartupProvider(
  config: StartupProviderConfig | undefined,
  { secrets, ...shared }: { readonly secrets: Secrets } & Pick<StartupProviderOptions, "log" | "metrics" | "now">,
): StartupProvider | undefined {
  if (!config) return undefined;
  const { secret: name, ...rest } = config;
  const secret = name === undefined ? undefined : secretFor(name, config.url, secrets);
  return new StartupProvider({ ...rest, ...(secret && { secret }), mask: secrets.mask, ...shared });
}

function secretFor(name: string, url: string, secrets: Secrets): Secret {
  const secret = secrets.get(name);
  const problem = secret ? secretMisuse(name, secret, "bearer", url) : `there is no secret ${name}`;
  if (!secret || problem !== undefined) throw new ConfigError([`SAGA_STARTUP_VARIABLES_SECRET: ${problem}`]);
  return secret;
}

/** What the provider gives overrides the file. */
export async function startupVariablesOf(
  tenantId: string | undefined,
  tenants: Pick<TenantSettings, "startupVariables">,
  provider: Pick<StartupProvider, "of"> | undefined,
): Promise<StartupVariables> {
  const variables = tenants.startupVariables(tenantId);
  if (!provider) return { variables };
  const provided = await provider.of(tenantId);
  return { ...provided, variables: { ...variables, ...provided.variables } };
}
