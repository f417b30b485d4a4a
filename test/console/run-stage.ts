// A service, a worker whose work the test holds back and lets go, and workflows to look at: the stage of the tests of the page of a run. It
// opens no page.
import { ActionError, createWorker } from "../../src/sdk/worker/index.js";
import { type Action, handleAll } from "../harness/actions.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { DIES_OF_ITS_TRIAL } from "../harness/deadly-trial.js";
import { atFileEnd } from "../harness/file-end.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { call } from "./runs-service.js";

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** What waits until it is opened. */
class Gate {
  private open = () => {};
  private opened: Promise<void>;

  constructor() {
    this.opened = new Promise((resolve) => (this.open = resolve));
  }

  get passed(): Promise<void> {
    return this.opened;
  }

  letGo(): void {
    this.open();
  }
}

export interface Stage {
  readonly service: ServiceProcess;
  readonly database: TestDatabase;
  /** Holds the items of the journey. */
  readonly packing: Gate;
  /** Holds its undos. */
  readonly undoing: Gate;
  /** The undo `shop.broken` fails for good until it is mended. */
  mendUndo(): void;
  start(workflow: string, more?: object): Promise<string>;
}

export async function openStage(): Promise<Stage> {
  const database = await createTestDatabase();
  atFileEnd(() => database.drop());
  const env = { DATABASE_URL: database.url, SAGA_WORKERS: "1", NODE_OPTIONS: DIES_OF_ITS_TRIAL };
  const service = await (await createService(env)).start();
  const [packing, undoing] = [new Gate(), new Gate()];
  let isMended = false;
  const work = (name: string, execute: (input: Record<string, unknown>) => unknown): Action => ({
    ...{ name, compensable: true, timeoutMs: 120_000 },
    execute: async (input: Record<string, unknown>) => ({ done: (await execute(input)) ?? name }),
  });
  const actions = [
    work("do", () => undefined),
    work("pack", () => packing.passed),
    work("undo", () => undoing.passed),
    work("broken", () => {
      if (!isMended) throw new ActionError("refund_down", "the refund service is down", { retryable: false });
    }),
    work("charge", ({ amount }) => {
      if (Number(amount) > 10) throw new ActionError("too_much", "the limit is 10", { retryable: false });
    }),
  ];
  const connection = { grpc: service.grpcAddress, api: service.url };
  const worker = createWorker({ service: "shop", ...connection, log: silent, maxInFlight: 300 });
  handleAll(worker, "shop", actions);
  await worker.start();
  atFileEnd(() => worker.stop());
  for (const document of WORKFLOWS) await call(service, "POST", "/workflows", { ...document, published: true });
  return {
    ...{ service, database, packing, undoing },
    mendUndo: () => {
      isMended = true;
    },
    start: async (workflow_id, more = {}) =>
      (await call<{ run_id: string }>(service, "POST", "/sagas/start", { workflow_id, ...more })).run_id,
  };
}

const done = (id: string, next?: string, undo = "shop.undo") => ({
  ...{ id, type: "action", action: "shop.do", compensation: { action: undo } },
  ...(next !== undefined && { next }),
});

/** Reserves, pays and asks side by side, packs 200 items, waits, fails, and is undone. */
const JOURNEY = {
  ...{ id: "journey", name: "A journey of an order", start: "reserve" },
  steps: [
    { ...done("reserve", "fork"), title: "Reserve the goods" },
    { id: "fork", type: "parallel", branches: { pay: { next: "pay" }, ask: { next: "ask" } }, next: "join" },
    { ...done("pay"), title: "Charge the card" },
    { id: "ask", type: "wait_for_signal", signal_name: "go" },
    { id: "join", type: "join", next: "each" },
    { id: "each", type: "foreach", items: "inputs.items", body: "pack", max_concurrency: 0, next: "ship" },
    { id: "pack", type: "action", action: "shop.pack" },
    { id: "ship", type: "wait_for_signal", signal_name: "ship", next: "lost" },
    { id: "lost", type: "error", code: "parcel_lost", message: "the parcel is lost" },
  ],
};

const WAIT = { id: "hold", type: "wait_for_signal", signal_name: "go", next: "end" };

const WORKFLOWS = [
  JOURNEY,
  { id: "waits", name: "Waits", start: "hold", steps: [WAIT, { id: "end", type: "end", output: "${vars.hold}" }] },
  { id: "sleeps", name: "Sleeps", start: "hold", steps: [{ id: "hold", type: "wait_duration", duration: "PT1H" }] },
  {
    ...{ id: "charges", name: "Charges", start: "charge", on_failure: "incident" },
    steps: [{ id: "charge", type: "action", action: "shop.charge", inputs: { amount: "${vars.amount}" } }],
  },
  {
    ...{ id: "stands", name: "Stands at its undo", start: "first", on_undo_failure: "incident" },
    steps: [
      done("first", "second", "shop.broken"),
      done("second", "fails", "shop.broken"),
      { id: "fails", type: "error", code: "late" },
    ],
  },
  {
    ...{ id: "asks", name: "Asks a person", start: "ask" },
    steps: [{ id: "ask", type: "manual_approval", assignee: "ann", title: "Approve it" }],
  },
  { id: "moves", name: "Moves", version: 1, start: "hold", steps: [WAIT, { id: "end", type: "end" }] },
  {
    ...{ id: "moves", name: "Moves", version: 2, start: "hold" },
    steps: [WAIT, { id: "end", type: "end" }, { id: "more", type: "noop" }],
  },
  {
    ...{ id: "items", name: "Many items", start: "each" },
    steps: [
      { id: "each", type: "foreach", items: "inputs.items", body: "hold", max_concurrency: 0 },
      { id: "hold", type: "wait_for_signal", signal_name: "never" },
    ],
  },
];
