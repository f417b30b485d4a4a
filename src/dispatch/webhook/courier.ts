// Delivers webhooks: takes the rows that commits posted, sends each signed until its receiver says 2xx, and gives up after a
// day. At least once: a node that dies between the answer and the removal of the row leaves it to another, which sends it again.
import type { Sql } from "postgres";
import { isObject, type JsonObject } from "../../../machines/index.js";
import { ExchangeFailed, exchange, type Incoming } from "../../egress/exchange.js";
import type { Guard } from "../../egress/guard.js";
import type { Secrets } from "../../egress/secrets.js";
import { signedHeaders } from "../../egress/signature.js";
import type { Metrics } from "../../metrics.js";
import type { Courier } from "../../run/ports.js";
import { claimPost, type Post, putOffPost, removePost } from "../../store/posts.js";
import { retryAfterOf } from "../request/response.js";
import type { Log } from "../transport.js";

/** Every bound of the courier, with its default. Times in milliseconds. */
export interface CourierLimits {
  readonly underWay: number;
  /** A receiver that hangs must not take all of them. */
  readonly underWayPerHost: number;
  /** Ids that wait; one more is dropped, and the poll brings it back. */
  readonly waiting: number;
  readonly attemptMs: number;
  readonly backoffMs: number;
  readonly backoffMaxMs: number;
  /** From its commit on. An attempt is made in any case. */
  readonly giveUpMs: number;
}

export const DEFAULT_COURIER_LIMITS: CourierLimits = {
  underWay: 64,
  underWayPerHost: 16,
  waiting: 10_000,
  attemptMs: 15_000,
  backoffMs: 1_000,
  backoffMaxMs: 3_600_000,
  giveUpMs: 86_400_000,
};

export interface WebhookCourierOptions {
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
/** Of a response only its status and when to come again are looked at. */
const RESPONSE_BYTES = 65_536;
/** "I do not want these any more", by the specification. */
const GONE = 410;

/** What became of an attempt: delivered, or why not. */
type Verdict =
  | { readonly delivered: true }
  /** `interrupted`: this node stops, the attempt does not count, and the row is due again by itself. */
  | { readonly why: string; readonly final?: boolean; readonly afterMs?: number; readonly interrupted?: boolean };

export class WebhookCourier implements Courier {
  private readonly limits: CourierLimits;
  private readonly waiting = new Set<string>();
  private readonly underWay = new Map<string, Promise<void>>();
  private readonly hosts = new Map<string, number>();
  /** One for each attempt under way. */
  private readonly cuts = new Set<AbortController>();
  private stopping = false;
  private graceIsOver = false;

  constructor(private readonly options: WebhookCourierOptions) {
    this.limits = { ...DEFAULT_COURIER_LIMITS, ...options.limits };
  }

  carry(id: string): void {
    const held = this.waiting.has(id) || this.underWay.has(id);
    if (held || this.stopping || this.waiting.size >= this.limits.waiting) return;
    this.waiting.add(id);
    this.serve();
  }

  /** Attempts under way get the grace to end; what is cut off then is due again by itself. */
  async stop(graceMs: number): Promise<void> {
    this.stopping = true;
    this.waiting.clear();
    const cutAll = () => {
      this.graceIsOver = true;
      for (const cut of this.cuts) cut.abort(STOPPING);
    };
    const timer = setTimeout(cutAll, graceMs);
    await Promise.all(this.underWay.values());
    clearTimeout(timer);
  }

  private serve(): void {
    for (const id of this.waiting) {
      if (this.underWay.size >= this.limits.underWay) return;
      this.waiting.delete(id);
      const work = this.deliver(id)
        // The store is away: the row is due again by itself.
        .catch((error: unknown) => this.options.log.warn({ err: error, webhook: id }, "a webhook has to wait"))
        .finally(() => {
          this.underWay.delete(id);
          this.serve();
        });
      this.underWay.set(id, work);
    }
  }

  private async deliver(id: string): Promise<void> {
    const { sql, metrics } = this.options;
    const post = await claimPost(sql, id);
    if (!post) return;
    const host = hostOf(post);
    if ((this.hosts.get(host) ?? 0) >= this.limits.underWayPerHost)
      return putOffPost(sql, id, this.backoff(post.tries));
    const verdict = await this.counted(host, () => this.attempt(id, post));
    if ("delivered" in verdict) {
      metrics.webhooks.inc({ outcome: "delivered" });
      return removePost(sql, id);
    }
    if (verdict.interrupted) return;
    const age = this.options.now() - Date.parse(String(messageOf(post).timestamp));
    if (verdict.final || age >= this.limits.giveUpMs) return this.giveUp(id, post, verdict.why);
    metrics.webhooks.inc({ outcome: "put_off" });
    await putOffPost(sql, id, this.backoff(post.tries, verdict.afterMs));
  }

  private async counted<T>(host: string, work: () => Promise<T>): Promise<T> {
    this.hosts.set(host, (this.hosts.get(host) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.hosts.get(host) ?? 1) - 1;
      if (left === 0) this.hosts.delete(host);
      else this.hosts.set(host, left);
    }
  }

  private async attempt(id: string, { payload }: Post): Promise<Verdict> {
    const { secrets } = this.options;
    const { url, headers, secret_ref: ref } = payload as { url: string; headers: JsonObject; secret_ref?: string };
    const secret = ref === undefined ? secrets.signing : secrets.get(ref)?.value;
    // Unsigned it would be refused, or believed: a secret that was named has to be there. It may come with the next start.
    if (ref !== undefined && secret === undefined) return { why: "there is no secret of its name" };
    return this.send(id, url, headers as Record<string, string>, JSON.stringify(payload.message), secret);
  }

  private async send(
    id: string,
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
    secret: string | undefined,
  ): Promise<Verdict> {
    const { guard, now } = this.options;
    if (this.graceIsOver) return { why: STOPPING, interrupted: true };
    const own = { "user-agent": "saga-orchestrator", "content-type": "application/json", ...headers };
    const signed = { ...own, ...signedHeaders(secret, id, now(), body) };
    const cut = new AbortController();
    const timer = setTimeout(() => cut.abort(), this.limits.attemptMs);
    this.cuts.add(cut);
    const outgoing = { method: "POST", url, headers: signed, body, followRedirects: false, signal: cut.signal };
    try {
      return judged(await exchange(guard, { ...outgoing, maxBytes: RESPONSE_BYTES, overlong: "cut" }), now());
    } catch (error) {
      if (error instanceof ExchangeFailed) return { why: error.message, interrupted: cut.signal.reason === STOPPING };
      throw error;
    } finally {
      clearTimeout(timer);
      this.cuts.delete(cut);
    }
  }

  private async giveUp(id: string, { runId, tries }: Post, why: string): Promise<void> {
    this.options.metrics.webhooks.inc({ outcome: "given_up" });
    this.options.log.error({ webhook: id, runId, tries, why }, "a webhook is given up");
    await removePost(this.options.sql, id);
  }

  private backoff(tries: number, afterMs = 0): number {
    const { backoffMs, backoffMaxMs } = this.limits;
    const own = Math.min(backoffMs * 2 ** Math.min(tries, 30), backoffMaxMs) * (0.5 + Math.random() / 2);
    return Math.max(own, Math.min(afterMs, backoffMaxMs));
  }
}

function judged(incoming: Incoming, now: number): Verdict {
  const { status } = incoming;
  if (status < 300) return { delivered: true };
  const afterMs = retryAfterOf(incoming, now);
  const why = `its receiver answered ${status}`;
  return { why, final: status === GONE, ...(afterMs !== undefined && { afterMs }) };
}

function messageOf({ payload }: Post): JsonObject {
  return isObject(payload.message) ? payload.message : {};
}

const hostOf = ({ payload }: Post) => URL.parse(String(payload.url))?.host ?? "";
