// Labels: given at the start, shown with the run, and filters of the list.
import { describe, expect, it } from "vitest";
import { insertRun, useRig } from "./rig.js";

const rig = useRig();
const START = "/api/v1/sagas/start";

async function labelled(labels: Record<string, string>): Promise<string> {
  const id = await insertRun(rig, { workflow_id: "labelled", identity: { labels } });
  for (const [name, value] of Object.entries(labels))
    await rig.database.sql`insert into run_labels values (${id}, ${name}, ${value})`;
  return id;
}

describe("labels", () => {
  it("are passed on with a start", async () => {
    const labels = { region: "eu", "team.name": "a b=c" };
    expect((await rig.call("POST", START, { workflow_id: "w", labels })).status).toBe(202);
    expect(rig.started.at(-1)?.labels).toEqual(labels);
    await rig.call("POST", START, { workflow_id: "w" });
    expect(rig.started.at(-1)?.labels).toBeUndefined();
  });

  it.each([
    ["more than 16", Object.fromEntries(Array.from({ length: 17 }, (_, nth) => [`l${nth}`, "x"]))],
    ["a value that is no text", { a: 1 }],
    ["an empty value", { a: "" }],
    ["a value that is too long", { a: "x".repeat(257) }],
    ["a name with a space", { "a b": "x" }],
    ["a list", ["a"]],
    ["a forbidden name", JSON.parse('{"constructor":"x"}')],
  ])("%s are 400", async (_, labels) => {
    const { status, body } = await rig.call("POST", START, { workflow_id: "w", labels });
    expect([status, body.details[0].path]).toEqual([400, expect.stringContaining("$.labels")]);
  });

  it("are shown with the run, and find it in the list", async () => {
    const eu = await labelled({ region: "eu", tier: "gold" });
    const us = await labelled({ region: "us", tier: "gold" });
    const find = async (query: string) =>
      (await rig.call("GET", `/api/v1/sagas?workflow_id=labelled&sort=started_at&${query}`)).body.items.map(
        ({ id }: { id: string }) => id,
      );
    expect((await rig.call("GET", `/api/v1/sagas/${eu}`)).body.labels).toEqual({ region: "eu", tier: "gold" });
    expect(await find("label.region=eu")).toEqual([eu]);
    expect(await find("label.tier=gold")).toEqual([eu, us]);
    expect(await find("label.tier=gold&label.region=us")).toEqual([us]);
    expect(await find("label.region=gold")).toEqual([]);
    expect(await find("label.none=x")).toEqual([]);
    expect((await rig.call("GET", `/api/v1/sagas?label.tier=gold`)).body.total).toBe(2);
    expect((await rig.call("GET", `/api/v1/sagas/${await insertRun(rig)}`)).body).not.toHaveProperty("labels");
  });

  it.each(["label.=x", "label.a=", "label.a=x&label.a=y", "label.a%20b=x", "labels=x"])(
    "the filter %s is 400",
    async (query) => {
      expect((await rig.call("GET", `/api/v1/sagas?${query}`)).status).toBe(400);
    },
  );
});
