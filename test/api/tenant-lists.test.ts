// Lists of two tenants: what one of them has makes no difference to any answer that the other one gets. Every list with a cursor, every filter of a
// list and every filter of a bulk job is taken from the OpenAPI document; one that is new has no case here and fails.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import { countEnds } from "../../src/store/statistics/end-counts.js";
import { newRunId } from "../harness/ids.js";
import { long } from "../harness/long.js";
import { rowsOfTenant } from "../harness/tenant-rows.js";
import { verifierOf } from "../harness/verifier.js";
import { useRig } from "./rig.js";
import {
  type OpenWalls,
  type Owned,
  openWalls,
  pathOf,
  seed,
  seedMore,
  WALLS,
  type Wall,
  worker,
} from "./tenant-things.js";

const [A, B] = ["0190a000-0000-7000-8000-00000000000a", "0190a000-0000-7000-8000-00000000000b"] as const;
const rig = useRig();
const verifier = verifierOf({
  amy: { roles: ["admin"], tenantId: A },
  bea: { roles: ["admin"], tenantId: B },
  /** Of B, and for no workflow. */
  blind: { roles: ["admin"], tenantId: B, workflows: [] },
  root: { roles: ["admin", "platform"] },
  /** Of the platform, and for no tenant. */
  nil: { roles: ["admin", "platform"], tenants: [] },
});
type Name = "amy" | "bea" | "blind" | "root" | "nil";

interface Things extends Owned {
  readonly mark: string;
  readonly tenant: string;
}
/** What nobody has. */
const NOBODYS: Things = {
  ...{
    mark: "z",
    tenant: "0190a000-0000-7000-8000-00000000000c",
    wf_id: "z.flow",
    rule_id: "z.rule",
    service: "z.service",
  },
  ...{
    id: newRunId(),
    childId: newRunId(),
    wideId: newRunId(),
    taskId: uuidv7(),
    triggerId: uuidv7(),
    fireId: uuidv7(),
  },
  ...{ bulkId: uuidv7(), signalId: uuidv7() },
};
let [theirs, own, everyones] = [] as unknown as [Things, Things, Owned];

interface Parameter {
  readonly name: string;
  readonly in: string;
}
interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly "x-saga-role"?: unknown;
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: BulkSchema } } };
}
interface BulkSchema {
  readonly properties: {
    readonly filter: { readonly properties: Readonly<Record<string, { readonly type: string }>> };
    readonly action: { readonly enum: readonly string[] };
  };
}
const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8")) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
const BULK = paths["/api/v1/bulk"]?.post?.requestBody?.content["application/json"].schema
  .properties as BulkSchema["properties"];
const queryOf = ({ parameters = [] }: Operation) =>
  parameters.filter((one) => one.in === "query").map(({ name }) => name);
/** What someone of a tenant may read, but for the WebSockets. */
const READS = Object.entries(paths).flatMap(([path, { get }]) =>
  get &&
  [get["x-saga-role"]].flat().some((role) => role === "viewer" || role === "admin") &&
  !/\/(stream|inspect)$/.test(path)
    ? [{ path, query: queryOf(get) }]
    : [],
);
const LISTS = READS.filter(({ query }) => query.includes("cursor"));

/** The part of a list, and its order. */
const PAGING = ["limit", "offset", "cursor", "count", "sort"];
/** What is shown of one thing. */
const VIEWS = ["version", "format", "hours", "count", "wait_ms", "after_seq", "after_done"];

type Values = Readonly<Record<string, (things: Things) => string>>;
/** Every filter of a bulk job is one of these, too. */
const OF_RUNS: Values = {
  workflow_id: ({ wf_id }) => wf_id,
  version: () => "7",
  state: () => "failed",
  tenant_id: ({ tenant }) => tenant,
  trigger_id: ({ triggerId }) => triggerId,
  parent_run_id: ({ id }) => id,
  root_only: () => "true",
  business_key: ({ mark }) => `key-${mark}`,
  requires_manual_review: () => "true",
  awaited_signal: ({ mark }) => `${mark}.signal`,
  current_step: ({ mark }) => `${mark}.step`,
  paused_reason: () => "incident",
  incident: () => "true",
  incident_in: ({ id }) => id,
  error_code: ({ mark }) => `${mark}.code`,
  bulk_id: ({ bulkId }) => bulkId,
  forked_from: ({ id }) => id,
  started_after: () => "2080-01-01T00:00:00Z",
  started_before: () => "2000-01-01T00:00:00Z",
  "label.{name}": ({ mark }) => mark,
  q: ({ mark }) => `key-${mark}`,
};
/** A value of each filter that finds something of a tenant, and where it names something, nothing of others. */
const FILTERS: Readonly<Record<string, Values>> = {
  "/api/v1/sagas": OF_RUNS,
  "/api/v1/sagas/counts": OF_RUNS,
  "/api/v1/sagas/{id}/children": { parent_step_id: ({ mark }) => `${mark}.sub`, state: () => "paused" },
  "/api/v1/user_tasks": { assignee: ({ mark }) => `${mark}.person`, status: () => "submitted", run_id: ({ id }) => id },
  "/api/v1/triggers": { type: () => "record_transition", enabled: () => "false", workflow_id: ({ wf_id }) => wf_id },
  "/api/v1/registry/actions": {
    ...{ service: ({ service }) => service, category: ({ mark }) => `${mark}.kind`, search: ({ service }) => service },
  },
  "/api/v1/workers": { service: ({ service }) => service, transport: () => "grpc" },
  "/api/v1/api_keys": { tenant_id: ({ tenant }) => tenant },
};
const FILTERED = Object.entries(FILTERS).flatMap(([path, values]) =>
  Object.entries(values).map(([filter, valueIn]) => [`${path} by ${filter}`, { path, filter, valueIn }] as const),
);

/** What a list is asked for besides. */
const PARTS = ["", "limit=1", "limit=1&offset=1", "limit=1&count=exact"];
const VIEWED: Readonly<Record<string, string>> = { version: "1", format: "mermaid", hours: "24", after_seq: "0" };

const urlOf = (path: string, things: Parameters<typeof pathOf>[1], query = "") =>
  `${path.includes("{") ? pathOf(path, things) : path}${query && `?${query}`}`;
const queryWith = (filter: string, value: string) =>
  `${filter.replace("{name}", "owner")}=${encodeURIComponent(value)}`;

const namesIn = (query: string) => [...new URLSearchParams(query).keys()];

/** Everything that B may ask of what is its own and of what everyone may use. */
function questions(): readonly string[] {
  const urls = READS.flatMap(({ path, query }) => {
    const isList = query.includes("cursor") || query.includes("q");
    const orders = query.includes("sort") ? ["", "sort=started_at"] : [""];
    const parts = PARTS.filter(
      (part) => part === "" || (isList && namesIn(part).every((name) => query.includes(name))),
    );
    const views = query.flatMap((name) => (VIEWED[name] === undefined || isList ? [] : [`${name}=${VIEWED[name]}`]));
    const queries = [
      ...orders.flatMap((order) => parts.map((part) => [order, part].filter(Boolean).join("&"))),
      ...views,
    ];
    const isShared = /workflows|rules/.test(path) && path.includes("{");
    return queries.flatMap((one) => [urlOf(path, own, one), ...(isShared ? [urlOf(path, everyones, one)] : [])]);
  });
  const filtered = FILTERED.flatMap(([, { path, filter, valueIn }]) =>
    [own, NOBODYS].map((things) => urlOf(path, own, queryWith(filter, valueIn(things)))),
  );
  return [...new Set([...urls, ...filtered])];
}

let walls: OpenWalls;
async function get(wall: Wall, name: Name, url: string) {
  const { statusCode: status, body } = await walls
    .app(wall)
    .inject({ method: "GET", url, headers: { authorization: `Bearer ${name}` } });
  const text = body.replace(/"request_id":"[^"]*"/, "");
  // Its window moves with the clock.
  return { status, text: url.includes("/performance") ? text.replace(/"(from|to|at)":"[^"]*"/g, "") : text };
}
type Answer = Awaited<ReturnType<typeof get>>;

const [BOTH, ...ONE] = WALLS;
/** What B was answered while there was nothing of A. */
const before = new Map<string, Answer>();
const about = (wall: Wall, url: string) => `${wall} ${url}`;
const workers = [worker("b.service", [B]), worker("b.service", [B]), worker("none.service")];

async function have(mark: string, tenant: string): Promise<Things> {
  const one = await seed(rig, mark, tenant);
  await seedMore(rig, mark, tenant, one);
  await countEnds(rig.database.sql);
  return { ...one, mark, tenant };
}

beforeAll(async () => {
  everyones = await seed(rig, "none", null);
  own = await have("b", B);
  const known = workers.map((one, nth) => ({ ...one, workerId: `w${nth}` }));
  const waiting = [{ service: "b.service", tenantId: B }];
  const name = { action: "act", version: 1, transport: "grpc" as const, calls: 1 };
  const reportOf = (more: readonly string[]) => async () => ({
    workers: [
      ...known,
      ...more.flatMap((tenant) => ["a1", "a2"].map((workerId) => ({ ...worker("a.service", [tenant]), workerId }))),
    ],
    waiting: [...waiting, ...more.map((tenantId) => ({ service: "a.service", tenantId }))].map((one) => ({
      ...name,
      ...one,
    })),
    ...{ silent: [], leftOff: 0 },
  });
  rig.workers.report = reportOf([]);
  walls = await openWalls(rig, verifier);
  for (const wall of long<readonly Wall[]>([BOTH], WALLS))
    for (const url of questions()) before.set(about(wall, url), await get(wall, "bea", url));
  theirs = await have("a", A);
  rig.workers.report = reportOf([A]);
});
afterAll(() => walls?.close());

const sizeOf = ({ text }: Answer) => {
  const { items, total } = JSON.parse(text);
  return (total ?? items.length) as number;
};

/** What tells of A in a text: its ids, and whatever its names begin with. */
const tracesIn = ({ text }: Answer) => {
  const ids = Object.values(theirs).filter((value) => value.length === A.length);
  return [...ids, '"a.', '"a1', '"a2', '"key-a'].filter((trace) => text.includes(trace));
};

describe("the cases", () => {
  it("are those of every query parameter that the document has for a read", () => {
    for (const { path, query } of READS) {
      const isList = query.includes("cursor") || FILTERS[path] !== undefined;
      const rest = query.filter((name) => !(isList ? PAGING : VIEWS).includes(name));
      expect([path, rest.sort()]).toEqual([path, Object.keys(FILTERS[path] ?? {}).sort()]);
    }
    expect(LISTS.length).toBeGreaterThan(15);
  });

  it.each(FILTERED)("find something of their own tenant: %s", async (_, { path, filter, valueIn }) => {
    const found = async (name: Name, things: Things) => {
      const answer = await get("both walls", name, urlOf(path, things, queryWith(filter, valueIn(things))));
      expect(answer.status, answer.text).toBe(200);
      return sizeOf(answer);
    };
    expect(await found("amy", theirs)).toBeGreaterThan(0);
    expect(await found("bea", own)).toBe(await found("amy", theirs));
  });
});

const whatAnotherHas = (wall: Wall) => {
  it("changes no answer about what is one's own or everyone's, not by a byte", async () => {
    const changed = [];
    for (const url of questions()) {
      const first = before.get(about(wall, url));
      expect([url, first?.status], first?.text).toEqual([url, 200]);
      const now = await get(wall, "bea", url);
      if (now.text !== first?.text) changed.push({ url, first: first?.text, now: now.text });
    }
    expect(changed).toEqual([]);
  });

  it.each(FILTERED)("is found by no filter: %s", async (_, { path, filter, valueIn }) => {
    const nothing = before.get(about(wall, urlOf(path, own, queryWith(filter, valueIn(NOBODYS)))));
    expect(await get(wall, "bea", urlOf(path, own, queryWith(filter, valueIn(theirs))))).toEqual(nothing);
  });
};
describe.each([BOTH])("with %s, what another tenant has", whatAnotherHas);
describe.each(ONE)("with %s, what another tenant has", { tags: "long" }, whatAnotherHas);

/** Where a cursor is no one's: the same list, and the same list of another thing. */
const INVENTED = cursorOf(["a list", "that", "nobody", "has"]);
function cursorOf(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}
const partsOf = (cursor: string): readonly string[] => JSON.parse(Buffer.from(cursor, "base64url").toString());

const ORDERED = LISTS.flatMap(({ path, query }) =>
  (query.includes("sort") ? ["", "sort=started_at"] : [""]).map((order) => ({ path, order })),
);
const NAMED = ORDERED.map((one) => [`${one.path} ${one.order}`.trim(), one] as const);

const aCursor = (wall: Wall) => {
  const hasConditions = wall !== "row-level security alone";
  const read = (
    name: Name,
    path: string,
    { order, cursor, things }: { order: string; cursor?: string; things: Things },
  ) => get(wall, name, urlOf(path, things, [order, "limit=1", cursor && `cursor=${cursor}`].filter(Boolean).join("&")));
  const firstOf = async (name: Name, path: string, order: string, things: Things): Promise<string> => {
    const answer = await read(name, path, { order, things });
    expect([answer.status, JSON.parse(answer.text).next_cursor], answer.text).toEqual([200, expect.any(String)]);
    return JSON.parse(answer.text).next_cursor;
  };
  const without = ({ status, text }: Answer, { id, bulkId, triggerId, wf_id, rule_id }: Things) => ({
    ...{
      status,
      text: [id, bulkId, triggerId, wf_id, rule_id].reduce((left, name) => left.replaceAll(name, "…"), text),
    },
  });

  it.each(NAMED)("of another tenant is as one that no list gave: %s", async (_, { path, order }) => {
    const cursor = await firstOf("amy", path, order, theirs);
    const answers = async (name: Name, things: Things, one: string) =>
      without(await read(name, path, { order, things, cursor: one }), things);
    for (const name of ["bea", "blind", "nil"] as const) {
      for (const things of [own, theirs, NOBODYS]) {
        const answer = await answers(name, things, cursor);
        expect(tracesIn(answer)).toEqual([]);
        if (!hasConditions) continue;
        expect([name, path, answer]).toEqual([name, path, await answers(name, things, INVENTED)]);
        expect([400, 404]).toContain(answer.status);
      }
      expect(await answers(name, theirs, cursor)).toEqual(await answers(name, NOBODYS, cursor));
    }
    expect((await read("amy", path, { order, things: theirs, cursor })).status).toBe(200);
  });

  it.each(NAMED)("that was tampered with shows nothing of another tenant: %s", async (_, { path, order }) => {
    const [cursor, mine] = [await firstOf("amy", path, order, theirs), await firstOf("bea", path, order, own)];
    const as = (one: string, name: Name = "bea") => read(name, path, { order, things: own, cursor: one });
    const [list = "", ...position] = partsOf(mine);
    // One's own list, from a place of another's.
    const forged = await as(cursorOf([list, ...partsOf(cursor).slice(1)]));
    expect([path, forged.status, tracesIn(forged)]).toEqual([path, 200, []]);
    expect(sizeOf(forged)).toBe(sizeOf(await as(mine)));
    const others = ORDERED.find((one) => one.path !== path && !one.path.includes("{")) as (typeof ORDERED)[number];
    const unfit = [
      ...[mine.slice(0, -3), `x${mine}`, cursorOf([list]), cursorOf([list, ...position, "more"])],
      cursorOf([list, ...position.map(() => "' or true --\u0000")]),
      await firstOf("bea", others.path, others.order, own),
    ];
    for (const one of unfit) expect([one, await as(one)]).toEqual([one, await as(INVENTED)]);
    expect((await as(INVENTED)).status).toBe(400);
  });

  it.each(NAMED)("of one's own goes on, and shows what its asker may see: %s", async (_, { path, order }) => {
    const [mine, everything] = [await firstOf("bea", path, order, own), await firstOf("root", path, order, own)];
    const next = await read("bea", path, { order, things: own, cursor: mine });
    expect([next.status, JSON.parse(next.text).items.length, tracesIn(next)]).toEqual([200, 1, []]);
    const blind = await read("blind", path, { order, things: own, cursor: mine });
    const nil = await read("nil", path, { order, things: own, cursor: everything });
    expect([tracesIn(blind), tracesIn(nil)]).toEqual([[], []]);
    if (!hasConditions) return;
    expect(nil.status).toBe(path.includes("{") ? 404 : 400);
    // Rules are of a tenant, and of no workflow.
    expect(blind.status).toBe(path.includes("{") && !path.includes("rules") ? 404 : 200);
  });
};
describe.each([BOTH])("with %s, a cursor", aCursor);
describe.each(ONE)("with %s, a cursor", { tags: "long" }, aCursor);

describe("a bulk job", () => {
  const { filter, action } = BULK;
  const names = [...Object.keys(filter.properties), "label.{name}"];
  const typed = (name: string, value: string) =>
    ["integer", "boolean"].includes(filter.properties[name]?.type ?? "") ? JSON.parse(value) : value;
  const create = async (name: Name, filters: object, act = "pause") => {
    const { statusCode, body } = await walls.app("both walls").inject({
      ...{ method: "POST", url: "/api/v1/bulk", headers: { authorization: `Bearer ${name}` } },
      payload: { filter: filters, action: act, ...(BODIES[act] && { params: BODIES[act] }) },
    });
    return { status: statusCode, ...JSON.parse(body) } as { status: number; bulk_id: string; matched: number };
  };
  const BODIES: Readonly<Record<string, object>> = {
    ...{ signal: { signal_name: "go" }, migrate: { version: 2 }, terminate: { reason: "no" } },
  };
  const targetsOf = async (id: string) =>
    (
      await rig.database.sql<{ tenant_id: string | null }[]>`
        select distinct r.tenant_id from bulk_targets t left join runs r on r.id = t.run_id where t.bulk_id = ${id}`
    ).map(({ tenant_id }) => tenant_id);

  it("has the filters of the list", () => {
    expect(names.sort()).toEqual(Object.keys(OF_RUNS).sort());
  });

  it.each(names)("finds by %s what its tenant has, and counts no more than that", async (name) => {
    const valueIn = OF_RUNS[name] as (things: Things) => string;
    const rows = await rowsOfTenant(rig.database.sql, A);
    const listed = before.get(about("both walls", urlOf("/api/v1/sagas", own, queryWith(name, valueIn(NOBODYS)))));
    const by = (things: Things) => create("bea", { [name.replace("{name}", "owner")]: typed(name, valueIn(things)) });
    const job = await by(theirs);
    const found = sizeOf(listed as Answer);
    expect([job.status, job.matched, await targetsOf(job.bulk_id)]).toEqual([202, found, found > 0 ? [B] : []]);
    expect((await by(own)).matched).toBeGreaterThan(0);
    expect(await rowsOfTenant(rig.database.sql, A)).toEqual(rows);
  });

  it.each(action.enum)("that would %s the runs of another tenant finds none", async (act) => {
    const rows = await rowsOfTenant(rig.database.sql, A);
    const job = await create("bea", { business_key: "key-a" }, act);
    expect([job.status, job.matched, await targetsOf(job.bulk_id)]).toEqual([202, 0, []]);
    expect((await create("amy", { business_key: "key-a", workflow_id: "z.flow" }, act)).matched).toBe(0);
    expect(Object.keys(rows)).toEqual(expect.arrayContaining(["runs", "signals", "undo", "bulk_jobs", "api_keys"]));
  });
});
