// How many requests a credential may make: a token bucket for each, on each node. What must never be held up does not ask: results, heartbeats,
// streams, probes.
import { performance } from "../ambient.js";
import { rateLimited } from "../errors.js";
import { credentialId, type Principal } from "./principal.js";

export interface Rate {
  readonly perSecond: number;
  /** Requests at once, after a pause. */
  readonly burst: number;
}

/** Credentials that are remembered, those that asked last. One that is forgotten has its whole burst again. */
const MAX_BUCKETS = 16_384;

interface Bucket {
  tokens: number;
  filledAt: number;
}

export class RateLimit {
  /** Those that asked last are last. */
  private readonly buckets = new Map<string, Bucket>();

  constructor(
    private readonly rate: Rate,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Throws 429. A session of a key is another credential than the key. */
  take(principal: Pick<Principal, "kind" | "sub">): void {
    const { perSecond, burst } = this.rate;
    const name = credentialId(principal);
    const now = this.now();
    const { tokens, filledAt } = this.buckets.get(name) ?? { tokens: burst, filledAt: now };
    const bucket = { tokens: Math.min(burst, tokens + ((now - filledAt) / 1000) * perSecond), filledAt: now };
    const isAllowed = bucket.tokens >= 1;
    if (isAllowed) bucket.tokens -= 1;
    this.buckets.delete(name);
    this.buckets.set(name, bucket);
    const [oldest] = this.buckets.size > MAX_BUCKETS ? this.buckets.keys() : [];
    if (oldest !== undefined) this.buckets.delete(oldest);
    if (!isAllowed)
      throw rateLimited(
        `more than ${perSecond} requests a second with this credential`,
        (1 - bucket.tokens) / perSecond,
      );
  }
}
