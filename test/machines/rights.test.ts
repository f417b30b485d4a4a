// What a definition needs rights for. Who has them is tested at the API.
import { describe, expect, it } from "vitest";
import { compileWorkflow, type JsonObject, rightsNeeded } from "../../machines/index.js";
import { STEP_TYPES } from "../../machines/steps/index.js";

/** Which of the step types name a secret or another workflow, or may meet runs of others: a new type is decided on here. */
const NAMES = { secret: ["http_request", "webhook_emit"], workflow: ["sub_saga", "spawn_saga"] } as const;
const MEETS = ["wait_for_event", "emit_signal", "emit_event", "cancel"];
const TYPES =
  "end action decision switch error noop set_var transform merge filter map log metric_emit assert http_request webhook_emit wait_duration wait_until wait_for_signal wait_for_event while try_catch sub_saga spawn_saga parallel join foreach emit_signal emit_event cancel manual_approval collect_input".split(
    " ",
  );

function rightsOf(steps: readonly JsonObject[]) {
  const document = { id: "w", name: "w", start: String(steps[0]?.id), steps: [...steps] };
  const { program, problems } = compileWorkflow(document as unknown as JsonObject);
  if (!program) throw new Error(JSON.stringify(problems));
  return rightsNeeded(program);
}

describe("the rights that a definition needs", () => {
  it("are decided on for every step type", () => {
    expect([...STEP_TYPES.keys()].sort()).toEqual([...TYPES].sort());
    const types = [...STEP_TYPES.values()];
    for (const what of ["secret", "workflow"] as const)
      expect(types.filter(({ mentions }) => mentions.some((one) => one.what === what)).map(({ name }) => name)).toEqual(
        NAMES[what],
      );
    expect(types.filter(({ meetsOthers }) => meetsOthers).map(({ name }) => name)).toEqual(MEETS);
  });

  it("are found in every step, in blocks, in what cannot be reached, and where attributes are written inside inputs", () => {
    const url = "https://a.example";
    const found = rightsOf([
      { id: "a", type: "try_catch", try: "b", catch: "c", next: "z" },
      { id: "b", type: "http_request", url, secret_ref: "one" },
      { id: "c", type: "webhook_emit", inputs: { url, event_type: "x", secret_ref: "two-${inputs.x}" } },
      { id: "lost", type: "sub_saga", workflow_id: "other", next: "z" },
      { id: "more", type: "spawn_saga", workflow_id: "${inputs.w}", next: "z" },
      { id: "say", type: "emit_event", topic: "t", next: "z" },
      { id: "self", type: "cancel" },
      { id: "stop", type: "cancel", run_id: "${run.id}", next: "z" },
      { id: "plain", type: "http_request", url, secret_ref: null, next: "z" },
      { id: "z", type: "end" },
    ]);
    expect(found).toEqual({
      secrets: [{ path: "$.steps[1].secret_ref", name: "one" }, { path: "$.steps[2].secret_ref" }],
      workflows: [{ path: "$.steps[3].workflow_id", name: "other" }, { path: "$.steps[4].workflow_id" }],
      meetings: [
        { path: "$.steps[5]", type: "emit_event" },
        { path: "$.steps[7]", type: "cancel" },
      ],
    });
  });
});
