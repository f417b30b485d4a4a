// How a worker introduces itself: its registration, its hello, its credential and its credit. What it does with steps is in the other files.
import type { Bench } from "../bench.js";
import { SOON_MS } from "../bench.js";
import type { Case } from "../case.js";
import { ACTIONS, SERVICE } from "../contract.js";
import { within } from "../patience.js";
import { NotApplicable } from "../rule.js";
import { expectOutput, violate } from "./expect.js";

const ID = /^[A-Za-z0-9_.:-]{1,128}$/;

interface DeclaredAction {
  readonly action_name?: unknown;
  readonly version?: unknown;
  readonly transport?: unknown;
  readonly service?: unknown;
}

const registration: Case = {
  name: "registration",
  rule: "A worker registers all of its actions by POST /api/v1/registry/register before it takes steps.",
  section: "registration",
  advice: `POST {"service": "${SERVICE}", "actions": [{"action_name": "echo"}, …]} with the four actions to SAGA_API at every start.`,
  async run(bench) {
    await bench.ready();
    const [strange] = bench.registry.strange;
    if (strange !== undefined) violate(`the API was asked for something that is no registration: ${strange}`);
    const [first] = bench.registrations;
    if (!first) return violate("the worker took steps and registered nothing");
    if (first.body.service !== SERVICE) violate(`service is ${JSON.stringify(first.body.service)}, not "${SERVICE}"`);
    if (!Array.isArray(first.body.actions)) return violate("the body has no list of actions");
    if (first.body.only_missing === true)
      violate("the first registration of a process has only_missing: it replaces nothing");
    const actions = first.body.actions as readonly DeclaredAction[];
    const names = actions.map(({ action_name, version = 1 }) => `${String(action_name)}@${String(version)}`);
    const missing = ACTIONS.filter((name) => !names.includes(`${name}@1`));
    if (missing.length > 0) violate(`${missing.join(", ")} is not registered in version 1: it has ${names.join(", ")}`);
    const other = actions.find(({ transport = "grpc" }) => transport !== "grpc");
    if (other) violate(`${String(other.action_name)} has the transport ${JSON.stringify(other.transport)}, not "grpc"`);
  },
};

const hello: Case = {
  name: "hello",
  rule: "The first message of every stream is a hello with the worker's id, its service and its actions.",
  section: "hello",
  advice:
    "Send Hello first, with worker_id and service as [A-Za-z0-9_.:-]{1,128}, and actions as a name, a name@version, or none for all.",
  async run(bench) {
    const { hello } = await bench.ready();
    for (const { disorder } of bench.streams) if (disorder !== undefined) violate(disorder);
    if (!hello) return violate("no hello came");
    for (const [name, id] of Object.entries({ worker_id: hello.worker_id, service: hello.service }))
      if (!ID.test(id)) violate(`${name} is ${JSON.stringify(id)}, which does not match ${ID.source}`);
    if (hello.service !== SERVICE) violate(`service is ${hello.service}, not ${SERVICE}`);
    const missing = ACTIONS.filter((name) => !hello.actions.includes(name) && !hello.actions.includes(`${name}@1`));
    if (hello.actions.length > 0 && missing.length > 0) violate(`actions lacks ${missing.join(", ")}`);
    if (bench.streams[0]?.hello?.in_flight.length) violate("the first hello of a process names steps in in_flight");
  },
};

const credential: Case = {
  name: "credential",
  rule: "A worker with a credential shows the same one in its registration and on every stream.",
  section: "credentials",
  advice:
    "Send SAGA_TOKEN as Authorization: Bearer … of the registration, and as token of every Hello or as the metadata authorization.",
  async run(bench) {
    const stream = await bench.ready();
    const { token } = bench.options;
    const authorization = bench.registrations[0]?.authorization;
    const shown = [stream.hello?.token || undefined, stream.bearer].filter((each) => each !== undefined);
    if (authorization === undefined && shown.length === 0)
      throw new NotApplicable("the worker shows no credential: a service with access control refuses it");
    if (authorization === undefined)
      violate("the stream has the credential, the registration has no header Authorization");
    if (authorization !== `Bearer ${token}`) violate("Authorization of the registration is not Bearer and SAGA_TOKEN");
    if (shown.length === 0) violate("the registration has the credential, the stream has none");
    if (shown.some((each) => each !== token)) violate("the credential of the stream is not SAGA_TOKEN");
  },
};

const credit: Case = {
  name: "credit",
  rule: "A worker executes as many steps at once as its credit says, and answers each of them.",
  section: "credit",
  advice:
    "Execute every step as soon as it comes, or offer less: max_in_flight 1 is a worker that takes one step after the other.",
  async run(bench) {
    const stream = await bench.ready();
    const most = stream.credit ?? 1;
    if (most < 1) violate("the only stream has a credit of 0: no step would ever come");
    const count = Math.min(most, 8);
    const inputs = { ms: EACH_MS };
    const since = performance.now();
    const steps = Array.from({ length: count }, () => bench.give(stream, "slow", { inputs }));
    for (const step of steps) await bench.answerOf(step, SOON_MS + count * EACH_MS);
    const took = performance.now() - since;
    if (count > 1 && took > EACH_MS * (count / 2 + 1))
      violate(
        `${count} steps of ${EACH_MS} ms took ${Math.round(took)} ms with a credit of ${most}: they wait for each other`,
      );
  },
};

const EACH_MS = 1_000;

const creditChange: Case = {
  name: "credit-change",
  rule: "A worker that sets its credit sends one Credit, and the next one only after it was answered with Credited.",
  section: "credit",
  advice:
    "Send Credit after HelloAck if it has credit, remember that it is under way, and send another one when Credited has come.",
  async run(bench) {
    const { hello } = await bench.ready();
    if (!hello?.credit) throw new NotApplicable("the hello has no credit: max_in_flight counts");
    try {
      const since = performance.now();
      bench.manners = { ...bench.manners, credits: false };
      await expectOneCredit(bench, since);
    } finally {
      bench.settle();
    }
  },
};

/** The answer is held back for longer than a worker needs for a second one. */
const HELD_MS = 2_500;

async function expectOneCredit(bench: Bench, since: number): Promise<void> {
  for (const open of bench.streams) if (open.isLive) open.close();
  const fresh = await within(SOON_MS, () =>
    bench.streams.find((one) => one.openedAt >= since && one.credits.length > 0),
  );
  if (!fresh) return violate("no stream with a Credit came after a reconnect");
  await within(HELD_MS, () => fresh.credits.length > 1);
  if (fresh.credits.length > 1) violate("a second Credit came before the first was answered");
  fresh.grant();
  await expectOutput(bench, bench.give(fresh, "echo", { inputs: { credited: true } }), { credited: true });
}

export const START: readonly Case[] = [registration, hello, credential, credit, creditChange];
