// What `explain` lists under `can` is what a run accepts: at every stand each act that is listed is 202, and every other act is 409 and
// changes nothing.
// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../harness/until.js";
import type { Step } from "../run/rig.js";
import { PAUSE_MS } from "./client.js";
import { ACTS, Counter, charge, HELPED, type Run, refused, ship } from "./helping.js";

const HOUR_MS = 3_600_000;

interface Stand {
  readonly steps: readonly Step[];
  /** Members of the run once it is there. */
  readonly at: Partial<Record<keyof Run | "awaited_action_dispatch" | "queued_action", unknown>>;
  /** Acts with which it comes there, from the stand of the same name. */
  readonly after?: readonly string[];
  readonly delayed?: true;
  readonly can: readonly string[];
}

const go: Step = { id: "wait", type: "wait_for_signal", signal_name: "go" };
const hang = { action: "shop.hang" };
const breaks = charge("pay", { action: "shop.refuse" });
const undoes = (action: string) => [charge("pay", { compensation: { action }, next: "no" }), refused];
const branch = { id: "p", type: "parallel", branches: { a: { next: "wait" } }, next: "j" };
const open = ["cancel", "terminate"];
/** The acts on a run that waits, with all that it is in. */
const moves = ["migrate", ...open];
/** And where nothing of it is under way. */
const forks = ["fork", ...moves];

const STANDS: Readonly<Record<string, Stand>> = {
  "before its start": { steps: [go], delayed: true, at: { state: "pending" }, can: ["pause", ...moves] },
  "with a worker": {
    steps: [charge("pay", hang)],
    ...{ at: { awaited_action_dispatch: expect.anything() }, can: ["pause", ...moves] },
  },
  "queued for a worker": {
    steps: [{ id: "pay", type: "action", action: "nobody.there" }],
    ...{ at: { queued_action: expect.anything() }, can: ["pause", ...moves] },
  },
  "in a backoff": {
    steps: [
      { id: "pay", type: "action", action: "shop.flaky", retry: { max_attempts: 2, initial_backoff_ms: HOUR_MS } },
    ],
    ...{ at: { paused_reason: "retry" }, can: ["retry_step", "pause", ...forks] },
  },
  "at a signal": { steps: [go], at: { paused_reason: "signal" }, can: ["signal/go", "pause", ...forks] },
  "at an event": {
    steps: [{ id: "e", type: "wait_for_event", topic: "sent" }],
    ...{ at: { paused_reason: "event" }, can: ["pause", ...forks] },
  },
  "at a timer": {
    steps: [{ id: "t", type: "wait_duration", duration_ms: HOUR_MS }],
    ...{ at: { paused_reason: "timer" }, can: ["pause", ...forks] },
  },
  "with children": {
    steps: [branch, go, { id: "j", type: "join" }],
    ...{ at: { paused_reason: "children" }, can: ["pause", ...open] },
  },
  "at an incident": {
    steps: [breaks],
    ...{ at: { paused_reason: "incident" }, can: ["retry_step", "skip_step", "fail", "pause", ...forks] },
  },
  "at an incident, paused": {
    steps: [breaks],
    ...{ at: { paused_reason: "incident" }, after: ["pause"], can: ["resume", ...forks] },
  },
  "at a signal, paused": {
    steps: [go],
    ...{ at: { paused_reason: "signal" }, after: ["pause"], can: ["resume", ...forks] },
  },
  "at the incident of an undo": {
    steps: undoes("shop.refuse"),
    ...{ at: { state: "compensating", incident: expect.anything() } },
    can: ["compensations/retry", "compensations/skip", "pause", "terminate"],
  },
  "at the incident of an undo, paused": {
    steps: undoes("shop.refuse"),
    ...{ at: { state: "compensating", incident: expect.anything() }, after: ["pause"] },
    can: ["resume", "terminate"],
  },
  "with an undo at a worker": {
    steps: undoes("shop.hang"),
    ...{ at: { state: "compensating", awaited_action_dispatch: expect.anything() }, can: ["pause", "terminate"] },
  },
  "cancelled, with a worker": {
    steps: [charge("pay", hang)],
    ...{ at: { awaited_action_dispatch: expect.anything() }, after: ["cancel"], can: ["pause", "terminate"] },
  },
  succeeded: { steps: [charge("pay")], at: { state: "succeeded" }, can: ["rerun", "fork"] },
  "failed and rolled back": {
    steps: [ship({ next: "no" }), refused],
    ...{ at: { state: "failed" }, can: ["rerun", "fork"] },
  },
};

let counter: Counter;
beforeAll(async () => {
  counter = await Counter.openHere();
  const nobody = { service: "nobody", actions: [{ action_name: "there", transport: "grpc" }] };
  await counter.client.insist("POST", "/registry/register", nobody);
  // The runs are of the newer version, and may move to the other one, which is the same.
  for (const [name, { steps }] of Object.entries(STANDS))
    for (const version of [1, 2]) await counter.client.publish(idOf(name), steps, { ...HELPED, version });
});
afterAll(() => counter.close());

const idOf = (name: string) => name.replace(/\W+/g, "-");

async function comeTo(name: string, { at, after = [], delayed }: Stand): Promise<string> {
  const runId = await counter.client.start(idOf(name), delayed ? { delay_ms: HOUR_MS } : {});
  const isThere = async () => {
    expect(await counter.run(runId)).toMatchObject(at);
    return true;
  };
  await until(isThere, { pause: PAUSE_MS, what: `a run ${name}` });
  for (const act of after) expect(await counter.act(runId, act, {})).toMatchObject({ status: 202 });
  return runId;
}

/** `can` lists commands, too; these two have a route of their own. */
const listed = (can: readonly string[]) => can.map((act) => act.replace(/^signal\/.*/, "signal")).sort();

describe("what explain lists is what a run accepts", () => {
  it.concurrent.each(Object.entries(STANDS))("%s", async (name, stand) => {
    const runId = await comeTo(name, stand);
    expect((await counter.can(runId)).toSorted()).toEqual(listed(stand.can));
    const before = await counter.client.look(runId);
    for (const act of Object.keys(ACTS).filter((act) => !stand.can.includes(act))) {
      const { status, body } = await counter.act(runId, act);
      // It was paused before, or terminated.
      const isSo = status === 202 && body.changed === false && stand.after?.includes(act);
      if (!isSo) expect({ act, status, error: body.error }).toEqual({ act, status: 409, error: "conflict" });
    }
    expect(await counter.client.look(runId)).toEqual(before);
    for (const act of stand.can) {
      const fresh = await comeTo(name, stand);
      const from = { step: stand.steps[0]?.id, variables: {}, effects: "assume" };
      const { status, body } = await counter.act(fresh, act, act === "fork" ? from : undefined);
      expect({ act, status, changed: body.changed ?? true }).toEqual({ act, status: 202, changed: true });
    }
  });
});
