// That nothing is lost and nothing is done twice: answers that are repeated, steps that come again, streams that break, an orderly stop.
import { type Bench, SOON_MS } from "../bench.js";
import type { Case } from "../case.js";
import { within } from "../patience.js";
import { NotApplicable } from "../rule.js";
import type { Step } from "../step.js";
import type { Stream } from "../stream.js";
import { expectOneExecution, expectOutput, violate } from "./expect.js";

const RESEND_MS = 1_000;

const resend: Case = {
  name: "resend",
  rule: "An answer is sent again every second until Recorded comes for it, and not after that.",
  section: "recorded",
  advice:
    "Keep each answer until Recorded names its dispatch_id (stale or not), and send what is kept again from a timer of one second.",
  async run(bench) {
    const stream = await bench.ready();
    for (const stale of [false, true]) {
      stream.manners = { ...stream.manners, records: false };
      const step = bench.give(stream, "echo", { inputs: { stale } });
      await bench.answerOf(step);
      await within(5 * RESEND_MS, () => step.answers.length >= 3);
      const { length } = step.answers;
      if (length < 3) violate(`an answer without Recorded was sent ${times(length)} within 5 s`);
      const spacing = ((step.answers[2]?.at ?? 0) - (step.answers[0]?.at ?? 0)) / 2;
      if (spacing < RESEND_MS / 4) violate(`an answer without Recorded is sent again every ${Math.round(spacing)} ms`);
      expectSame(step);
      bench.record(step, stale);
      // Later than what was on its way. A copy may have crossed.
      const crossed = performance.now() + RESEND_MS / 2;
      await within(3 * RESEND_MS, () => (step.answers.at(-1)?.at ?? 0) > crossed);
      if ((step.answers.at(-1)?.at ?? 0) > crossed)
        violate(`an answer was sent again after Recorded${stale ? " with stale: true" : ""}`);
    }
  },
};

const times = (count: number) => (count === 1 ? "once" : `${count} times`);

/** The result or the failure, for people. */
function answerText(step: Step, nth: number): string {
  const answer = step.answers.at(nth)?.value.answer;
  if (!answer) return "no answer";
  if ("failure" in answer) return JSON.stringify(answer.failure);
  return Buffer.from(answer.result.result_json).toString("utf8");
}

function expectSame(step: Step): void {
  if (answerText(step, 0) !== answerText(step, -1)) violate("an answer that was sent again differs from the first");
}

const duplicates: Case = {
  name: "duplicates",
  rule: "A step that comes again with the same dispatch_id is one attempt: it is executed once and gets the same answer.",
  section: "duplicates",
  advice:
    "Remember what is being executed and what was answered, by dispatch_id: ignore the former, and send the answer of the latter again.",
  async run(bench) {
    const stream = await bench.ready();
    const step = bench.give(stream, "slow", { inputs: { ms: RESEND_MS }, heartbeatTimeoutMs: RESEND_MS });
    await within(SOON_MS, () => step.heartbeats.length > 0 || step.answer !== undefined);
    stream.send({ execute: step.message });
    await expectOneExecution(bench, step);
    const before = step.answers.length;
    stream.send({ execute: step.message });
    await within(SOON_MS, () => step.answers.length > before);
    if (step.answers.length === before) violate("a step that came again after its answer was recorded got no answer");
    if (answerText(step, -1) !== answerText(step, 0))
      violate(`a step that came again got ${answerText(step, -1)}, and at first ${answerText(step, 0)}`);
    const again = bench.give(stream, "slow", { inputs: { ms: 0 }, idempotencyKey: step.message.idempotency_key });
    await bench.answerOf(again);
    if (again.executions !== 2)
      violate(`the dispatch was executed ${(again.executions ?? 1) - 1} times: it is one attempt`);
  },
};

/** What a worker must carry over to its next stream: a step that it executes, and an answer that was not recorded. */
interface Carried {
  readonly executing: Step;
  readonly unrecorded: Step;
}

async function load(bench: Bench, stream: Stream, ms: number): Promise<Carried> {
  const executing = bench.give(stream, "slow", { inputs: { ms }, heartbeatTimeoutMs: 2 * RESEND_MS });
  await within(SOON_MS, () => executing.heartbeats.length > 0);
  stream.manners = { ...stream.manners, records: false };
  const unrecorded = bench.give(stream, "echo", { inputs: { of: "the old stream" } });
  await bench.answerOf(unrecorded);
  return { executing, unrecorded };
}

async function expectCarried(bench: Bench, { executing, unrecorded }: Carried, fresh: Stream, ms: number) {
  const named = fresh.hello?.in_flight ?? [];
  if (!named.includes(executing.id)) violate("in_flight of the next hello lacks a step that is still being executed");
  if (!named.includes(unrecorded.id)) violate("in_flight of the next hello lacks an answer that was not recorded");
  const isHere = (step: Step) => step.answers.some(({ value }) => value.stream === fresh);
  await within(SOON_MS, () => isHere(unrecorded));
  if (!isHere(unrecorded)) violate("an answer that was not recorded was not sent on the next stream");
  await within(ms + SOON_MS, () => isHere(executing));
  if (!isHere(executing)) violate("a step that was being executed was not answered on the next stream");
  await expectOneExecution(bench, executing);
  // As the service does where the hello came too late.
  const before = executing.answers.length;
  fresh.send({ execute: executing.message });
  await within(SOON_MS, () => executing.answers.length > before);
  if (executing.answers.length === before) violate("a step that came again on the next stream got no answer");
  await expectOneExecution(bench, executing);
}

/** The next stream, which may have neither a hello nor credit at once. */
async function nextStream(bench: Bench, since: number, ms: number): Promise<Stream> {
  return bench.stream(ms, since);
}

const BUSY_MS = 3_000;

const ended: Case = {
  name: "reconnect-after-end",
  rule: "When a node ends a stream, the worker opens another one and names in in_flight what it holds; nothing is executed twice.",
  section: "reconnect",
  advice:
    "Open the next stream within seconds, name every step that is executed and every unrecorded answer in in_flight, and send both answers there.",
  async run(bench) {
    const stream = await bench.ready();
    const carried = await load(bench, stream, BUSY_MS);
    const since = performance.now();
    for (const open of bench.streams) if (open.isLive) open.close();
    await expectCarried(bench, carried, await nextStream(bench, since, SOON_MS), BUSY_MS);
  },
};

const AWAY_MS = 2_000;

const cut: Case = {
  name: "reconnect-after-cut",
  rule: "When the connection breaks and the service is away for seconds, the worker tries again until it is back, and loses nothing.",
  section: "reconnect",
  advice:
    "Try again with pauses of at most five seconds, for as long as it takes; a broken connection is no reason to end.",
  async run(bench) {
    const stream = await bench.ready();
    const carried = await load(bench, stream, BUSY_MS);
    await bench.network.shut();
    await within(AWAY_MS, () => bench.process?.ended !== undefined);
    const since = performance.now();
    await bench.network.open();
    await expectCarried(bench, carried, await nextStream(bench, since, 2 * SOON_MS), BUSY_MS);
  },
};

/** A keepalive of 10 s that waits 5 s, and the reconnect. */
const SILENCE_MS = 30_000;

const silence: Case = {
  name: "reconnect-after-silence",
  rule: "A connection that is open and silent is given up within 30 s, because a frozen node does not say goodbye.",
  section: "reconnect",
  advice:
    "Turn on gRPC's keepalive: a ping after 10 s, given up after 5 s (grpc.keepalive_time_ms, grpc.keepalive_timeout_ms).",
  async run(bench) {
    const stream = await bench.ready();
    const carried = await load(bench, stream, BUSY_MS);
    const since = performance.now();
    bench.network.fallSilent();
    const fresh = await within(SILENCE_MS, () =>
      bench.streams.findLast((one) => one.openedAt >= since && one.isReady && one !== stream),
    );
    if (!fresh) return violate(`no new stream came within ${SILENCE_MS / 1_000} s`);
    await expectCarried(bench, carried, fresh, BUSY_MS);
  },
};

const registeredAgain: Case = {
  name: "registered-again",
  rule: "When a worker has connected again, it registers its actions again, with only_missing: the service may have another database.",
  section: "registration",
  advice: 'After every HelloAck but the first, POST the registration again with "only_missing": true.',
  async run(bench) {
    await bench.ready();
    const since = performance.now();
    await bench.again({});
    await within(SOON_MS, () => bench.registrations.some(({ at }) => at >= since));
    const again = bench.registrations.find(({ at }) => at >= since);
    if (!again) return violate("a new stream came, and no registration");
    if (again.body.only_missing !== true)
      violate("the registration has no only_missing: it would replace that of a newer deployment");
  },
};

const older: Case = {
  name: "older-service",
  rule: "On a stream whose hello_ack has neither batches nor credit, a worker sends neither; its max_in_flight counts.",
  section: "batches",
  advice: "Go by the HelloAck of each stream: send no WorkerBatch without batches, and no Credit without credit.",
  async run(bench) {
    await bench.ready();
    try {
      const stream = await bench.again({ batches: false, credit: false });
      const count = Math.min(stream.credit ?? 1, 4);
      const steps = Array.from({ length: count }, (_, nth) => bench.give(stream, "echo", { inputs: { nth } }));
      for (const [nth, step] of steps.entries()) await expectOutput(bench, step, { nth });
      if (stream.batches.length > 0) violate("a WorkerBatch came, and the hello_ack had no batches");
      if (stream.credits.length > 0) violate("a Credit came, and the hello_ack had no credit");
    } finally {
      bench.reopen();
    }
  },
};

const newer: Case = {
  name: "newer-service",
  rule: "Members and messages that a worker does not know are ignored.",
  section: "changes",
  advice:
    "Ignore a CoordinatorMessage with no member that you know: a newer service may send what this release has not.",
  async run(bench) {
    await bench.ready();
    try {
      const stream = await bench.again({ fromTheFuture: true });
      stream.sendUnknown();
      await expectOutput(bench, bench.give(stream, "echo", { inputs: { newer: true } }), { newer: true });
      if (!stream.isLive) violate("the stream was closed on a message that the worker did not know");
    } finally {
      bench.reopen();
    }
  },
};

const STOP_MS = 15_000;

const stop: Case = {
  name: "stop",
  rule: "On SIGTERM a worker drains: it asks for no more steps, answers those in flight, waits until they are recorded, and ends with 0.",
  section: "drain",
  advice:
    "Handle SIGTERM: send Drain on every stream, go on resending until every answer is recorded, close the streams, and exit with 0.",
  async run(bench) {
    const stream = await bench.ready();
    const { process: worker } = bench;
    if (!worker) throw new NotApplicable("the worker was started by someone else: nobody sends it SIGTERM");
    stream.manners = { ...stream.manners, records: false };
    const step = bench.give(stream, "slow", { inputs: { ms: AWAY_MS }, heartbeatTimeoutMs: AWAY_MS });
    await within(SOON_MS, () => step.heartbeats.length > 0);
    worker.terminate();
    await within(SOON_MS, () => stream.drainedAt !== undefined || worker.ended !== undefined);
    if (stream.drainedAt === undefined)
      violate(worker.ended === undefined ? "no Drain came within 10 s" : `it ended without Drain (${worker.ended})`);
    await bench.answerOf(step);
    await within(3 * RESEND_MS, () => step.answers.length > 1 || worker.ended !== undefined);
    if (worker.ended !== undefined) violate(`it ended before its answer was recorded (${worker.ended})`);
    if (step.answers.length < 2) violate("while it drained, an answer without Recorded was not sent again");
    bench.record(step);
    await within(STOP_MS, () => worker.ended !== undefined);
    if (worker.ended === undefined) violate(`it had nothing left to do, and did not end within ${STOP_MS / 1_000} s`);
    if (worker.ended !== "exit code 0") violate(`it ended with ${worker.ended}, not with exit code 0`);
  },
};

export const STREAMS: readonly Case[] = [
  ...[resend, duplicates, ended, cut, silence],
  ...[registeredAgain, older, newer, stop],
];
