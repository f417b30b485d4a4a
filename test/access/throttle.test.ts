// The limits at the doors, on a fake clock: of refused credentials by address, and of requests by credential.
import { describe, expect, it } from "vitest";
import { CredentialGuard, type DigestVerifier, RateLimit, Unauthenticated } from "../../src/access/index.js";
import { RateLimited } from "../../src/errors.js";
import { principalOf } from "../harness/verifier.js";

const HERE = "192.0.2.1";
const MINUTE = 60_000;

/** Tokens that begin with `good` are accepted, unless they were revoked. */
function open() {
  const clock = { now: 0 };
  const checked: string[] = [];
  const revoked = new Set<string>();
  const verifier: DigestVerifier = {
    verify: (token) => {
      checked.push(token);
      if (!token.startsWith("good") || revoked.has(token)) throw new Unauthenticated("of this test");
      return principalOf(token, { roles: ["viewer"] });
    },
  };
  const guard = new CredentialGuard(() => clock.now);
  const guarded = guard.before(verifier);
  const outcome = (token: string, address = HERE) => {
    try {
      guarded.verify(token, () => address);
      return "accepted";
    } catch (error) {
      return error instanceof RateLimited ? `later, in ${error.retryAfterSeconds} s` : "refused";
    }
  };
  const guess = (count: number, address = HERE, name = "wrong") => {
    for (let nth = 0; nth < count; nth++) outcome(`${name}-${nth}`, address);
  };
  return { clock, checked, revoked, guard, outcome, guess };
}

describe("refused credentials", () => {
  it("are 20 a minute from one address: what comes then is not verified", () => {
    const { outcome, guess, checked } = open();
    guess(19);
    expect(outcome("wrong-19")).toBe("refused");
    expect(outcome("wrong-20")).toBe("later, in 60 s");
    expect(outcome("good-new")).toBe("later, in 60 s");
    expect(checked).toHaveLength(20);
  });

  it("are forgotten a minute later, each by itself", () => {
    const { outcome, guess, clock } = open();
    guess(10);
    clock.now = 30_000;
    guess(10, HERE, "later");
    expect(outcome("good")).toBe("later, in 30 s");
    clock.now = MINUTE;
    expect(outcome("good")).toBe("accepted");
  });

  it("do not hold up a credential that was accepted not long ago, even from elsewhere", () => {
    const { outcome, guess, clock } = open();
    outcome("good", "198.51.100.7");
    guess(20);
    expect(outcome("good")).toBe("accepted");
    clock.now = 10 * MINUTE;
    outcome("good-2", "198.51.100.7");
    guess(20, HERE, "again");
    clock.now += 1;
    expect(outcome("good-2")).toBe("accepted");
    expect(outcome("good-3")).toMatch(/^later/);
    // Of one that was accepted ten minutes ago it is not known any more.
    clock.now = 20 * MINUTE;
    guess(20, HERE, "at last");
    expect(outcome("good")).toMatch(/^later/);
  });

  it("count once a minute when the same one is repeated", () => {
    const { outcome, guess, clock } = open();
    for (let nth = 0; nth < 100; nth++) expect(outcome("expired")).toBe("refused");
    guess(18);
    expect(outcome("good")).toBe("accepted");
    clock.now = MINUTE;
    for (let nth = 0; nth < 100; nth++) expect(outcome("expired")).toBe("refused");
    guess(19);
    expect(outcome("good-new")).toMatch(/^later/);
  });

  it("include one that was accepted until it was revoked", () => {
    const { outcome, guess, revoked } = open();
    outcome("good");
    guess(19);
    revoked.add("good");
    expect(outcome("good")).toBe("refused");
    expect(outcome("good")).toMatch(/^later/);
  });

  it("count by address, and of IPv6 by what one client has", () => {
    const { outcome, guess } = open();
    guess(20, "2001:db8:0:1::1");
    expect(outcome("good-a", "2001:db8:0:1:ffff::2")).toMatch(/^later/);
    expect(outcome("good-a", "2001:db8:0:2::1")).toBe("accepted");
    expect(outcome("good-b", HERE)).toBe("accepted");
  });

  it("are counted while they are being verified: a thousand guesses at once are not verified", async () => {
    const { guard } = open();
    let verified = 0;
    const slow = guard.before({
      verify: async () => {
        verified++;
        await Promise.resolve();
        throw new Unauthenticated("of this test");
      },
    });
    const guesses = Array.from({ length: 1_000 }, async (_, nth) => slow.verify(`guess-${nth}`, () => HERE));
    const ends = await Promise.allSettled(guesses);
    expect(verified).toBe(20);
    expect(ends.filter((end) => "reason" in end && end.reason instanceof RateLimited)).toHaveLength(980);
  });

  it("are counted for the address of a client that goes before it is refused", async () => {
    const { guard, outcome } = open();
    const slow = guard.before({
      verify: async () => {
        await Promise.resolve();
        throw new Unauthenticated("of this test");
      },
    });
    let isThere = true;
    const guesses = Array.from({ length: 20 }, async (_, nth) =>
      slow.verify(`gone-${nth}`, () => (isThere ? HERE : "")),
    );
    isThere = false;
    await Promise.allSettled(guesses);
    expect(outcome("good-new")).toBe("later, in 60 s");
  });

  it("do not count those of one credential that many clients behind an address begin with", async () => {
    const { guard } = open();
    const slow = guard.before({ verify: async (token) => principalOf(token, { roles: ["viewer"] }) });
    const firsts = Array.from({ length: 100 }, async (_, nth) => slow.verify(`good-${nth}`, () => HERE));
    expect((await Promise.all(firsts)).map(({ sub }) => sub)).toContain("good-99");
  });

  it("of many addresses cost a bounded memory, the oldest are forgotten", () => {
    const { guess, outcome } = open();
    guess(20, "10.0.0.0");
    for (let nth = 1; nth <= 4_096; nth++) guess(1, `10.${nth >> 16}.${(nth >> 8) & 255}.${nth & 255}`);
    expect(outcome("good", "10.0.0.0")).toBe("accepted");
  });
});

describe("a rate limit", () => {
  const ann = { kind: "user", sub: "ann" } as const;
  const bob = { kind: "user", sub: "bob" } as const;
  const taken = (limit: RateLimit, who: typeof ann | typeof bob, count: number) => {
    let taken = 0;
    for (let nth = 0; nth < count; nth++)
      try {
        limit.take(who);
        taken++;
      } catch (error) {
        if (!(error instanceof RateLimited)) throw error;
      }
    return taken;
  };

  it("lets a burst pass, and then as many as are said a second, for each credential", () => {
    const clock = { now: 0 };
    const limit = new RateLimit({ perSecond: 10, burst: 30 }, () => clock.now);
    expect(taken(limit, ann, 50)).toBe(30);
    expect(taken(limit, bob, 1)).toBe(1);
    clock.now = 1_000;
    expect(taken(limit, ann, 50)).toBe(10);
    clock.now = 3_600_000;
    expect(taken(limit, ann, 50)).toBe(30);
  });

  it("says when the next one can pass, in whole seconds", () => {
    const limit = new RateLimit({ perSecond: 0.25, burst: 1 }, () => 0);
    limit.take(ann);
    expect(() => limit.take(ann)).toThrow(
      expect.objectContaining({ status: 429, code: "rate_limited", retryAfterSeconds: 4 }),
    );
  });
});
