// The types that a program sees: what a start takes, what a result is, what a signal carries. They are checked by `tsc`, and run as far as they do.
import { Type } from "typebox";
import { describe, expect, expectTypeOf, it } from "vitest";
import { type Page, type Run, SagaClient, type SagaRun, type SagaRunEvent } from "../../../src/sdk/client/index.js";
import { defineSignal, type SagaContract } from "../../../src/sdk/contract/index.js";

const saga = new SagaClient({ url: "http://127.0.0.1:1", retry: false, timeoutMs: 1 });

const order: SagaContract<{ sku: string; amount: number; note?: string | undefined }, { receipt: string }> = {
  id: "order",
};
const nightly: SagaContract<{ region?: string | undefined }, null> = { id: "nightly" };
const confirmed = defineSignal("confirm", Type.Object({ by: Type.String() }));
const RUN = "0190a000-0000-7000-8000-0000000000aa";

/** Compiled, and never run. */
const never = (_work: () => unknown): void => {};

describe("the types of", () => {
  it("a start: the inputs of the saga, which are required where it requires any", () => {
    never(() => saga.start(order, { inputs: { sku: "tea", amount: 9.5 } }));
    never(() => saga.start(nightly));
    never(() => saga.start(nightly, { inputs: { region: "eu" }, labels: { a: "b" } }, { key: "k" }));
    never(() => saga.start("any", { inputs: { whatever: [1] } }));
    never(() => saga.start("any"));
    // @ts-expect-error inputs are missing
    never(() => saga.start(order));
    // @ts-expect-error inputs are missing
    never(() => saga.start(order, { businessKey: "a" }));
    // @ts-expect-error amount is missing
    never(() => saga.start(order, { inputs: { sku: "tea" } }));
    // @ts-expect-error amount is a number
    never(() => saga.start(order, { inputs: { sku: "tea", amount: "9.5" } }));
    // @ts-expect-error an input that the saga has not
    never(() => saga.start(order, { inputs: { sku: "tea", amount: 1, colour: "green" } }));
    // @ts-expect-error a misspelt option
    never(() => saga.start(nightly, { buisnessKey: "a" }));
    // @ts-expect-error inputs are an object
    never(() => saga.start("any", { inputs: "tea" }));
    expect(order.id).toBe("order");
  });

  it("a result: the output of the saga", () => {
    expectTypeOf(saga.start<typeof order>).returns.resolves.toEqualTypeOf<Run<{ receipt: string }>>();
    expectTypeOf(saga.run(RUN, order).result).returns.resolves.toEqualTypeOf<{ receipt: string }>();
    expectTypeOf(saga.run(RUN).result).returns.resolves.toEqualTypeOf<unknown>();
    expectTypeOf(saga.run(RUN, order).fork).returns.resolves.toEqualTypeOf<Run<{ receipt: string }>>();
    expectTypeOf(saga.run(RUN, order).rerun).returns.resolves.toEqualTypeOf<Run<{ receipt: string }>>();
    expect(saga.run(RUN, order).id).toBe(RUN);
  });

  it("a signal: its payload", () => {
    const run = saga.run(RUN);
    never(() => run.signal(confirmed, { by: "ann" }));
    never(() => run.signal("confirm", { anything: 1 }));
    never(() => run.signal("confirm"));
    // @ts-expect-error the payload is missing
    never(() => run.signal(confirmed));
    // @ts-expect-error by is a string
    never(() => run.signal(confirmed, { by: 1 }));
    // @ts-expect-error the payload has no such member
    never(() => run.signal(confirmed, { by: "ann", at: 1 }));
    // @ts-expect-error a payload is an object
    never(() => run.signal("confirm", 1));
    expect(confirmed.name).toBe("confirm");
  });

  it("operations and lists: those of the OpenAPI document", () => {
    expectTypeOf(saga.run(RUN).get).returns.resolves.toEqualTypeOf<SagaRun>();
    expectTypeOf(saga.run(RUN).watch).returns.toEqualTypeOf<AsyncGenerator<SagaRunEvent, void, undefined>>();
    expectTypeOf(saga.runs.list().first).returns.resolves.toExtend<Page<SagaRun>>();
    never(async () => {
      const stats = await saga.call("getWorkflowStats", { path: { wf_id: "order" } });
      expectTypeOf(stats.in_flight).toEqualTypeOf<number>();
      const { items, unserved } = await saga.call("listWorkers");
      expectTypeOf(items[0]?.worker_id).toEqualTypeOf<string | undefined>();
      expectTypeOf(unserved?.[0]?.action).toEqualTypeOf<string | undefined>();
      for await (const { service } of saga.list("listActions")) expectTypeOf(service).toEqualTypeOf<string>();
    });
    // @ts-expect-error there is no such operation
    never(() => saga.call("getWeather"));
    // @ts-expect-error the path is missing
    never(() => saga.call("getSaga"));
    // @ts-expect-error it is no list
    never(() => saga.list("getCluster"));
    // @ts-expect-error there is no such state
    never(() => saga.runs.list({ state: ["broken"] }));
    // @ts-expect-error a terminate needs its reason
    never(() => saga.run(RUN).terminate({}));
    expect(Object.keys(saga)).toContain("runs");
  });
});
