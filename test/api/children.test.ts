// The children of a run as a list and as numbers: filters, groups, bounds, refusals.

import { describe, expect, it } from "vitest";
import { EVERYTHING } from "../../src/access/index.js";
import { countChildren } from "../../src/store/engine/child-counts.js";
import { newRunId } from "../harness/ids.js";
import { insertRun, useRig } from "./rig.js";

const rig = useRig();
const ENDED = new Date().toISOString();

/** A parallel of two branches, a foreach of twelve items of which two failed, and a sub-saga. */
async function family(): Promise<string> {
  const parent = await insertRun(rig);
  const child = (parent_step_id: string, parent_branch_id: string | undefined, more: object) =>
    insertRun(rig, { parent_run_id: parent, parent_step_id, ...(parent_branch_id && { parent_branch_id }), ...more });
  await child("split", "bill", { state: "paused", paused_reason: "signal", current_step: "hold" });
  await child("split", "ship", { state: "succeeded", terminal_at: ENDED, current_step: "sent" });
  for (let nth = 0; nth < 12; nth++) {
    const state = nth < 2 ? "failed" : "running";
    await child("each", String(nth), { state, current_step: "work", ...(nth < 2 && { terminal_at: ENDED }) });
  }
  await child("sub", undefined, { state: "running" });
  return `/api/v1/sagas/${parent}/children`;
}

describe("the counts of a run's children", () => {
  it("group branches by their name, and items whatever their number", async () => {
    const { status, body } = await rig.call("GET", `${await family()}/counts`);
    expect(status).toBe(200);
    expect(body).toEqual({
      items: [
        { parent_step_id: "each", state: "failed", current_step: "work", count: 2 },
        { parent_step_id: "each", state: "running", current_step: "work", count: 10 },
        {
          ...{ parent_step_id: "split", parent_branch_id: "bill", state: "paused", paused_reason: "signal" },
          ...{ current_step: "hold", count: 1 },
        },
        { parent_step_id: "split", parent_branch_id: "ship", state: "succeeded", current_step: "sent", count: 1 },
        { parent_step_id: "sub", state: "running", count: 1 },
      ],
    });
  });

  it("are none for a run without children", async () => {
    const id = await insertRun(rig);
    expect((await rig.call("GET", `/api/v1/sagas/${id}/children/counts`)).body).toEqual({ items: [] });
  });

  it("say that there are more groups than an answer has", async () => {
    const parentId = (await family()).split("/")[4] as Parameters<typeof countChildren>[2];
    const { items, truncated } = await countChildren(rig.database.sql, EVERYTHING, parentId, 3);
    expect([items.length, truncated]).toEqual([3, true]);
    expect(await countChildren(rig.database.sql, EVERYTHING, parentId, 5)).not.toHaveProperty("truncated");
  });

  it("are refused for an unknown run, a malformed id and an unknown parameter", async () => {
    const at = async (path: string) => (await rig.call("GET", `/api/v1/sagas/${path}`)).status;
    expect(await at(`${newRunId()}/children/counts`)).toBe(404);
    expect(await at("17/children/counts")).toBe(400);
    expect(await at(`${newRunId()}/children/counts?color=red`)).toBe(400);
  });
});

describe("the list of a run's children", () => {
  it("is filtered by the parent's step and by state", async () => {
    const url = await family();
    const listed = async (query: string) => {
      const { body } = await rig.call("GET", `${url}?${query}`);
      return [body.total, body.items.length];
    };
    expect(await listed("limit=3")).toEqual([15, 3]);
    expect(await listed("parent_step_id=each&state=failed")).toEqual([2, 2]);
    expect(await listed("parent_step_id=each&state=failed,running&limit=5")).toEqual([12, 5]);
    expect(await listed("state=paused&state=succeeded")).toEqual([2, 2]);
    expect(await listed("parent_step_id=nowhere")).toEqual([0, 0]);
  });

  it("goes on by cursor with the same filters", async () => {
    const url = `${await family()}?parent_step_id=each&state=running&limit=4`;
    const first = (await rig.call("GET", url)).body;
    const second = (await rig.call("GET", `${url}&cursor=${first.next_cursor}`)).body;
    const third = (await rig.call("GET", `${url}&cursor=${second.next_cursor}`)).body;
    const branches = [first, second, third].flatMap(({ items }) => items).map((run) => run.parent_branch_id);
    expect(branches.sort()).toEqual(["10", "11", "2", "3", "4", "5", "6", "7", "8", "9"]);
    expect(third.next_cursor).toBeUndefined();
  });

  it("refuses other filters, and states that there are not", async () => {
    const url = await family();
    expect((await rig.call("GET", `${url}?workflow_id=orders`)).status).toBe(400);
    expect((await rig.call("GET", `${url}?state=lost`)).body.details).toMatchObject([{ path: "$.query.state" }]);
    expect((await rig.call("GET", `${url}?parent_step_id=a%20b`)).status).toBe(400);
  });
});
