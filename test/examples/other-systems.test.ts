// Sagas ported from other systems (examples/), run by the real service with real workers to every end that the originals reach:
// states, outputs, and the undos in their order.
// @module-tag long
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { isObject, type JsonObject } from "../../machines/index.js";
import { type ActionContext, ActionError, createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { Client } from "../faults/client.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";

const EXAMPLES = resolve(import.meta.dirname, "../../examples");
const FOLDERS = ["travel-saga", "inventory-and-balance", "fork-with-loop"];
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

type Doing = (input: JsonObject, context: ActionContext) => JsonObject | Promise<JsonObject>;

let database: TestDatabase;
let service: ServiceProcess;
let client: Client;
let workers: Worker[];
/** The implementations of the current test, by "service.name"; the default returns {}. */
let script: Record<string, Doing> = {};
/** The executed actions, in order. */
let done: { action: string; input: JsonObject }[] = [];

const documents = FOLDERS.flatMap((folder) =>
  readdirSync(join(EXAMPLES, folder))
    .filter((file) => file.endsWith(".workflow.json"))
    .map((file) => JSON.parse(readFileSync(join(EXAMPLES, folder, file), "utf8")) as JsonObject),
);

/** Every action in the documents, by service. */
function named(): Map<string, Set<string>> {
  const services = new Map<string, Set<string>>();
  const note = (action: unknown) => {
    const [name = "", action_name = ""] = String(action).split(".");
    services.set(name, (services.get(name) ?? new Set()).add(action_name));
  };
  for (const step of documents.flatMap(({ steps }) => steps as unknown as JsonObject[])) {
    if (step.action !== undefined) note(step.action);
    if (isObject(step.compensation)) note(step.compensation.action);
  }
  return services;
}

function workerOf(serviceName: string, names: ReadonlySet<string>): Worker {
  const actions = [...names].map(
    (name): Action => ({
      name,
      async execute(input: JsonObject, context) {
        const action = `${serviceName}.${name}`;
        const output = (await script[action]?.(input, context)) ?? {};
        done.push({ action, input });
        return output;
      },
    }),
  );
  const timing = { resendMs: 100, backoffMs: 50 };
  const at = { grpc: service.grpcAddress, api: service.url };
  return handleAll(createWorker({ service: serviceName, ...at, log: SILENT, timing }), serviceName, actions);
}

beforeAll(async () => {
  database = await createTestDatabase({ max: 2 });
  service = await createService({ DATABASE_URL: database.url, SAGA_WORKERS: "1" });
  await service.start();
  client = new Client(service.url);
  workers = [...named()].map(([name, actions]) => workerOf(name, actions));
  await Promise.all(workers.map((worker) => worker.start()));
  for (const document of documents) {
    const { status, body } = await client.insist("POST", "/workflows", { ...document, published: true });
    expect({ status, body }).toMatchObject({ status: 201 });
  }
});
afterAll(async () => {
  for (const worker of workers ?? []) await worker.stop();
  await service?.stop();
  await database?.drop();
});
beforeEach(() => {
  script = {};
  done = [];
});

const refused = (code: string) => (): never => {
  throw new ActionError(code, code, { retryable: false });
};
const gone = (): never => {
  throw new Error("the connection was lost");
};

interface Ended {
  readonly state: string;
  readonly output?: unknown;
  readonly error?: JsonObject;
  readonly requires_manual_review: boolean;
}

/** Starts a run and awaits its end. `begun` receives its id before the run can call an action. */
async function run(workflow: string, inputs: JsonObject, begun: (runId: string) => void = () => {}) {
  const runId = await client.start(workflow, { inputs });
  begun(runId);
  const ended = await until(
    async () => {
      const { body } = await client.ask("GET", `/sagas/${runId}`);
      return body.terminal_at !== undefined && body;
    },
    { what: "the run's end" },
  );
  const { body: undo } = await client.ask("GET", `/sagas/${runId}/undo`);
  return { ...(ended as Ended), undo: undo.items as JsonObject[] };
}

const undone = () =>
  done.map(({ action }) => action).filter((action) => /\.(cancel|refund|compensate|remove)/.test(action));

/** A gate that opens when the named branches have succeeded, so that the order of completion is known. */
function afterBranches() {
  let tell: (runId: string) => void = () => {};
  const started = new Promise<string>((resolve) => {
    tell = resolve;
  });
  const awaitBranches = async (...branches: string[]) => {
    const runId = await started;
    await until(
      async () => {
        const { body } = await client.ask("GET", `/sagas/${runId}/children`);
        const children = body.items as { parent_branch_id: string; state: string }[];
        const ended = children.filter(({ state }) => state === "succeeded").map(({ parent_branch_id: name }) => name);
        return branches.every((name) => ended.includes(name));
      },
      { what: `the ends of ${branches}` },
    );
  };
  return { begun: (runId: string) => tell(runId), awaitBranches };
}

describe("the travel saga of Step Functions", () => {
  const inputs = { trip_id: "t-1", amount: 900 };
  const reserving = (): Record<string, Doing> => ({
    "travel.reserve_hotel": () => ({ reservation: "H-1" }),
    "travel.reserve_flight": () => ({ reservation: "F-1" }),
    "travel.reserve_car": () => ({ reservation: "C-1" }),
  });
  /** Completes hotel, then flight, then car. */
  function inOrder(car: Doing) {
    const gate = afterBranches();
    script = {
      ...reserving(),
      "travel.reserve_flight": async () => {
        await gate.awaitBranches("hotel");
        return { reservation: "F-1" };
      },
      "travel.reserve_car": async (input, context) => {
        await gate.awaitBranches("hotel", "flight");
        return car(input, context);
      },
    };
    return gate.begun;
  }

  it("books all three", async () => {
    script = reserving();
    const ended = await run("travel", inputs);
    expect(ended).toMatchObject({ state: "succeeded", output: { hotel: "H-1", flight: "F-1", car: "C-1" } });
    expect(undone()).toEqual([]);
    expect(done.at(-1)).toMatchObject({ action: "travel.charge", input: inputs });
  });

  it("retries a busy hotel", async () => {
    const busy = (_: JsonObject, { attempt }: ActionContext) => {
      if (attempt < 3) throw new ActionError("busy", "try again");
      return { reservation: "H-3" };
    };
    script = { ...reserving(), "travel.reserve_hotel": busy };
    expect(await run("travel", inputs)).toMatchObject({ state: "succeeded", output: { hotel: "H-3" } });
  });

  it("cancels flight and then hotel if there is no car, and notifies the traveller", async () => {
    const begun = inOrder(refused("no_car"));
    const ended = await run("travel", inputs, begun);
    expect(ended).toMatchObject({ state: "failed", error: { code: "no_car" }, requires_manual_review: false });
    expect(undone()).toEqual(["travel.cancel_flight", "travel.cancel_hotel"]);
    expect(done.map(({ input }) => input)).toContainEqual({ reservation: "H-1" });
    expect(done.at(-1)).toEqual({ action: "travel.notify", input: { trip_id: "t-1", why: "no_car" } });
  });

  it("cancels all three, the newest first, if the card is declined", async () => {
    const begun = inOrder(() => ({ reservation: "C-1" }));
    script["travel.charge"] = refused("card_declined");
    const ended = await run("travel", inputs, begun);
    expect(ended).toMatchObject({ state: "failed", error: { code: "card_declined" } });
    expect(undone()).toEqual(["travel.cancel_car", "travel.cancel_flight", "travel.cancel_hotel"]);
    expect(ended.undo).toMatchObject([
      { step_id: "hotel", state: "done" },
      { step_id: "flight", state: "done" },
      { step_id: "car", state: "done" },
    ]);
    expect(done.at(-1)).toMatchObject({ action: "travel.notify" });
  });

  it("asks for a review if a cancel fails for good, and makes the others", async () => {
    const begun = inOrder(() => ({ reservation: "C-1" }));
    script["travel.charge"] = refused("card_declined");
    script["travel.cancel_flight"] = refused("too_late");
    const ended = await run("travel", inputs, begun);
    expect(ended).toMatchObject({ state: "failed", error: { code: "card_declined" }, requires_manual_review: true });
    expect(undone()).toEqual(["travel.cancel_car", "travel.cancel_hotel"]);
  });
});

describe("inventory and balance of Seata", () => {
  const inputs = { business_key: "b-1", count: 10, amount: 100 };
  const reduced = () => ({ reduced: true });
  const start = () => run("reduce-inventory-and-balance", inputs);

  it("succeeds", async () => {
    script = { "inventory.reduce": reduced };
    expect(await start()).toMatchObject({ state: "succeeded", output: { business_key: "b-1" } });
    expect(done).toEqual([
      { action: "inventory.reduce", input: { business_key: "b-1", count: 10 } },
      { action: "balance.reduce", input: { business_key: "b-1", amount: 100 } },
    ]);
  });

  it("puts the inventory back if the balance is refused", async () => {
    script = { "inventory.reduce": reduced, "balance.reduce": refused("insufficient") };
    expect(await start()).toMatchObject({
      state: "failed",
      error: { code: "insufficient", step_id: "reduce_balance" },
    });
    expect(undone()).toEqual(["inventory.compensate_reduce"]);
  });

  it("compensates the balance too, and first, if its outcome is unknown", async () => {
    script = { "inventory.reduce": reduced, "balance.reduce": gone };
    expect(await start()).toMatchObject({ state: "failed", requires_manual_review: false });
    expect(undone()).toEqual(["balance.compensate_reduce", "inventory.compensate_reduce"]);
    expect(done.at(-1)?.input).toEqual({ business_key: "b-1" });
  });

  it("fails with NOT_FOUND if the inventory was not reduced, and never touches the balance", async () => {
    script = { "inventory.reduce": () => ({ reduced: false }) };
    expect(await start()).toMatchObject({ state: "failed", error: { code: "NOT_FOUND", message: "not found" } });
    expect(done.map(({ action }) => action)).toEqual(["inventory.reduce", "inventory.compensate_reduce"]);
  });

  it("asks for a review if a compensation fails for good", async () => {
    script = { "inventory.reduce": reduced, "balance.reduce": gone, "balance.compensate_reduce": refused("closed") };
    expect(await start()).toMatchObject({ state: "failed", requires_manual_review: true });
    expect(undone()).toEqual(["inventory.compensate_reduce"]);
  });
});

describe("the fork with a loop of Conductor", () => {
  const inputs = { asset: "a-1" };
  const making: Record<string, Doing> = {
    "media.make_thumbnail": () => ({ file: "a-1.png" }),
    "media.publish": () => ({ url: "https://tv.example/a-1" }),
  };
  const rounds = () => done.filter(({ action }) => action === "media.check_encoding").map(({ input }) => input.round);

  it("polls until the encoding is complete, and publishes", async () => {
    script = { ...making, "media.check_encoding": ({ round }) => ({ state: round === 2 ? "done" : "busy" }) };
    const ended = await run("publish-video", inputs);
    expect(ended).toMatchObject({ state: "succeeded", output: { url: "https://tv.example/a-1", rounds: 3 } });
    expect(rounds()).toEqual([0, 1, 2]);
    expect(done.at(-1)).toEqual({ action: "media.publish", input: { asset: "a-1", thumbnail: "a-1.png" } });
    expect(undone()).toEqual([]);
  });

  it("gives up after five rounds, and removes thumbnail and asset", async () => {
    const gate = afterBranches();
    const check = async () => {
      await gate.awaitBranches("thumbnail");
      return { state: "busy" };
    };
    script = { ...making, "media.check_encoding": check };
    const ended = await run("publish-video", inputs, gate.begun);
    expect(ended).toMatchObject({ state: "failed", error: { code: "loop_limit_exceeded", step_id: "encode" } });
    expect(rounds()).toEqual([0, 1, 2, 3, 4]);
    expect(undone()).toEqual(["media.remove_thumbnail", "media.remove"]);
    expect(done.at(-2)?.input).toEqual({ file: "a-1.png" });
  });

  it("ends with the first check that fails for good, even while the thumbnail is being made", async () => {
    let checked: () => void = () => {};
    const failed = new Promise<void>((resolve) => {
      checked = resolve;
    });
    script = {
      ...making,
      "media.make_thumbnail": async () => {
        await failed;
        return { file: "late.png" };
      },
      "media.check_encoding": () => {
        checked();
        return refused("codec")();
      },
    };
    const ended = await run("publish-video", inputs);
    expect(ended).toMatchObject({ state: "failed", error: { code: "codec" } });
    expect(undone().at(-1)).toBe("media.remove");
    // The thumbnail may be made before or after the cancel arrives; either way it is undone.
    const made = done.some(({ action }) => action === "media.make_thumbnail");
    expect(undone().includes("media.remove_thumbnail")).toBe(made);
  });
});
