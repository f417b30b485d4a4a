// What stands before the verification of credentials, on every door: an address from which too many were refused within a minute is heard with
// those only that were accepted not long ago. It knows credentials by their hash, and remembers a bounded number.
import { performance } from "../ambient.js";
import { rateLimited } from "../errors.js";
import { networkOf } from "./addresses.js";
import type { Login } from "./oidc.js";
import { type DigestVerifier, digestOf, Unauthenticated, type Verifier } from "./verifier.js";

/** Refused credentials of an address within a minute; the same one counts once. */
const MOST_REFUSED = 20;
const MINUTE_MS = 60_000;
/** A credential that was accepted within this time is verified, whatever else comes from its address. */
const ACCEPTED_MS = 10 * MINUTE_MS;
const NOTED_MS = 1_000;
/** The addresses and the credentials that are remembered, the newest. An address has at most MOST_REFUSED hashes. */
const MAX_ADDRESSES = 4_096;
const MAX_ACCEPTED = 16_384;

type Verify<T> = () => T | Promise<T>;

export class CredentialGuard {
  /** By the hash of the credential: when it was accepted last. */
  private readonly accepted = new Map<string, number>();
  /** Those that had a refused credential last are last. */
  private readonly addresses = new Map<string, Refusals>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** A verifier behind this guard, which it shares with others: of another kind of credentials, or of another door. */
  before(verifier: DigestVerifier): Verifier {
    return {
      verify: (credential, address) => {
        if (address === undefined) return verifier.verify(credential);
        const digest = digestOf(credential);
        return this.hear(() => verifier.verify(credential, digest), { digest, network: networkWhere(address) });
      },
    };
  }

  /**
   * Likewise for logins: a callback that is refused counts as a credential, and one too many does not reach the issuer. One without what its login
   * began with never does, and shows no credential: any page can have its visitor's browser follow such links.
   */
  beforeLogin<T extends object>(login: Logins<T>) {
    return {
      begin: (next: string) => login.begin(next),
      finish: async (query: string, kept: string | undefined, address: string): Promise<T> =>
        kept === undefined
          ? login.finish(query, kept)
          : this.hear(() => login.finish(query, kept), {
              digest: digestOf(`${kept} ${query}`),
              network: () => networkOf(address),
            }),
    };
  }

  private hear<T extends object>(verify: Verify<T>, heard: Heard): T | Promise<T> {
    // Most requests come with a credential that was accepted a moment ago: once a second it is noted.
    const age = this.now() - (this.accepted.get(heard.digest) ?? Number.NEGATIVE_INFINITY);
    if (age < ACCEPTED_MS) return this.check(verify, heard, age >= NOTED_MS);
    const refusals = this.addresses.get(heard.network());
    if (!refusals) return this.check(verify, heard);
    const seconds = refusals.secondsUntilHeard(this.now());
    if (seconds !== undefined) throw rateLimited("too many credentials from this address were refused", seconds);
    // What is being verified may be refused. If it did not count, thousands of guesses would be verified before the first refusal.
    const busy = refusals.untilRoomFor(heard.digest);
    return busy ? busy.then(() => this.hear(verify, heard)) : this.check(verify, heard);
  }

  /** `isNoted`: whether its acceptance is. */
  private check<T extends object>(verify: Verify<T>, heard: Heard, isNoted = true): T | Promise<T> {
    let verified: T | Promise<T>;
    try {
      verified = verify();
    } catch (error) {
      this.noteRefusal(error, heard);
      throw error;
    }
    if (!(verified instanceof Promise)) {
      if (isNoted) this.noteAcceptance(heard);
      return verified;
    }
    const outcome = verified.then(
      (principal) => {
        this.noteAcceptance(heard);
        return principal;
      },
      (error: unknown) => {
        this.noteRefusal(error, heard);
        throw error;
      },
    );
    this.refusalsOf(heard).pend(heard.digest, outcome);
    return outcome;
  }

  private noteAcceptance({ digest }: Heard): void {
    remember(this.accepted, digest, this.now(), MAX_ACCEPTED);
  }

  private noteRefusal(error: unknown, heard: Heard): void {
    if (!(error instanceof Unauthenticated)) return;
    this.accepted.delete(heard.digest);
    this.refusalsOf(heard).add(heard.digest, this.now());
  }

  private refusalsOf(heard: Heard): Refusals {
    const network = heard.network();
    const refusals = this.addresses.get(network) ?? new Refusals();
    remember(this.addresses, network, refusals, MAX_ADDRESSES);
    return refusals;
  }
}

interface Logins<T extends object> {
  begin(next: string): Promise<Login>;
  finish(query: string, kept: string | undefined): Promise<T>;
}

interface Heard {
  readonly digest: string;
  /** Of the client's address. Most requests never need it. */
  readonly network: () => string;
}

/** It is read once: of a client that has gone since, there is no address any more. */
function networkWhere(address: () => string): () => string {
  let network: string | undefined;
  return () => {
    network ??= networkOf(address());
    return network;
  };
}

/** Of one address, within the last minute. */
class Refusals {
  /** By the hash of the credential: when it was counted. */
  private readonly counted = new Map<string, number>();
  private readonly pending = new Map<string, Promise<unknown>>();

  add(digest: string, now: number): void {
    this.forget(now);
    if (!this.counted.has(digest)) this.counted.set(digest, now);
  }

  /** Undefined: there is room now. */
  secondsUntilHeard(now: number): number | undefined {
    this.forget(now);
    const [oldest = now] = this.counted.values();
    return this.counted.size < MOST_REFUSED ? undefined : Math.ceil((oldest + MINUTE_MS - now) / 1000);
  }

  /** Resolves when something that is being verified has its outcome. Undefined: there is room now. */
  untilRoomFor(digest: string): Promise<unknown> | undefined {
    if (this.pending.has(digest) || this.counted.size + this.pending.size < MOST_REFUSED) return undefined;
    return Promise.race(this.pending.values());
  }

  pend(digest: string, outcome: Promise<unknown>): void {
    const settled: Promise<void> = outcome
      .then(
        () => {},
        () => {},
      )
      .then(() => {
        if (this.pending.get(digest) === settled) this.pending.delete(digest);
      });
    this.pending.set(digest, settled);
  }

  private forget(now: number): void {
    for (const [digest, at] of this.counted) {
      if (now - at < MINUTE_MS) return;
      this.counted.delete(digest);
    }
  }
}

/** The newest entries of a map are kept, and the present one is the newest. */
function remember<V>(map: Map<string, V>, key: string, value: V, most: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.size > most ? map.keys() : [];
  if (oldest !== undefined) map.delete(oldest);
}
