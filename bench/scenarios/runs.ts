// Runs from their start to their end: the start answers when the run has ended (`wait_ms`), so that clients, latencies and runs in
// progress are those of one request each.
import { FOREACH, INPUTS, ONE_STEP, PARALLEL, ROLLBACK, TEN_STEPS, THREE_STEPS, type Workload } from "../workloads.js";
import type { Scenario } from "./scenario.js";

type Given = Pick<Scenario, "name" | "title" | "count" | "worker" | "settings"> & { readonly concurrency?: number };

function runs(given: Given, workload: Workload, inputs: object = INPUTS, end = "succeeded"): Scenario {
  return {
    ...{ unit: "runs", concurrency: 64, kind: "operations" },
    ...given,
    async play(stage) {
      await stage.api.publish(workload);
      await stage.load("start to end", async () => {
        await stage.api.run(workload, { inputs }, end);
      });
    },
  };
}

const start: Scenario = {
  ...{ name: "start", title: "Start only: the answer is 202", unit: "starts", count: 6_000 },
  ...{ concurrency: 64, kind: "operations" },
  async play(stage) {
    await stage.api.publish(ONE_STEP);
    await stage.load("start", async () => {
      await stage.api.start(ONE_STEP);
    });
  },
};

const tenSteps = runs({ name: "ten-steps", title: "Ten steps in the service", count: 6_000 }, TEN_STEPS);

const tenCommits = runs(
  {
    name: "ten-steps-each-committed",
    title: "Ten steps in the service, one step a commit",
    count: 3_000,
    settings: { SAGA_STEPS_PER_COMMIT: "1" },
  },
  TEN_STEPS,
);

const THREE = { title: "Three steps of a worker", count: 3_000 };
const overGrpc = runs({ ...THREE, name: "three-steps-grpc", worker: "grpc" }, THREE_STEPS);
const overHttp = runs({ ...THREE, name: "three-steps-http", worker: "http" }, THREE_STEPS);
const overRabbitMq = runs({ ...THREE, name: "three-steps-rabbitmq", worker: "rabbitmq" }, THREE_STEPS);

const rollback = runs(
  { name: "rollback", title: "Three steps done, the fourth fails, three undone", count: 2_000, worker: "grpc" },
  ROLLBACK,
  INPUTS,
  "failed",
);

const parallel = runs({ name: "parallel", title: "Parallel of ten branches", count: 500 }, PARALLEL);

const ITEMS = { items: Array.from({ length: 100 }, (_, nth) => nth) };
const EACH = { name: "foreach", title: "Foreach of 100 items", count: 100, concurrency: 8 } as const;
const foreach = runs(EACH, FOREACH, ITEMS);

export const RUNS = [start, tenSteps, tenCommits, overGrpc, overHttp, overRabbitMq, rollback, parallel, foreach];
