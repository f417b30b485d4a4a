// Retrying an action: how often, after how long, and whose policy it is.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffMs, completeRetry, ENGINE_RETRY, mayRetry, type RetryPolicy, wakeAt } from "../../../machines/index.js";
import type { Simulation, SimulationOptions } from "../simulation.js";
import { attribute, type Draft, failureOf, problemsOf, rowsOf, start, typesOf } from "./rig.js";

const act = (retry?: Record<string, unknown>): Draft => ({
  type: "action",
  action: "shop.notify",
  ...(retry && { retry }),
});

/** Fails retryably until the run no longer tries; the delays before each new attempt. */
function delaysOf(run: Simulation, limit = 50): number[] {
  const delays: number[] = [];
  while (!run.ended && delays.length < limit) {
    run.failure("busy");
    const wake = wakeAt(run.context);
    if (run.ended || typeof wake !== "number") break;
    delays.push(wake - run.now);
    run.elapse();
  }
  return delays;
}

const delays = (retry?: Record<string, unknown>, options: Partial<SimulationOptions> = {}) =>
  delaysOf(start([act(retry)], options));

attribute("retry.max_attempts", "counts the first attempt; -1 is unlimited, 0 is refused", () => {
  const policy = { initial_backoff_ms: 10, jitter: false, multiplier: 1 };
  expect(delays({ ...policy, max_attempts: 1 })).toEqual([]);
  expect(delays({ ...policy, max_attempts: 4 })).toEqual([10, 10, 10]);
  expect(delays({ ...policy, max_attempts: -1 })).toHaveLength(50);
  expect(delays({ ...policy, max_attempts: "${inputs.n}" }, { inputs: { n: 2 } })).toEqual([10]);
  const refused = (max_attempts: unknown) => problemsOf(act({ ...policy, max_attempts }));
  expect(refused(0)).toEqual([".retry.max_attempts: must not be 0"]);
  expect(refused(-2)).toEqual([".retry.max_attempts: must be at least -1"]);
  expect(refused(1.5)).toEqual([".retry.max_attempts: must be a whole number"]);
  expect(refused("3")).toEqual([".retry.max_attempts: must be a number"]);
  expect(problemsOf(act({}))).toEqual([".retry.max_attempts: is required", ".retry.initial_backoff_ms: is required"]);
  for (const computed of ["${0}", "${1.5}"])
    expect(failureOf(start([act({ ...policy, max_attempts: computed })]))).toBe(
      "expression_error: retry.max_attempts must be a whole number, not 0",
    );
});

describe("retry", () => {
  attribute(
    "retry.initial_backoff_ms, retry.max_backoff_ms, retry.multiplier",
    "make the delays, unless they are absent",
    () => {
      const policy = { max_attempts: 5, initial_backoff_ms: 100, jitter: false };
      expect(delays({ ...policy, multiplier: 3, max_backoff_ms: 1_000 })).toEqual([100, 300, 900, 1_000]);
      expect(delays(policy)).toEqual([100, 200, 400, 800]);
      expect(delays({ ...policy, initial_backoff_ms: 40_000 })).toEqual([40_000, 60_000, 60_000, 60_000]);
      expect(delays({ ...policy, initial_backoff_ms: 0 })).toEqual([0, 0, 0, 0]);
      expect(delays({ ...policy, multiplier: "${1.5}", initial_backoff_ms: "${100}" })).toEqual([100, 150, 225, 338]);
      expect(
        problemsOf(act({ max_attempts: 2, initial_backoff_ms: -1, max_backoff_ms: 1e300, multiplier: 0.5 })),
      ).toEqual([
        ".retry.initial_backoff_ms: must be at least 0",
        ".retry.max_backoff_ms: must be at most 316224000000",
        ".retry.multiplier: must be at least 1",
      ]);
      expect(failureOf(start([act({ max_attempts: 2, initial_backoff_ms: "${-1}" })]))).toBe(
        "expression_error: retry.initial_backoff_ms must be a number of at least 0",
      );
      expect(failureOf(start([act({ max_attempts: 2, initial_backoff_ms: 1, multiplier: "${0.5}" })]))).toBe(
        "expression_error: retry.multiplier must be a number of at least 1",
      );
    },
  );

  attribute("retry.jitter", "is on by default, and gives half to all of the delay", () => {
    const policy = { max_attempts: 2, initial_backoff_ms: 1_000 };
    expect(delays(policy, { random: 0 })).toEqual([500]);
    expect(delays(policy, { random: 0.5 })).toEqual([750]);
    expect(delays(policy, { random: 0.999999 })).toEqual([1_000]);
    expect(delays({ ...policy, jitter: false }, { random: 0 })).toEqual([1_000]);
    expect(problemsOf(act({ ...policy, jitter: 1 }))).toEqual([".retry.jitter: must be true or false"]);
  });

  attribute("retry.non_retryable_codes", "end the retries, as does a failure that is not retryable", () => {
    const policy = { max_attempts: 5, initial_backoff_ms: 1, non_retryable_codes: ["declined", "gone"] };
    const run = start([act(policy)]);
    run.failure("busy");
    run.elapse();
    run.failure("declined");
    expect(failureOf(run)).toBe("declined: declined!");
    const last = rowsOf(run, "s").at(-1);
    expect([last?.attempt, last?.metadata]).toEqual([
      2,
      { code: "declined", message: "declined!", retryable: true, will_retry: false },
    ]);
    const refused = start([act(policy)]);
    refused.failure("busy", { retryable: false });
    expect(rowsOf(refused, "s").at(-1)?.metadata).toMatchObject({ retryable: false, will_retry: false });
    expect(problemsOf(act({ ...policy, non_retryable_codes: "declined" }))).toEqual([
      ".retry.non_retryable_codes: must be a list",
    ]);
  });

  it("the policy is the step's, else the registration's, else the engine's; each completed by the engine's", () => {
    expect(ENGINE_RETRY).toEqual({
      max_attempts: 3,
      initial_backoff_ms: 1_000,
      max_backoff_ms: 60_000,
      multiplier: 2,
      jitter: true,
      non_retryable_codes: [],
    });
    const registered = { "shop.notify": { defaultRetry: { max_attempts: 4, initial_backoff_ms: 8, jitter: false } } };
    expect(delays(undefined, { random: 0 })).toEqual([500, 1_000]);
    expect(delays(undefined, { actions: registered })).toEqual([8, 16, 32]);
    expect(delays({ max_attempts: 2, initial_backoff_ms: 5, jitter: false }, { actions: registered })).toEqual([5]);
    expect(completeRetry({ max_attempts: 9 })).toEqual({ ...ENGINE_RETRY, max_attempts: 9 });
  });

  it("a retry is recorded: the failure with its next time, the end of the backoff, the next dispatch", () => {
    const run = start([act({ max_attempts: 2, initial_backoff_ms: 1_000, jitter: false })]);
    run.failure("busy");
    run.elapse();
    run.result({});
    expect(typesOf(run, "s")).toEqual([
      "step.started",
      "step.dispatched",
      "step.failed",
      "log",
      "step.dispatched",
      "step.succeeded",
    ]);
    expect(rowsOf(run, "s").map(({ to, attempt }) => `${to} ${attempt}`)).toEqual([
      "running 0",
      "running 1",
      "paused 1",
      "running 0",
      "running 2",
      "running 2",
    ]);
    expect(rowsOf(run, "s")[2]?.metadata).toEqual({
      code: "busy",
      message: "busy!",
      retryable: true,
      will_retry: true,
      next_retry_at: "2023-11-14T22:13:21.000Z",
    });
    expect(rowsOf(run, "s")[3]?.metadata).toEqual({ kind: "retry", nth: 2 });
  });

  const policies: fc.Arbitrary<RetryPolicy> = fc.record({
    max_attempts: fc.constantFrom(-1, 1, 2, 100),
    initial_backoff_ms: fc.double({ min: 0, max: 3e11, noNaN: true }),
    max_backoff_ms: fc.double({ min: 0, max: 3e11, noNaN: true }),
    multiplier: fc.double({ min: 1, max: 1e300, noNaN: true }),
    jitter: fc.boolean(),
    non_retryable_codes: fc.constant([]),
  });

  it("a delay is always within half of, and all of, min(initial * multiplier^(n-1), max)", () => {
    fc.assert(
      fc.property(
        policies,
        fc.integer({ min: 1, max: 1e6 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (policy, nth, random) => {
          const delay = backoffMs(policy, nth, random);
          const { initial_backoff_ms: initial, max_backoff_ms: max, multiplier } = policy;
          const full = initial === 0 ? 0 : Math.min(initial * Math.min(multiplier ** (nth - 1), 2 ** 53), max);
          expect(delay).toBeGreaterThanOrEqual(policy.jitter ? full / 2 - 1 : full - 1);
          expect(delay).toBeLessThanOrEqual(full + 1);
          expect(Number.isSafeInteger(delay)).toBe(true);
        },
      ),
    );
    expect(backoffMs({ ...ENGINE_RETRY, initial_backoff_ms: 0 }, 5_000, 0.5)).toBe(0);
    expect(mayRetry({ ...ENGINE_RETRY, max_attempts: -1 }, 1e9, "busy")).toBe(true);
  });
});
