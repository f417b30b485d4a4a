// Bodies with many members: what has more than it may is refused before its members are looked at, and of a large body the first fault is named.
import { describe, expect, it } from "vitest";
import { useRig } from "./rig.js";

const rig = useRig();
const many = <T>(count: number, of: (index: number) => T): T[] => Array.from({ length: count }, (_, n) => of(n));
const members = (count: number, of: (index: number) => unknown = () => 1, name = "k") =>
  Object.fromEntries(many(count, (n) => [`${name}${n}`, of(n)]));
const post = (path: string, body: unknown) => rig.call("POST", `/api/v1${path}`, body);

describe("what has more members than it may is one fault", () => {
  it.each<[string, string, unknown, string, string]>([
    ["actions", "/registry/register", { service: "s", actions: many(5_000, () => ({})) }, "$.actions", "1000 items"],
    ["actions alone", "/registry/register", many(5_000, () => ({})), "$", "1000 items"],
    [
      "error codes of an action",
      "/registry/register",
      { service: "s", actions: [{ action_name: "a", error_codes: many(5_000, () => 1) }] },
      "$.actions[0].error_codes",
      "1000 items",
    ],
    ["labels", "/sagas/start", { workflow_id: "w", labels: members(5_000, () => 1, "é") }, "$.labels", "16 members"],
    ["headers", "/events", { topic: "t", headers: members(5_000, () => 1, "é") }, "$.headers", "32 members"],
    [
      "labels of a rerun in bulk",
      "/bulk",
      { filter: { workflow_id: "w" }, action: "rerun", params: { labels: members(5_000) } },
      "$.params.labels",
      "16 members",
    ],
  ])("%s", async (_, path, body, place, most) => {
    const { status, body: answer } = await post(path, body);
    expect(status).toBe(400);
    expect(answer.details).toEqual([{ path: place, message: `must have at most ${most}` }]);
  });
});

describe("of the faults of a body", () => {
  const features = (count: number) => ({ workflow_id: "w", feature_overrides: members(count) });

  it("a hundred are named", async () => {
    const { status, body } = await post("/sagas/start", features(5_000));
    expect([status, body.details.length]).toEqual([400, 100]);
  });

  it("the first is named if the body is large: each of its members may have one", async () => {
    const { status, body } = await post("/sagas/start", features(50_000));
    expect([status, body.details]).toEqual([
      400,
      [{ path: "$.feature_overrides.k0", message: "must be true or false" }],
    ]);
  });

  it("20 are named of the members of a filter", async () => {
    const { status, body } = await post("/bulk", { filter: members(5_000), action: "pause" });
    expect([status, body.details.length]).toEqual([400, 20]);
  });
});

describe("members that are ignored", () => {
  it("are named up to a bound", async () => {
    const { status, headers } = await post("/sagas/start", { workflow_id: "orders", ...members(5_000) });
    const names = String(headers["saga-ignored-fields"]).split(", ");
    expect(status).toBe(202);
    expect([names.length, names[0], names.at(-1)]).toEqual([51, "k0", "..."]);
  });
});
