// Delivers webhooks: sends the rows that commits posted, signed, until the receiver answers 2xx, and gives up after a
// day. At least once: if a node dies between the answer and the removal of the row, another node sends it again.

import type { Sql } from "postgres";
import { isObject, type JsonObject, revealed } from "../../../machines/index.js";
import { clearTimeout, performance, setTimeout } from "../../ambient.js";
import { ExchangeFailed, exchange, type Incoming } from "../../egress/exchange.js";
import type { Guard } from "../../egress/guard.js";
import { type Secrets, type SecretUsers, secretMisuse, userOfSecret } from "../../egress/secrets.js";
import { signedHeaders } from "../../egress/signature.js";
import { WEBHOOK } from "../../egress/signing.js";
import type { Log } from "../../log.js";
import type { Metrics } from "../../metrics/index.js";
import type { Courier } from "../../run/ports.js";
import { backoff } from "../../sdk/backoff.js";
import {
  type ClaimedWebhook,
  claimWebhook,
  claimWebhooks,
  type OwedWebhook,
  postponeWebhooks,
  removeWebhook,
} from "../../store/engine/outbox.js";
import { WorkLoop, withGrace } from "../../work/loop.js";
import { FairQueue } from "../fair-queue.js";
import { retryAfterOf } from "../request/response.js";
import { RequestSlots } from "../request-slots.js";

/** Every limit of the courier. Times are in milliseconds. */
export interface CourierLimits {
  /** Concurrent attempts. */
  readonly underWay: number;
  /** Concurrent attempts to one host, so that a receiver that hangs cannot take them all. */
  readonly underWayPerHost: number;
  /** Ids that wait. An id above the limit is dropped, and the poll brings it back. */
  readonly waiting: number;
  /** How long a webhook waits for an attempt to its host before it is put off. */
  readonly queuedMs: number;
  readonly attemptMs: number;
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  /** Counted from the commit. At least one attempt is made. */
  readonly giveUpMs: number;
}

export const DEFAULT_COURIER_LIMITS: CourierLimits = {
  underWay: 64,
  underWayPerHost: 16,
  waiting: 10_000,
  queuedMs: 12_000,
  attemptMs: 15_000,
  backoffMs: 1_000,
  backoffMaxMs: 3_600_000,
  giveUpMs: 86_400_000,
};

export interface WebhookCourierOptions extends SecretUsers {
  readonly sql: Sql;
  readonly log: Log;
  readonly metrics: Pick<Metrics, "webhooks">;
  readonly guard: Guard;
  readonly secrets: Secrets;
  /** Database time, epoch milliseconds. */
  readonly now: () => number;
  readonly limits?: Partial<CourierLimits>;
}

const STOPPING = "stopping";
/** Only the status and `Retry-After` of a response are used. */
const RESPONSE_BYTES = 65_536;
/** The specification's status for a receiver that wants no more webhooks. */
const GONE = 410;

/** Rows that one statement claims. */
const CLAIMED_AT_ONCE = 100;
/** The service whose actions, in the queue, are the hosts. */
const QUEUE = "webhook";

interface QueuedWebhook {
  readonly id: string;
  readonly host: string;
  readonly tries: number;
  /** On the monotonic clock. */
  readonly since: number;
}

type Outcome =
  | { readonly delivered: true }
  /** `interrupted`: this node stops, the attempt does not count, and the row falls due again. */
  | { readonly why: string; readonly final?: boolean; readonly afterMs?: number; readonly interrupted?: boolean };

export class WebhookCourier implements Courier {
  private readonly limits: CourierLimits;
  /** Claims the rows of ids: the poll of runs brings what is due, and commits what they have posted. */
  private readonly claims: WorkLoop<string>;
  /** Claimed rows, a row of the queue for each host: a receiver that hangs holds up only its own. */
  private readonly queued = new Map<string, QueuedWebhook>();
  private readonly queue = new FairQueue<QueuedWebhook>();
  private readonly underWay = new Map<string, Promise<void>>();
  private readonly slots: RequestSlots;
  /** Abort controllers of the attempts under way. */
  private readonly attempts = new Set<AbortController>();
  private stopping = false;
  private graceIsOver = false;

  constructor(private readonly options: WebhookCourierOptions) {
    this.limits = { ...DEFAULT_COURIER_LIMITS, ...options.limits };
    this.slots = new RequestSlots(this.limits.underWay, this.limits.underWayPerHost);
    const hints = {
      batch: CLAIMED_AT_ONCE,
      most: this.limits.waiting,
      round: (ids: readonly string[]) => this.claim(ids),
    };
    this.claims = new WorkLoop({ what: "webhooks", log: options.log, hints });
  }

  carry(id: string): void {
    const { waiting } = this.claims;
    const held = this.queued.has(id) || this.underWay.has(id);
    if (!held && waiting.size + this.queued.size < this.limits.waiting) this.claims.hint(id);
  }

  /** Attempts under way have the grace period to end. The rows of those that are cut off fall due again. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    const cutShort = () => {
      this.graceIsOver = true;
      for (const attempt of this.attempts) attempt.abort(STOPPING);
    };
    await withGrace(this.end(), { ms: graceMs, cutShort });
  }

  private async end(): Promise<void> {
    await this.claims.stop();
    this.queue.clear();
    this.queued.clear();
    await Promise.all(this.underWay.values());
  }

  /** Finds out where the rows go, so that each waits for its own host only. */
  private async claim(ids: readonly string[]): Promise<void> {
    // Before an answer of the store, these ids are held by nothing: a repeat is claimed once more, and queued once.
    const webhooks = await claimWebhooks(this.options.sql, ids);
    for (const webhook of webhooks) this.enqueue(webhook);
    this.serve();
  }

  private enqueue({ id, url, tries }: ClaimedWebhook): void {
    if (this.stopping || this.queued.has(id) || this.underWay.has(id)) return;
    const webhook = { id, host: hostOf(url), tries, since: performance.now() };
    this.queued.set(id, webhook);
    this.queue.add({ service: QUEUE, action: webhook.host, version: 0 }, id, webhook);
  }

  private serve(): void {
    if (this.stopping) return;
    const late: QueuedWebhook[] = [];
    this.queue.serve(QUEUE, (webhook) => this.tryDeliver(webhook, late));
    if (late.length > 0) this.track(late, this.putOff(late));
  }

  /** True if the webhook leaves the queue: it is delivered, or its host has kept it waiting for too long. */
  private tryDeliver(webhook: QueuedWebhook, late: QueuedWebhook[]): boolean {
    const { id, host, since } = webhook;
    if (this.slots.take({ host, sharer: host })) {
      this.track(
        [webhook],
        this.deliver(id).finally(() => this.slots.release({ host, sharer: host })),
      );
    } else if (performance.now() - since >= this.limits.queuedMs) late.push(webhook);
    else return false;
    this.queued.delete(id);
    return true;
  }

  private track(webhooks: readonly QueuedWebhook[], work: Promise<void>): void {
    const settled = work
      // The store does not answer: the rows fall due again.
      .catch((error: unknown) => this.options.log.warn({ err: error, webhook: webhooks[0]?.id }, "webhook postponed"))
      .finally(() => {
        for (const { id } of webhooks) this.underWay.delete(id);
        this.serve();
      });
    for (const { id } of webhooks) this.underWay.set(id, settled);
  }

  private async deliver(id: string): Promise<void> {
    const { sql, metrics } = this.options;
    const claimed = await claimWebhook(sql, id);
    if (!claimed) return;
    const webhook = { ...claimed, payload: revealed(claimed.payload) as OwedWebhook["payload"] };
    const outcome = await this.attempt(id, webhook);
    if ("delivered" in outcome) {
      metrics.webhooks.inc({ outcome: "delivered" });
      return removeWebhook(sql, id);
    }
    if (outcome.interrupted) return;
    const age = this.options.now() - Date.parse(String(messageOf(webhook).timestamp));
    if (outcome.final || age >= this.limits.giveUpMs) return this.giveUp(id, webhook, outcome.why);
    await this.putOff([{ id, tries: webhook.tries }], outcome.afterMs);
  }

  private async putOff(webhooks: readonly Pick<QueuedWebhook, "id" | "tries">[], afterMs?: number): Promise<void> {
    this.options.metrics.webhooks.inc({ outcome: "put_off" }, webhooks.length);
    await postponeWebhooks(
      this.options.sql,
      webhooks.map(({ id, tries }) => ({ id, ms: this.pause(tries, afterMs) })),
    );
  }

  private async attempt(id: string, { payload, runId }: OwedWebhook): Promise<Outcome> {
    const { secrets, userOf, secretUsed } = this.options;
    const { url, headers, secret_ref: ref } = payload as { url: string; headers: JsonObject; secret_ref?: string };
    const named = ref === undefined ? undefined : secrets.get(ref);
    const user = named && (await userOfSecret(named, async () => userOf?.(runId)));
    const secret = user && named;
    // Without a signature it would be refused, or trusted wrongly. The secret may be there after the next start.
    if (ref !== undefined && secret === undefined) return { why: "the secret that it names does not exist" };
    const misuse = ref && secret ? secretMisuse(ref, secret, "signing", url) : undefined;
    if (misuse !== undefined) return { why: misuse };
    if (ref !== undefined && user && user !== "anyone") secretUsed?.(ref, user);
    const keys = secret === undefined ? secrets.signing.of(WEBHOOK) : [secret.value];
    return this.send(id, url, headers as Record<string, string>, JSON.stringify(payload.message), keys);
  }

  private async send(
    id: string,
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
    keys: readonly string[],
  ): Promise<Outcome> {
    const { guard, now } = this.options;
    if (this.graceIsOver) return { why: STOPPING, interrupted: true };
    const own = { "user-agent": "saga-orchestrator", "content-type": "application/json", ...headers };
    const signed = { ...own, ...signedHeaders(keys, id, now(), body) };
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), this.limits.attemptMs);
    this.attempts.add(abort);
    const outgoing = { method: "POST", url, headers: signed, body, followRedirects: false, signal: abort.signal };
    try {
      return outcomeOf(await exchange(guard, { ...outgoing, maxBytes: RESPONSE_BYTES, overlong: "cut" }), now());
    } catch (error) {
      if (error instanceof ExchangeFailed) return { why: error.message, interrupted: abort.signal.reason === STOPPING };
      throw error;
    } finally {
      clearTimeout(timer);
      this.attempts.delete(abort);
    }
  }

  private async giveUp(id: string, { payload, runId, tries }: OwedWebhook, why: string): Promise<void> {
    this.options.metrics.webhooks.inc({ outcome: "given_up" });
    this.options.log.error({ webhook: id, runId, tries, why: withoutHost(why, payload) }, "webhook given up");
    await removeWebhook(this.options.sql, id);
  }

  private pause(tries: number, afterMs = 0): number {
    const { backoffMs: base, backoffMaxMs: cap } = this.limits;
    return Math.max(backoff(tries, { base, cap }), Math.min(afterMs, cap));
  }
}

function outcomeOf(incoming: Incoming, now: number): Outcome {
  const { status } = incoming;
  if (status < 300) return { delivered: true };
  const afterMs = retryAfterOf(incoming, now);
  const why = `the receiver answered ${status}`;
  return { why, final: status === GONE, ...(afterMs !== undefined && { afterMs }) };
}

function messageOf({ payload }: OwedWebhook): JsonObject {
  return isObject(payload.message) ? payload.message : {};
}

/** The host may have been made of what a client has sent, which is in no log. */
function withoutHost(why: string, { url }: OwedWebhook["payload"]): string {
  const host = bareHostOf(String(url));
  return host === "" ? why : why.replaceAll(host, "its host");
}

const bareHostOf = (url: string) => URL.parse(url)?.hostname.replace(/\.$|[[\]]/g, "") ?? "";
const hostOf = (url: string) => URL.parse(url)?.host ?? "";
