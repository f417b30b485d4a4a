// Workflows per second over HTTP, with the real service and everything else on one machine: ten in-process steps at 64 and at 1
// steps a commit, and three gRPC steps with 64 runs at once. Compare ratios, not numbers.
import { Type } from "typebox";
import { createWorker, defineAction } from "../src/sdk/worker/index.js";
import { ended, freshDatabase, load, perSecond, post, startService } from "./service.js";

const AT_ONCE = 64;
const COUNT = Number(process.env.COUNT ?? 6_000);
const PROFILE = process.env.PROFILE ? ["--cpu-prof", `--cpu-prof-dir=${process.env.PROFILE}`] : [];

const TEN_STEPS = {
  id: "ten-steps",
  name: "Ten recorded in-process steps",
  start: "s0",
  published: true,
  steps: Array.from({ length: 10 }, (_, index) => ({
    id: `s${index}`,
    type: "transform",
    expression: `inputs.amount * ${index} + 1`,
    ...(index < 9 && { next: `s${index + 1}` }),
  })),
};

const THREE_CALLS = {
  id: "three-calls",
  name: "Three gRPC steps",
  start: "a",
  published: true,
  steps: ["a", "b", "c"].map((id, index, all) => ({
    id,
    type: "action",
    action: "bench.echo",
    inputs: { amount: "${inputs.amount}" },
    ...(index < 2 && { next: all[index + 1] }),
  })),
};

interface Figures {
  readonly workflows: number;
  readonly transitions: number;
}

async function measure(
  workflow: typeof TEN_STEPS | typeof THREE_CALLS,
  steps: number,
  env: Record<string, string>,
): Promise<Figures> {
  const database = await freshDatabase();
  const service = await startService(database.url, { LOG_LEVEL: "info", ...env }, PROFILE);
  const worker = createWorker({
    service: "bench",
    grpc: service.grpc,
    api: service.base,
    maxInFlight: AT_ONCE,
    actions: [
      defineAction({ name: "echo", input: Type.Object({}), output: Type.Object({}), execute: async (input) => input }),
    ],
  });
  await worker.start();
  await post(`${service.base}/api/v1/workflows`, workflow);
  const run = async (count: number, total: number) => {
    await load(count, AT_ONCE, () =>
      post(`${service.base}/api/v1/sagas/start`, { workflow_id: workflow.id, inputs: { amount: 7 } }),
    );
    await ended(database.sql, workflow.id, total);
  };
  const warm = Math.round(COUNT / 4);
  await run(warm, warm);
  const since = performance.now();
  await run(COUNT, warm + COUNT);
  const workflows = perSecond(COUNT, since);
  await worker.stop();
  await service.stop();
  await database.drop();
  return { workflows, transitions: workflows * steps };
}

const cases = [
  ["ten in-process steps, 64 steps a commit", TEN_STEPS, 10, { SAGA_STEPS_PER_COMMIT: "64" }],
  ["ten in-process steps, 1 step a commit", TEN_STEPS, 10, { SAGA_STEPS_PER_COMMIT: "1" }],
  // Each call takes three transitions: entered, dispatched, answered.
  ["three gRPC steps, 64 at once", THREE_CALLS, 9, {}],
] as const;

for (const [name, workflow, transitions, env] of cases) {
  if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
  const figures = await measure(workflow, transitions, env);
  console.log(`${name}: ${figures.workflows} workflows/s, ${figures.transitions} transitions/s`);
}
