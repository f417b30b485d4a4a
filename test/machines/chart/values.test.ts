// The values of a run are data: XState, which holds them as the context of an actor, looks into none of them.
import { describe, expect, it } from "vitest";
import {
  asRunId,
  compileWorkflow,
  type JsonObject,
  newRun,
  type Program,
  startActor,
} from "../../../machines/index.js";

const { program } = compileWorkflow({ id: "w", name: "w", start: "a", steps: [{ id: "a", type: "noop" }] });

function actorOf(inputs: JsonObject, variables: JsonObject = {}) {
  const id = asRunId("01900000-0000-7000-8000-00000000aa01");
  const about = { definitionId: "d", workflowId: "w", version: 1, dryRun: false, features: {}, entrypoint: "" };
  return startActor(program as Program, newRun({ ...about, id, inputs, startedAt: 0 }, variables));
}

describe("the actor of a run", () => {
  it("keeps a value that looks like an actor", () => {
    const looks = () => ({ child: { xstate$$type: 1, id: "x" }, list: [{ xstate$$type: 1 }] });
    const { context } = actorOf(looks(), looks());
    expect([context.run.inputs, context.variables]).toEqual([looks(), looks()]);
  });

  it("begins without a walk over the values", () => {
    let walks = 0;
    const ownKeys = (target: object) => {
      walks++;
      return Reflect.ownKeys(target);
    };
    actorOf({ large: new Proxy({ a: 1 }, { ownKeys }) as JsonObject });
    expect(walks).toBe(0);
  });
});
