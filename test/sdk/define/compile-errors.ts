// Mistakes that the compiler finds in definitions, each below the message that it must give. It is checked with all sources, and never run.
import { cel, defineAction, has, orElse, pinned, type SagaContract, saga, text } from "@saga-orchestrator/define";
import { Type } from "typebox";
import { confirmed, order, shop } from "./order.js";

const input = Type.Object({
  sku: Type.String(),
  quantity: Type.Integer(),
  note: Type.Optional(Type.String()),
  lines: Type.Array(Type.Object({ sku: Type.String(), price: Type.Number() })),
});
const begun = () => saga("s", { name: "S", input });
const reserved = () =>
  begun().action("reserve", shop.reserve, {
    inputs: ({ inputs }) => ({ sku: inputs.sku, quantity: 1 }),
    undo: shop.release,
  });
const takesText = (given: SagaContract<{ text: string }>) => given;

export const mistakes = [
  // Inputs of actions.
  // @ts-expect-error Type 'number' is not assignable to type 'string | Template<string>
  () => begun().action("a", shop.notify, { inputs: { text: 1 } }),
  // @ts-expect-error Type '{}' is not assignable
  () => begun().action("a", shop.notify, { inputs: {} }),
  // @ts-expect-error Property 'inputs' is missing
  () => begun().action("a", shop.notify, {}),
  // @ts-expect-error Ref<number>
  () => begun().action("a", shop.notify, { inputs: ({ inputs }) => ({ text: inputs.quantity }) }),
  // @ts-expect-error is not assignable
  () => begun().action("a", shop.notify, { inputs: () => ({ text: cel<number>`1` }) }),
  // @ts-expect-error undefined
  () => begun().action("a", shop.notify, { inputs: ({ inputs }) => ({ text: inputs.note }) }),
  // @ts-expect-error is not assignable
  () => begun().action("a", shop.notify, { inputs: ({ inputs }) => ({ text: inputs.lines }) }),
  // @ts-expect-error 'txt' does not exist
  () => begun().action("a", shop.notify, { inputs: { text: "x", txt: "y" } }),
  // @ts-expect-error is not assignable
  () => begun().action("a", shop.reserve, { inputs: { sku: text`a`, quantity: text`1` }, undo: null }),
  // @ts-expect-error 'timoutMs' does not exist
  () => begun().action("a", shop.notify, { inputs: { text: "x" }, timoutMs: 5 }),
  // @ts-expect-error Type 'string' is not assignable to type
  () => begun().action("a", shop.notify, { inputs: { text: "x" }, timeoutMs: "5s" }),
  // @ts-expect-error Property 'initialBackoffMs' is missing
  () => begun().action("a", shop.notify, { inputs: { text: "x" }, retry: { maxAttempts: 3 } }),

  // Undo.
  // @ts-expect-error Property 'undo' is missing
  () => begun().action("a", shop.reserve, { inputs: { sku: "a", quantity: 1 } }),
  // @ts-expect-error this undo takes inputs of its own
  () => begun().action("a", shop.charge, { inputs: { amount_cents: 1 }, undo: shop.refund }),
  () =>
    begun().action("a", shop.charge, {
      inputs: { amount_cents: 1 },
      // @ts-expect-error Property 'reciept' does not exist
      undo: [shop.refund, ({ output }) => ({ receipt: output.reciept })],
    }),
  () =>
    begun().action("a", shop.charge, {
      inputs: { amount_cents: 1 },
      // @ts-expect-error is not assignable
      undo: [shop.refund, { receipt: 5 }],
    }),
  // @ts-expect-error is not assignable
  () => begun().action("a", shop.reserve, { inputs: { sku: "a", quantity: 1 }, undo: "shop.release" }),
  // @ts-expect-error Property 'undo' is missing
  () => begun().action("a", pinned(shop.reserve), { inputs: { sku: "a", quantity: 1 } }),
  // @ts-expect-error this undo takes inputs of its own
  () => begun().transform("a", 1, { undo: pinned(shop.refund) }),
  // @ts-expect-error is not assignable
  () => begun().transform("a", 1, { undo: { action: shop.refund, inputs: { receipt: "R" } } }),
  () =>
    begun()
      .parallel("p", { left: (b) => b.transform("l", 1) })
      // @ts-expect-error Property 'right' does not exist
      .join("j", { undo: [shop.notify, ({ output }) => ({ text: text`${output.right}` })] }),
  // @ts-expect-error Property 'which' does not exist
  () => begun().action("a", ({ inputs }) => text`shop.${inputs.which}`, {}),
  () =>
    begun()
      .action("a", () => text`shop.ship`, {})
      // @ts-expect-error is not assignable
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.a }) }),

  // Steps and their outputs.
  // @ts-expect-error Property 'reserved' does not exist
  () => reserved().end(({ steps }) => steps.reserved),
  // @ts-expect-error Property 'id' does not exist
  () => reserved().end(({ steps }) => steps.reserve.id),
  // @ts-expect-error Property 'length' does not exist
  () => reserved().end(({ steps }) => steps.reserve.reservation.length),
  // @ts-expect-error there is already a step
  () => reserved().noop("reserve"),
  // @ts-expect-error there is already a step
  () => reserved().decision("d", cel<string>`"a"`, { default: (b) => b.noop("reserve") }),
  () =>
    begun()
      .decision("d", cel<string>`"a"`, { default: (b) => b.noop("in") })
      // @ts-expect-error there is already a step
      .noop("in"),
  // @ts-expect-error Property 'skus' does not exist
  () => begun().log("l", ({ inputs }) => inputs.skus),
  () =>
    begun()
      .log("log", "x")
      // @ts-expect-error Property 'log' does not exist
      .end(({ steps }) => steps.log),
  () =>
    begun()
      .transform("t", 1, { saveAs: "total" })
      // @ts-expect-error Property 't' does not exist
      .end(({ steps }) => steps.t),
  () =>
    begun()
      .transform("t", 1, { saveAs: null })
      // @ts-expect-error Property 't' does not exist
      .end(({ steps }) => steps.t),
  // @ts-expect-error Property 'noop' does not exist
  () => begun().end().noop("after"),
  // @ts-expect-error Property 'noop' does not exist
  () => begun().error("e").noop("after"),
  // @ts-expect-error is not assignable to parameter
  () => reserved().goTo("elsewhere"),
  () =>
    begun()
      .action("n", shop.notify, { inputs: { text: "x" }, when: ({ inputs }) => has(inputs.note) })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.n.at }) }),
  () =>
    begun()
      .action("n", shop.notify, { inputs: { text: "x" }, onError: "continue" })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.n.at }) }),
  () =>
    begun()
      .waitForSignal("c", confirmed, { timeoutMs: 5, onTimeout: "continue" })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.c.by }) }),
  () =>
    begun()
      .setVar("v", "total", 0)
      // @ts-expect-error is not assignable
      .action("m", shop.notify, { inputs: ({ vars }) => ({ text: vars.total }) }),
  () =>
    begun()
      .setVar("v", { total: 0 })
      // @ts-expect-error is not assignable
      .action("m", shop.notify, { inputs: ({ vars }) => ({ text: vars.total }) }),

  // Starts, signals and other sagas.
  // @ts-expect-error is not assignable
  () => takesText(order),
  // @ts-expect-error Type 'number' is not assignable to type 'string | Template<string>
  () => begun().emitSignal("e", confirmed, { runId: "r", payload: { by: 5 } }),
  // @ts-expect-error Property 'payload' is missing
  () => begun().emitSignal("e", confirmed, { runId: "r" }),
  () =>
    begun()
      .waitForSignal("c", confirmed)
      // @ts-expect-error Property 'who' does not exist
      .end(({ steps }) => steps.c.who),
  // @ts-expect-error Property 'amount_cents' is missing
  () => begun().subSaga("o", order, { inputs: { sku: "a", quantity: 1 } }),
  () =>
    begun()
      .subSaga("o", order, { inputs: { sku: "a", quantity: 1, amount_cents: 5 } })
      // @ts-expect-error Property 'reciept' does not exist
      .end(({ steps }) => steps.o.reciept),

  // Blocks.
  () =>
    begun().parallel("p", {
      left: (b) => b.transform("l", 1),
      // @ts-expect-error Property 'l' does not exist
      right: (b) => b.transform("r", ({ steps }) => steps.l),
    }),
  () =>
    begun()
      .parallel("p", { left: (b) => b.transform("l", 1) })
      .join("j")
      // @ts-expect-error Property 'l' does not exist
      .end(({ steps }) => steps.l),
  () =>
    begun()
      .parallel("p", { left: (b) => b.transform("l", 1) })
      .join("j")
      // @ts-expect-error Property 'right' does not exist
      .end(({ steps }) => steps.j.right),
  () =>
    begun()
      .parallel("p", { left: (b) => b.noop("l") })
      // @ts-expect-error is not assignable
      .join("j", { mode: "any", on: ["right"] }),
  () =>
    begun()
      .parallel("p", { left: (b) => b.noop("l") })
      // @ts-expect-error Property 'noop' does not exist
      .noop("n"),
  () =>
    begun()
      .parallel("p", { left: (b) => b.transform("l", "x") })
      .join("j", { mode: "any" })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.j.left }) }),
  // @ts-expect-error Property 'item' does not exist
  () => begun().log("l", ({ item }) => text`${item}`),
  () =>
    begun()
      .foreach(
        "f",
        ({ inputs }) => inputs.lines,
        (each) => each.log("l", ({ item }) => item.sku),
      )
      // @ts-expect-error Property 'item' does not exist
      .log("after", ({ item }) => text`${item}`),
  () =>
    begun().foreach(
      "f",
      ({ inputs }) => inputs.lines,
      // @ts-expect-error Property 'cost' does not exist
      (each) => each.transform("t", ({ item }) => item.cost),
    ),
  () =>
    begun().foreach(
      "f",
      // @ts-expect-error is not assignable
      ({ inputs }) => inputs.sku,
      (each) => each.noop("n"),
    ),
  // @ts-expect-error Property 'iteration' does not exist
  () => begun().transform("t", ({ iteration }) => iteration),
  // @ts-expect-error Property 'error' does not exist
  () => begun().log("l", ({ error }) => text`${error}`),
  () =>
    begun().tryCatch(
      "t",
      // @ts-expect-error Property 'error' does not exist
      (tried) => tried.log("l", ({ error }) => text`${error}`),
      (caught) => caught.log("c", ({ error }) => error.code),
    ),
  () =>
    begun()
      .tryCatch(
        "t",
        (tried) => tried.transform("x", "a"),
        (caught) => caught.log("c", ({ error }) => error.code),
      )
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.x }) }),
  () =>
    begun()
      .decision("d", cel<string>`"a"`, { a: (b) => b.transform("x", "a"), default: (b) => b.noop("n") })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.x }) }),
  () =>
    begun()
      .decision("d", cel<string>`"a"`, { a: (b) => b.transform("x", "a") }, { onNoMatch: "continue" })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.x }) }),
  () =>
    begun()
      .parallel("p", { left: (b) => b.transform("l", "x") })
      .join("j", { when: ({ inputs }) => has(inputs.note) })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.j.left }) }),
  // @ts-expect-error 'when' does not exist
  () => begun().error("e", { when: true }),
  // @ts-expect-error is not assignable
  () => begun().error("e", { onError: "continue" }),
  () =>
    begun()
      .decision("d", cel<string>`"a"`, { a: (b) => b.end("z") }, { onError: "continue" })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.d.error.code }) }),
  // @ts-expect-error Argument of type 'string' is not assignable
  () => begun().setVar("v", String("x"), 1),
  // @ts-expect-error 'action' does not exist
  () => begun().noop("n", { undo: { action: () => text`a.b`, input: {} } }),
  // @ts-expect-error this undo takes inputs of its own
  () => begun().noop("n", { undo: shop.refund }),
  // @ts-expect-error is not assignable
  () => begun().parallel("p", { left: (b) => b.noop("l") }, { undo: [shop.refund, { reciept: "R" }] }),
  // @ts-expect-error Type 'undefined' is not assignable to type 'Block
  () => begun().decision("d", cel<string>`"a"`, { default: () => undefined }),
  // @ts-expect-error Property 'output' does not exist
  () => begun().transform("t", ({ output }) => output),
  // @ts-expect-error Property 'event' does not exist
  () => begun().waitForEvent("w", "topic", { when: ({ event }) => has(event.topic) }),
  () =>
    begun()
      .while("w", (round) => round.transform("x", "a"), { condition: true })
      // @ts-expect-error undefined
      .action("m", shop.notify, { inputs: ({ steps }) => ({ text: steps.x }) }),

  // Heads, expressions and contracts.
  // @ts-expect-error Property 'name' is missing
  () => saga("s", { input }),
  // @ts-expect-error 'labels' does not exist
  () => saga("s", { name: "S", labels: {} }),
  // @ts-expect-error is not assignable to type
  () => saga("s", { name: "S", onFailure: "wait" }),
  // @ts-expect-error Property 'skus' does not exist
  () => saga("s", { name: "S", uncheckedInput: input }).log("l", ({ inputs }) => inputs.skus),
  // @ts-expect-error is not assignable to parameter
  () => cel`${() => 1}`,
  // @ts-expect-error is not assignable to parameter
  () => cel`${text`a`}`,
  // @ts-expect-error is not assignable to type
  () => begun().action("a", shop.notify, { inputs: ({ inputs }) => ({ text: orElse(inputs.note, 5) }) }),
  // @ts-expect-error is not assignable to type
  () => begun().httpRequest("h", { url: "https://a.example", method: "FETCH" }),
  // @ts-expect-error Property 'output' is missing
  () => defineAction({ service: "s", name: "n", input }),
];
