// Sagas with every step type, and nearly every attribute. What they are written as is checked by the tests that use them.
import { cel, pinned, saga, text } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { confirmed, order, shop } from "./order.js";

export const input = Type.Object({
  n: Type.Number(),
  note: Type.Optional(Type.String()),
  lines: Type.Array(Type.Number()),
});
export const begun = () => saga("s", { name: "S", input });

/** Every step type, with every attribute that it has a value for. */
export function everything() {
  const common = { title: "T", description: "D", onFailure: "incident", onUndoFailure: "continue" } as const;
  return saga("all", {
    ...{ name: "All", description: "Every step", version: 3, published: false, timeoutMs: 5000, onFailure: "rollback" },
    ...{
      onUndoFailure: "incident",
      migrations: { 1: { old: "note" } },
      tenantId: "t",
      schema: "https://a.example/s.json",
    },
    ...{ createdAt: "2026-01-01T00:00:00Z", createdBy: "ann", input },
    concurrency: { key: ({ inputs }) => inputs.n, limit: 2, onLimit: "refuse" },
    rateLimit: { key: ({ inputs }) => inputs.n, limit: 2, perMs: 1_000, burst: 3 },
    retention: { days: 30, failedDays: 400 },
  })
    .noop("note", { ...common, when: ({ inputs }) => cel`${inputs.n} > 1` })
    .setVar("vars", { a: 1, b: "${x}" })
    .setVar("one", "total", ({ vars }) => cel<number>`${vars.a} + 1`, { title: "One" })
    .setVar("two", "text", "${x}", { undo: [pinned(shop.notify), { text: "x" }] })
    .setVar("three", "nothing", null)
    .setVar("four", "copy", ({ inputs }) => inputs.note)
    .entrypoint("late")
    .transform("t1", ({ inputs }) => cel<number>`${inputs.n} + 1`, {
      saveAs: "sum",
      ...common,
      undo: [shop.notify, { text: "x" }],
    })
    .transform("t2", ({ inputs }) => ({ n: inputs.n }), { saveAs: null })
    .merge("m", [cel<{ a: number }>`{'a': 1}`, cel<{ b: string }>`{'b': 'x'}`], { strategy: "deep" })
    .close();
}

/** Lists, and what only notes something or waits. */
export function lists() {
  return begun()
    .filter(
      "f",
      ({ inputs }) => inputs.lines,
      ({ item, index }) => cel`${item} > ${index}`,
    )
    .map(
      "mp",
      ({ inputs }) => inputs.lines,
      ({ item }) => cel<number>`${item} * 2`,
    )
    .map(
      "mt",
      ({ inputs }) => inputs.lines,
      ({ item, index }) => ({ item, index }),
    )
    .log("lg", text`n`, { level: "warn", fields: ({ inputs }) => ({ n: inputs.n }) })
    .metricEmit("me", "n", { value: 2, kind: "gauge", tags: { a: "b" } })
    .assert("as", true, "bad", { message: "no" })
    .waitDuration("w1", 5)
    .waitDuration("w2", "PT1S")
    .waitDuration("w3", { durationMs: ({ inputs }) => inputs.n })
    .waitUntil("wu", "2026-01-01T00:00:00Z", { onError: "continue" })
    .waitForSignal("ws", confirmed, { payloadSchema: Type.Object({}), timeoutMs: 5, onTimeout: "continue" })
    .waitForEvent("we", "topic", {
      ...{
        headers: { a: "b" },
        lookback: "none",
        payloadSchema: Type.Object({}),
        timeoutMs: 5,
        onTimeout: (late) => late.log("late", "late"),
      },
      payload: Type.Object({ n: Type.Number() }),
      match: ({ event, inputs }) => cel`${event.payload.n} == ${inputs.n}`,
    })
    .close();
}

/** Calls, choices and tasks. */
export function calls() {
  return begun()
    .emitEvent("ee", "topic", { payload: { n: 1 }, headers: { a: null } })
    .emitSignal("es", confirmed, { runId: ({ run }) => run.id, payload: { by: "me" } })
    .action("ac", pinned(shop.charge), {
      ...{ inputs: { amount_cents: 5 }, timeoutMs: 1, queueTimeoutMs: 2, heartbeatTimeoutMs: 3 },
      concurrency: { key: ({ inputs }) => inputs.n, limit: 3 },
      rateLimit: { key: ({ inputs }) => inputs.n, limit: 3, perMs: ({ inputs }) => inputs.n, burst: 1 },
      retry: {
        maxAttempts: -1,
        initialBackoffMs: 1,
        maxBackoffMs: 2,
        multiplier: 3,
        jitter: false,
        nonRetryableCodes: ["x"],
      },
      undo: [pinned(shop.refund), ({ output }) => ({ receipt: output.receipt })],
      onError: (failed) => failed.log("failed", ({ steps }) => steps.ac.error.code).error("ac_failed"),
    })
    .action("any", ({ run }) => text`shop.${run.workflow_id}`, {
      inputs: { a: 1 },
      undo: { action: ({ output }) => text`shop.undo_${output}`, inputs: ({ output }) => ({ output }) },
    })
    .action("named", ({ run }) => text`${run.workflow_id}`, {})
    .action("other", () => cel<string>`'a.b@2'`, { undo: { action: () => cel<string>`'a.c'` } })
    .httpRequest("hr", {
      ...{
        url: "https://a.example/",
        method: "POST",
        headers: { a: "b" },
        query: { q: [1] },
        body: { a: 1 },
        timeoutMs: 5,
      },
      ...{ expectedStatus: ["2xx", 304], followRedirects: true, outputSchema: Type.Object({}), secretRef: "pay" },
      response: Type.Object({ usd: Type.Number() }),
    })
    .webhookEmit("wh", { url: "https://a.example/", eventType: "e", payload: 1, headers: { a: "b" }, secretRef: "s" })
    .decision("d1", ({ steps }) => cel<string>`${steps.hr.body.usd} > 1 ? 'a' : 'b'`, {
      a: (b) => b,
      default: (b) => b.noop("b"),
    })
    .decision("d2", { rule: "r", inputs: { n: 1 }, outputKey: "k" }, { default: (b) => b.end("early") }, { when: true })
    .switch("sw", [{ when: ({ inputs }) => cel`${inputs.n} > 1`, then: (b) => b.noop("many") }], {
      default: (b) => b.noop("few"),
    })
    .switchOn("so", ({ inputs }) => inputs.n, {
      1: (b) => b.error("one", { code: "one", message: "m", details: { a: 1 } }),
      default: (b) => b,
    })
    .decision("d3", cel<string>`'c'`, { a: (b) => b.noop("d3a") }, { onNoMatch: "continue" })
    .switch("s3", [{ when: true, then: (b) => b.noop("s3a") }], { onNoMatch: "continue" })
    .switchOn("s4", cel<string>`'c'`, { a: (b) => b.noop("s4a") }, { onNoMatch: "continue", title: "S" })
    .manualApproval("ma", {
      ...{
        assignee: "a",
        title: "T ${x}",
        dueInMs: 5,
        formSchema: Type.Object({ why: Type.String() }),
        onTimeout: "continue",
      },
      rejected: (no) => no.log("rejected", ({ steps }) => steps.ma.why),
    })
    .collectInput("ci", { assignee: "a", dueAt: "2026-01-01T00:00:00Z", formSchema: Type.Object({ a: Type.String() }) })
    .close();
}

/** The blocks, and what runs other sagas. */
export function blocks() {
  return begun()
    .parallel(
      "pa",
      { x: (b) => b.transform("px", 1), y: (b) => b.transform("py", "y") },
      { maxConcurrency: 1, undo: [shop.notify, { text: "x" }] },
    )
    .join("jo", { mode: "count", count: 1, on: ["x"], cancelRemaining: false })
    .parallel("p2", { x: (b) => b.noop("p2x") })
    .join("j2", {
      when: ({ inputs }) => cel`${inputs.n} > 1`,
      undo: [shop.notify, ({ output }) => ({ text: cel<string>`string(${output.x})` })],
    })
    .decision(
      "fails",
      cel<string>`'a'`,
      {
        a: (b) => b.error("held", { code: "held", onFailure: "incident" }),
        c: (b) => b.error("rescued", { onError: (f) => f.log("was", ({ steps }) => steps.rescued.error.code) }),
      },
      { onNoMatch: "continue" },
    )
    .foreach(
      "fe",
      ({ inputs }) => inputs.lines,
      (each) => each.transform("in", ({ item, line, nth }) => ({ item, line, nth })),
      {
        ...{ itemVar: "line", indexVar: "nth", maxConcurrency: 2, toleratedFailures: 1, maxItems: 9 },
      },
    )
    .while("wl", (round) => round.transform("r", ({ iteration }) => iteration), {
      ...{ maxIterations: 3, delayMs: 1, keepLast: 2 },
      condition: ({ iteration, steps }) => cel`${iteration} == 0 || ${steps.r} < 2`,
    })
    .tryCatch(
      "tc",
      (tried) => tried.noop("tried"),
      (caught) => caught.log("caught", ({ vars }) => vars.problem.code),
      {
        ...{ errors: ["a*"], errorVar: "problem", rollback: true, timeoutMs: 5 },
      },
    )
    .subSaga("ss", order, {
      ...{ inputs: { sku: "a", quantity: 1, amount_cents: 2 }, version: 1, entrypoint: "e", timeoutMs: 5 },
      retry: { maxAttempts: 2, initialBackoffMs: 0 },
    })
    .spawnSaga("sp", "other", { inputs: { a: 1 }, version: 1, entrypoint: "e", idempotencyKey: "k" })
    .cancel("ca", { runId: ({ steps }) => steps.sp.run_id, reason: "r", compensate: false })
    .end(({ steps }) => ({ jo: steps.jo }), { id: "done", title: "Done" });
}
