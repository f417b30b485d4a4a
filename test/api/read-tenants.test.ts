// Tenants of reads: what is of another tenant does not exist, on every route that reads. Each of the two walls, the conditions of the
// statements and row-level security, is also tried alone.
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import WebSocket from "ws";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { newRunId } from "../harness/ids.js";
import { verifierOf } from "../harness/verifier.js";
import { useRig, WORKFLOW } from "./rig.js";
import {
  type Named,
  type OpenWalls,
  type Owned,
  openWalls,
  pathOf,
  seed,
  WALLS,
  type Wall,
  waits,
  worker,
} from "./tenant-things.js";

const [A, B] = ["0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"] as const;
const rig = useRig();
const verifier = verifierOf({
  ann: { roles: ["viewer"], tenantId: A },
  bob: { roles: ["viewer"], tenantId: B },
  root: { roles: ["viewer", "platform"] },
  few: { roles: ["viewer", "platform"], tenants: [A] },
  narrow: { roles: ["viewer"], tenantId: A, workflows: ["a.flow", "none.*"] },
});

const owned: Record<"a" | "b" | "none", Owned> = {} as never;

let walls: OpenWalls;
beforeAll(async () => {
  for (const [name, tenant] of [
    ["a", A],
    ["b", B],
    ["none", null],
  ] as const)
    owned[name] = await seed(rig, name, tenant);
  await countEnds(rig.database.sql);
  rig.workers.report = async () => ({
    workers: [worker("a.service", [A]), worker("b.service", [B]), worker("both", [A, B]), worker("none.service")],
    waiting: [waits("a.service", A), waits("b.service", B), waits("none.service")],
    silent: [],
    leftOff: 3,
  });
  walls = await openWalls(rig, verifier);
});
afterAll(() => walls?.close());

type Name = "ann" | "bob" | "root" | "few" | "narrow";

async function get(wall: Wall, name: Name, url: string) {
  const answer = await walls.app(wall).inject({ method: "GET", url, headers: { authorization: `Bearer ${name}` } });
  return { status: answer.statusCode, text: answer.body };
}

async function list(wall: Wall, name: Name, url: string) {
  const { status, text } = await get(wall, name, url);
  expect(status, `${url}: ${text}`).toBe(200);
  return JSON.parse(text);
}

/** Every GET of the OpenAPI document that a viewer may send. */
const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8"));
const READS = Object.entries(paths as Record<string, Record<string, { "x-saga-role"?: unknown }>>)
  .filter(([, { get: operation }]) => [operation?.["x-saga-role"]].flat().includes("viewer"))
  .map(([path]) => path);
const SOCKETS = READS.filter((path) => /\/(stream|inspect)$/.test(path));
const ITEMS = READS.filter((path) => path.includes("{") && !SOCKETS.includes(path));
const LISTS = READS.filter((path) => !path.includes("{"));

const NOTHING: Named = { id: newRunId(), bulkId: uuidv7(), triggerId: uuidv7(), wf_id: "z.flow", rule_id: "z.rule" };
/** Without what is different in any two answers. */
const without = (text: string, { id, bulkId, triggerId, wf_id, rule_id }: Named) =>
  [id, bulkId, triggerId, wf_id, rule_id].reduce(
    (left, name) => left.replaceAll(name, "…"),
    text.replace(/"request_id":"[^"]*"/, ""),
  );

/** Whatever tells of the things of an owner. */
const tracesOf = ({ wf_id, ...one }: Owned) => [...Object.values(one), wf_id, wf_id.replace("flow", "wide")];

describe.each(WALLS)("with %s, what is of another tenant does not exist:", (wall) => {
  it.each(ITEMS)("GET %s answers for it as for an id that exists nowhere", async (path) => {
    const mine = await get(wall, "ann", pathOf(path, owned.a));
    expect([mine.status, path], mine.text).toEqual([200, path]);
    const [its, none] = [await get(wall, "ann", pathOf(path, owned.b)), await get(wall, "ann", pathOf(path, NOTHING))];
    expect([its.status, none.status]).toEqual([404, 404]);
    expect(without(its.text, owned.b)).toBe(without(none.text, NOTHING));
    expect(without((await get(wall, "few", pathOf(path, owned.b))).text, owned.b)).toBe(without(none.text, NOTHING));
    expect((await get(wall, "root", pathOf(path, owned.b))).status).toBe(200);
  });

  it.each(LISTS)("GET %s leaves it out, of its numbers too", async (path) => {
    const [ann, bob, root] = await Promise.all((["ann", "bob", "root"] as const).map((name) => list(wall, name, path)));
    for (const trace of tracesOf(owned.b)) expect(JSON.stringify(ann)).not.toContain(trace);
    for (const trace of tracesOf(owned.a)) expect(JSON.stringify(bob)).not.toContain(trace);
    const sizes = [ann, bob, root].map(({ items, total = items.length }) => [items.length, total]);
    const [own, others, all] = sizes.map(([size]) => size) as [number, number, number];
    expect(sizes.map(([size, total]) => size === total)).toEqual([true, true, true]);
    expect(own).toBeGreaterThan(0);
    expect([others, all > own]).toEqual([own, true]);
  });

  it.each(SOCKETS)("GET %s opens no WebSocket for it", async (path) => {
    const { port } = walls.app(wall).server.address() as AddressInfo;
    const open = (url: string) =>
      new Promise<number>((resolve, reject) => {
        const socket = new WebSocket(`ws://127.0.0.1:${port}${url}`, { headers: { authorization: "Bearer ann" } });
        socket.on("open", () => resolve(101)).on("unexpected-response", (_, { statusCode = 0 }) => resolve(statusCode));
        socket.on("close", () => {}).on("error", reject);
        socket.once("open", () => socket.terminate());
      });
    const answers = [
      await open(pathOf(path, owned.a)),
      await open(pathOf(path, owned.b)),
      await open(pathOf(path, NOTHING)),
    ];
    expect(answers).toEqual([101, 404, 404]);
  });

  it("a filter does not find it: that of its tenant, of its job, of its labels, or of all at once", async () => {
    const found = async (name: Name, query: string) => {
      const { items, total } = await list(wall, name, `/api/v1/sagas?${query}`);
      expect(total, query).toBe(items.length);
      return items.length;
    };
    expect(await found("ann", `tenant_id=${B}`)).toBe(0);
    expect(await found("ann", `tenant_id=${A}`)).toBe(3);
    expect(await found("ann", `bulk_id=${owned.b.bulkId}`)).toBe(0);
    expect(await found("ann", `bulk_id=${owned.a.bulkId}`)).toBe(1);
    expect(await found("ann", `q=${owned.b.id.slice(0, 36)}`)).toBe(0);
    for (const query of [
      "label.kind=seeded",
      "version=1",
      "q=key-",
      "state=failed",
      "incident=true",
      "root_only=true",
    ]) {
      const [ann, bob, root] = [await found("ann", query), await found("bob", query), await found("root", query)];
      expect([query, bob, ann > 0 && root > ann]).toEqual([query, ann, true]);
    }
    expect(await list(wall, "ann", `/api/v1/sagas/counts?tenant_id=${B}`)).toMatchObject({ items: [] });
  });

  it("the counts of runs, of those that have ended too, are those of its own", async () => {
    const sum = async (name: Name, query: string) =>
      (await list(wall, name, `/api/v1/sagas/counts?${query}`)).items.reduce(
        (all: number, { count }: { count: number }) => all + count,
        0,
      );
    for (const query of ["", "state=failed", "state=failed&count=exact", "label.kind=seeded"]) {
      const own = query.startsWith("state") ? 1 : 3;
      expect([query, await sum("ann", query), await sum("root", query)]).toEqual([query, own, 3 * own]);
    }
  });

  it("a wait for its run is over at once", async () => {
    const wait = (id: string) => get(wall, "ann", `/api/v1/sagas/${id}?wait_ms=60000`);
    const [its, none] = [await wait(owned.b.id), await wait(NOTHING.id)];
    expect([its.status, none.status]).toEqual([404, 404]);
  });
});

describe.each(["both walls", "the conditions of the statements alone"] as const)("with %s,", (wall) => {
  it("a cursor of another tenant's list is none", async () => {
    const first = async (name: Name) => (await list(wall, name, "/api/v1/sagas?limit=1")).next_cursor;
    const next = async (name: Name, cursor: string) =>
      (await get(wall, name, `/api/v1/sagas?limit=1&cursor=${cursor}`)).status;
    const [ann, bob, root] = [await first("ann"), await first("bob"), await first("root")];
    expect([await next("ann", ann), await next("ann", bob), await next("ann", root), await next("root", ann)]).toEqual([
      ...[200, 400, 400, 400],
    ]);
  });

  it("what is of no tenant is the platform's, but what it offers is everyone's", async () => {
    for (const path of ["workflows/none.flow", "rules/none.rule"]) {
      expect([path, (await get(wall, "ann", `/api/v1/${path}`)).status]).toEqual([path, 200]);
    }
    const { items } = await list(wall, "ann", "/api/v1/registry/actions");
    expect(items.map(({ service }: { service: string }) => service)).toEqual(["a.service", "none.service"]);
    for (const path of [`sagas/${owned.none.id}`, `triggers/${owned.none.triggerId}`, `bulk/${owned.none.bulkId}`]) {
      expect([path, (await get(wall, "ann", `/api/v1/${path}`)).status]).toEqual([path, 404]);
      expect([path, (await get(wall, "few", `/api/v1/${path}`)).status]).toEqual([path, 404]);
    }
  });

  it("a narrowed principal sees its workflows alone", async () => {
    const ids = async (path: string) =>
      (await list(wall, "narrow", path)).items.map((item: { id?: string; run_id?: string }) => item.id ?? item.run_id);
    const [own, wide] = [owned.a.id, owned.a.wideId];
    expect((await ids("/api/v1/sagas")).sort()).toEqual([own, owned.a.childId].sort());
    expect(await ids(`/api/v1/sagas/${own}/children`)).toEqual([owned.a.childId]);
    const counted = await list(wall, "narrow", `/api/v1/sagas/${own}/children/counts`);
    expect(counted.items).toMatchObject([{ count: 1 }]);
    const undone = (await list(wall, "ann", `/api/v1/sagas/${own}/undo`)).items;
    expect(undone.map(({ child_run_id }: { child_run_id?: string }) => child_run_id)).toContain(wide);
    expect(JSON.stringify(await list(wall, "narrow", `/api/v1/sagas/${own}/undo`))).not.toContain(wide);
    const kinds = (await list(wall, "narrow", "/api/v1/sagas/counts")).items;
    expect([...new Set(kinds.map(({ workflow_id }: { workflow_id: string }) => workflow_id))]).toEqual(["a.flow"]);
    for (const part of ["", "/events", "/explain", "/undo"])
      expect((await get(wall, "narrow", `/api/v1/sagas/${wide}${part}`)).status).toBe(404);
    // By a prefix: what the platform offers.
    expect(await ids("/api/v1/workflows")).toEqual(["a.flow", "none.flow"]);
    expect((await get(wall, "narrow", "/api/v1/workflows/a.wide/stats")).status).toBe(404);
    // Its acts were not narrowed.
    expect(await ids("/api/v1/bulk")).toEqual([]);
  });
});

describe("the workers of a tenant", () => {
  const services = (items: readonly { service?: string; action?: string }[]) =>
    items.map(({ service, action }) => service ?? action);
  it("are those that serve it alone, and what waits is its own", async () => {
    const [ann, few, root, narrow] = await Promise.all(
      (["ann", "few", "root", "narrow"] as const).map((name) => list("both walls", name, "/api/v1/workers")),
    );
    expect([services(ann.items), services(ann.unserved)]).toEqual([["a.service"], ["a.service.act@1"]]);
    expect([services(few.items), services(few.unserved)]).toEqual([["a.service"], ["a.service.act@1"]]);
    expect([services(root.items).length, services(root.unserved).length]).toEqual([4, 3]);
    expect(narrow.unserved).toEqual([]);
    expect([ann.left_off, root.left_off]).toEqual([undefined, 3]);
  });
});

describe("the cluster", () => {
  it.each(WALLS)("is told whole to the platform, also where it serves some tenants only: %s", async (wall) => {
    await rig.database.sql`
      insert into nodes (node_id, started_at, heartbeat_at, record_format, host, process_id)
      values (${uuidv7()}, now(), now(), 3, 'elsewhere', 7)`;
    const cluster = async (name: Name) => JSON.parse((await get(wall, name, "/api/v1/cluster")).text);
    const [root, few] = [await cluster("root"), await cluster("few")];
    expect(root.nodes.length).toBeGreaterThan(0);
    expect([few.nodes.length, few.shards]).toEqual([root.nodes.length, root.shards]);
  });
});

describe("a document of the platform that is for one tenant", () => {
  it("is read by that tenant alone", async () => {
    const document = JSON.stringify({ ...WORKFLOW, id: "for.b" });
    await rig.database
      .sql`insert into definitions (definition_id, workflow_id, version, tenant_id, for_tenant, name, published, ever_published, document)
      values (${uuidv7()}, 'for.b', 1, null, ${B.toUpperCase()}, 'seeded', true, true, ${document}::text::json)`;
    for (const wall of WALLS) {
      const answers = (["ann", "bob", "root"] as const).map((name) => get(wall, name, "/api/v1/workflows/for.b"));
      expect([wall, (await Promise.all(answers)).map(({ status }) => status)]).toEqual([wall, [404, 200, 200]]);
    }
  });
});
