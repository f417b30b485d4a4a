// Lists: their totals, the pages that their size cuts, and times that are none.
import { describe, expect, it } from "vitest";
import { uuidv7 } from "../../src/ids.js";
import { insertRun, useRig } from "./rig.js";

const rig = useRig();
const get = async (url: string) => (await rig.call("GET", `/api/v1/${url}`)).body;
const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();

describe("the total of a list", () => {
  it("may be asked for exactly on every list", async () => {
    const id = await insertRun(rig);
    const parts = ["events", "signals", "undo", "children", "user_tasks"].map((part) => `sagas/${id}/${part}`);
    for (const list of ["sagas", "workflows", "rules", "registry/actions", "user_tasks", ...parts]) {
      expect([list, await get(`${list}?count=exact`)]).toEqual([
        list,
        expect.objectContaining({ items: expect.any(Array) }),
      ]);
      expect((await rig.call("GET", `/api/v1/${list}?count=all`)).status).toBe(400);
    }
  });
});

describe("a page that ends early for its size", () => {
  it("says so, and where the next one begins", async () => {
    const text = "x".repeat(3 * 1024 * 1024);
    for (let second = 0; second < 4; second++)
      await insertRun(rig, { workflow_id: "large", started_at: at(second), inputs: { text } });
    const first = await get("sagas?workflow_id=large&offset=1");
    expect(first).toMatchObject({ truncated: true, next_offset: 3, next_cursor: expect.any(String), total: 4 });
    expect(first.items).toHaveLength(2);
    const rest = await get(`sagas?workflow_id=large&offset=${first.next_offset}`);
    expect(rest.items).toHaveLength(1);
    for (const name of ["truncated", "next_offset", "next_cursor"]) expect(rest).not.toHaveProperty(name);
    const byCursor = await get(`sagas?workflow_id=large&cursor=${first.next_cursor}`);
    expect(byCursor.items).toEqual(rest.items);
  });

  it("is not one that ends at its limit", async () => {
    for (let second = 0; second < 3; second++) await insertRun(rig, { workflow_id: "few", started_at: at(second) });
    const page = await get("sagas?workflow_id=few&limit=2");
    expect(page).toMatchObject({ next_cursor: expect.any(String), total: 3 });
    for (const name of ["truncated", "next_offset"]) expect(page).not.toHaveProperty(name);
  });
});

describe("a time that is none", () => {
  const NONE = [
    "2024-02-31T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "2024-00-10T00:00:00Z",
    "2024-01-01T24:30:00Z",
    "2024-01-01T00:00:60Z",
    "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00+05:60",
  ];

  it.each(NONE)("%s is 400 in a filter", async (time) => {
    const { status } = await rig.call("GET", `/api/v1/sagas?started_after=${encodeURIComponent(time)}`);
    expect(status).toBe(400);
  });

  it("is 400 in a cursor", async () => {
    const cursor = (time: string) => Buffer.from(JSON.stringify(["-runs", time, uuidv7()])).toString("base64url");
    for (const time of [
      "2024-02-31T00:00:00.000Z",
      "2024-13-01T00:00:00.000Z",
      "2024-01-01T25:00:00.000Z",
      "0000-01-01T00:00:00.000Z",
    ]) {
      const { status, body } = await rig.call("GET", `/api/v1/sagas?cursor=${cursor(time)}`);
      expect([time, status, body.details]).toEqual([
        time,
        400,
        [{ path: "$.query.cursor", message: expect.any(String) }],
      ]);
    }
    expect((await rig.call("GET", `/api/v1/sagas?cursor=${cursor("2024-02-29T00:00:00.000Z")}`)).status).toBe(200);
  });

  it("is not one at the edge of what there is", async () => {
    for (const time of [
      "2024-02-29T23:59:59.999999999+14:00",
      "9999-12-31T23:59:59-12:00",
      "2024-01-01T00:00:00+15:59",
      "2024-01-01T00:00:00+23:59",
      "2024-01-01T00:00:00-16:00",
      "0000-01-01T00:00:00+01:00",
    ]) {
      const { status } = await rig.call("GET", `/api/v1/sagas?started_after=${encodeURIComponent(time)}`);
      expect([time, status]).toEqual([time, 200]);
    }
  });
});
