// One program for every runtime: it takes runs of a real service to their ends, and meets errors of every kind. It needs the client and what all
// runtimes have, and returns what it saw as plain JSON. Beside the service there is a helper of the test, `aside`: it cuts connections, breaks them, hangs and redirects.
import {
  Conflict,
  Invalid,
  NotFound,
  SagaClient,
  SagaFailed,
  UnexpectedAnswer,
  Unreachable,
} from "@saga-orchestrator/client";

/** The name of the class that an error is of, found by `instanceof`, and what it says of itself. */
const CLASSES = { Conflict, Invalid, NotFound, SagaFailed, UnexpectedAnswer, Unreachable };

async function thrown(work) {
  try {
    await work();
  } catch (error) {
    const [name = "another"] = Object.entries(CLASSES).find(([, type]) => error instanceof type) ?? [];
    return { name, error };
  }
  throw new Error("nothing was thrown");
}

/**
 * The numbers of a run's events, to its end. With `aside`, at the first pause the connections of all watches are cut while they wait, and the run goes on before they are
 * back; at the second one a signal is sent from here.
 */
async function watched(saga, id, aside) {
  const run = saga.run(id);
  const seqs = [];
  let cutting;
  for await (const event of run.watch()) {
    seqs.push(event.seq);
    if (aside === undefined || event.event_type !== "step.paused") continue;
    if (event.step_id === "first") cutting = cutOn(aside, id);
    else await run.signal("go", { by: "ann 😀" });
  }
  return { seqs, cut: await cutting };
}

async function cutOn(aside, id) {
  const answer = await fetch(`${aside}/cut/${id}`, { method: "POST" });
  return answer.json();
}

/** `id`: of the workflows, one for each runtime. */
export async function play(url, aside, id) {
  // A function as the token: a header of the requests, and the name of a subprotocol of the stream.
  const saga = new SagaClient({ url, token: async () => "no-secret", retry: { initialBackoffMs: 20 } });
  const waits = [
    { id: "first", type: "wait_for_signal", signal_name: "go", next: "second" },
    { id: "second", type: "wait_for_signal", signal_name: "go", next: "end" },
    { id: "end", type: "end", output: "${vars.second}" },
  ];
  const input_schema = { type: "object", properties: { amount: { type: "number" } } };
  await saga.workflows.publish({ id, name: id, start: "first", input_schema, steps: waits });
  const broken = {
    id: `${id}-broken`,
    name: "broken",
    start: "stop",
    steps: [{ id: "stop", type: "error", code: "shut" }],
  };
  await saga.workflows.publish(broken);

  const run = await saga.start(id, { inputs: { amount: 9.5 } }, { key: `${id}-once` });
  const again = await saga.start(id, { inputs: { amount: 9.5 } }, { key: `${id}-once` });
  const seen = await Promise.all([
    watched(saga, run.id, aside),
    watched(new SagaClient({ url, webSocket: false }), run.id),
  ]);
  const stored = (await run.events().all()).map(({ seq }) => seq);
  const output = await run.result();

  const failed = await thrown(async () => (await saga.start(broken.id)).result());
  const conflict = await thrown(() => saga.start(id, { inputs: { amount: 1 } }, { key: `${id}-once` }));
  const invalid = await thrown(() => saga.start(id, { inputs: { amount: "much" } }));
  const missing = await thrown(() => saga.start(`${id}-missing`));

  const besides = (path) => new SagaClient({ url: `${aside}${path}`, retry: false, timeoutMs: 500 }).run("x");
  const lost = await thrown(() => besides("/broken").get());
  const late = await thrown(() => besides("/hanging").get());
  const moved = await thrown(() => besides("/moved").get());

  const endless = [];
  for (let n = 0; n < 5; n++) endless.push(await saga.start(id, { labels: { of: "pages" } }));
  const sizes = [];
  const listed = new Set();
  for await (const { items } of saga.runs.list({ workflow_id: id, labels: { of: "pages" }, limit: 2 }).pages()) {
    sizes.push(items.length);
    for (const one of items) listed.add(one.id);
  }

  const why = new Error("enough");
  const abort = new AbortController();
  const stopped = await thrown(async () => {
    for await (const event of endless[0].watch({ signal: abort.signal }))
      if (event.to_state === "paused") abort.abort(why);
  });
  const timed = await thrown(() => endless[1].result({ signal: AbortSignal.timeout(300) }));
  for (const one of endless) await one.terminate({ reason: "no longer needed" });

  return {
    once: again.id === run.id && again.started.deduplicated,
    watched: seen.map(({ seqs }) => stored.length > 4 && seqs.join() === stored.join()),
    cut: seen[0].cut,
    output,
    failed: [failed.name, failed.error.code, failed.error.step],
    refused: [conflict, invalid, missing].map(({ name, error }) => [name, error.status, error.code]),
    where: invalid.error.details.map(({ path }) => path),
    lost: [lost.name, lost.error.message.startsWith(`${aside}/broken/api/v1/sagas/x cannot be reached: `)],
    late: [late.name, late.error.message.endsWith("within 500 ms")],
    moved: [moved.name, moved.error.message.includes("redirects to")],
    pages: { sizes, all: endless.every((one) => listed.has(one.id)) && listed.size === endless.length },
    aborted: [stopped.error === why, timed.error.name],
  };
}
