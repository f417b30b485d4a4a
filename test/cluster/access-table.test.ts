// The table of access over real sockets: every operation of the OpenAPI document, asked without a credential and with each role, as a token and
// as an API key, for what is the tenant's own, another tenant's, and nowhere. What each operation needs is written here again, from the
// contract: a route with a wrong role, or with none, fails.
// @module-tag long
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROLES, type Role } from "../../src/access/index.js";
import { packageRoot } from "../../src/config/package.js";
import { uuidv7 } from "../../src/ids.js";
import type { WireAnswer, WireRequest } from "../api/wire.js";
import { RawWorker } from "../dispatch/rig.js";
import { sealingSettings } from "../harness/service.js";
import { until } from "../harness/until.js";
import { BESIDE, KINDS, type Kind, type Locked, OTHER, openLocked, TENANT, WITHIN } from "./access-rig.js";

const READERS: readonly Role[] = ["viewer", "operator", "author", "admin"];
const OPERATORS = READERS.slice(1);
const AUTHORS = READERS.slice(2);
const words = (text: string) => text.trim().split(/\s+/);

/** Which roles may ask for which operations. */
const MAY: readonly (readonly [roles: readonly Role[], operations: readonly string[]])[] = [
  [
    READERS,
    words(`listSagas countSagas getSaga listSagaEvents listSagaSignals listSagaUndo listSagaUserTasks listSagaChildren
      countSagaChildren explainSaga querySaga streamSaga getInspectorPage inspectSaga listUserTasks listBulkJobs getBulkJob listTriggers getTrigger
      listTriggerFires listTriggerTicks listWorkflows getWorkflow listWorkflowVersions getWorkflowMachine getWorkflowStats
      getWorkflowPerformance listRules getRule listRuleVersions listActions`),
  ],
  [
    OPERATORS,
    words(`startSaga signalWithStart cancelSaga signalSaga pauseSaga resumeSaga retrySagaStep skipSagaStep failSaga retrySagaCompensation
      skipSagaCompensation terminateSaga releaseSaga rerunSaga forkSaga migrateSaga checkWorkflowMigration createBulkJob stopBulkJob resumeBulkJob
      submitUserTask publishEvent fireTrigger backfillTrigger validateWorkflow rehearseWorkflow evaluateRule`),
  ],
  [
    AUTHORS,
    words(`createWorkflow publishWorkflow unpublishWorkflow createRule publishRule unpublishRule createTrigger changeTrigger
      deleteTrigger`),
  ],
  [["admin"], words("createApiKey listApiKeys revokeApiKey eraseSaga")],
  [[...AUTHORS, "worker"], ["registerActions"]],
  [["worker"], words("reportActionResult reportActionHeartbeat")],
  [[...READERS, "platform"], ["listWorkers"]],
  [["platform"], ["getCluster", "getDataKeys", "destroyDataKeys"]],
  [["platform", "scrape"], ["getMetrics"]],
  [ROLES, ["closeSession"]],
];

/** Asked by anyone: probes, and the way to a session. */
const PUBLIC = words(`isAlive isAliveAtLivez isAliveAtHealth isAliveAtHealthLive isReady isReadyAtHealthReady
  openSession getSession beginLogin finishLogin`);

const rolesOf = (operation: string) => MAY.find(([, operations]) => operations.includes(operation))?.[0];

/** What the path and the body of an operation name. */
interface Things {
  readonly run: string;
  /** The run that has the task. */
  readonly asking: string;
  readonly task: string;
  readonly trigger: string;
  readonly bulk: string;
  readonly key: string;
  readonly tenant: string;
  readonly workflow: string;
  readonly rule: string;
}

const nowhere = (): Things => ({
  ...{ run: uuidv7(), asking: uuidv7(), task: uuidv7(), trigger: uuidv7(), bulk: uuidv7(), key: "0000000000000000" },
  tenant: uuidv7(),
  ...{ workflow: "no.flow", rule: "no.rule" },
});

interface Operation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly public: boolean;
}

const steps = [{ id: "wait", type: "wait_for_signal", signal_name: "go" }];
const decision = {
  rule_type: "decision_table",
  spec: { hit_policy: "first", rows: [{ when: "true", then: { ok: true } }] },
};
const flow = (id: string) => ({ id, name: id, start: "wait", steps, version: 1, published: true });
const cron = (workflow_id: string) => ({
  ...{ trigger_type: "cron", workflow_id, enabled: false, config: { schedule: "0 3 * * *" } },
});

/** Bodies that are in order, by operation. The others take an empty one. */
const BODIES: Readonly<Record<string, (things: Things) => object>> = {
  startSaga: ({ workflow }) => ({ workflow_id: workflow }),
  signalWithStart: ({ workflow }) => ({ workflow_id: workflow, business_key: "table", signal: { name: "go" } }),
  querySaga: () => ({ expression: "vars" }),
  terminateSaga: () => ({ reason: "no" }),
  forkSaga: () => ({ step: "wait" }),
  migrateSaga: () => ({ version: 1 }),
  checkWorkflowMigration: () => ({ version: 1 }),
  createBulkJob: () => ({ filter: { business_key: "none" }, action: "pause" }),
  reportActionResult: () => ({ result: { ok: true } }),
  submitUserTask: () => ({ result: { approved: true } }),
  publishEvent: () => ({ topic: "table" }),
  createTrigger: ({ workflow }) => cron(workflow),
  changeTrigger: () => ({ enabled: false }),
  backfillTrigger: () => ({ from: "2026-01-01T00:00:00Z", to: "2026-01-02T00:00:00Z" }),
  createWorkflow: ({ workflow }) => ({ ...flow(workflow), published: false }),
  validateWorkflow: ({ workflow }) => flow(workflow),
  rehearseWorkflow: () => ({ mocks: {} }),
  createRule: ({ rule }) => ({ rule_id: rule, name: rule, ...decision }),
  evaluateRule: () => ({ inputs: {} }),
  registerActions: () => ({ service: "table", actions: [{ action_name: "act" }] }),
  createApiKey: () => ({ name: "k", roles: ["viewer"] }),
};

const HANDSHAKE = {
  ...{ connection: "Upgrade", upgrade: "websocket" },
  ...{ "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
};

function requestOf({ id, method, path }: Operation, things: Things): WireRequest {
  const filled = path.replace(/\/(\w+)\/\{(\w+)\}/g, (_, collection: string, parameter: string) => {
    const values: Readonly<Record<string, string>> = {
      ...{
        sagas: path.includes("user_task/") ? things.asking : things.run,
        inspect: things.run,
        user_task: things.task,
        triggers: things.trigger,
        bulk: things.bulk,
      },
      ...{
        api_keys: things.key,
        data_keys: things.tenant,
        workflows: things.workflow,
        rules: things.rule,
        versions: "1",
        signal: "go",
        actions: "wait",
      },
    };
    const value = values[collection];
    if (value === undefined)
      throw new Error(`${path} names a new kind of thing by ${parameter}: make one for each tenant`);
    return `/${collection}/${value}`;
  });
  const body = method === "POST" || method === "PATCH" ? (BODIES[id]?.(things) ?? {}) : undefined;
  return {
    ...{ method, path: filled },
    ...(body && { body: JSON.stringify(body) }),
    ...(/Saga$/.test(id) && /\/(stream|inspect)$/.test(path) && { headers: HANDSHAKE }),
  };
}

const { paths } = JSON.parse(readFileSync(join(packageRoot(), "docs", "openapi.json"), "utf8"));
const OPERATIONS: readonly Operation[] = Object.entries(
  paths as Record<string, Record<string, { operationId: string; "x-saga-role"?: unknown }>>,
).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId: id, "x-saga-role": need }]) => ({
    ...{ id, path, method: method.toUpperCase(), public: need === "public" },
  })),
);
const GUARDED = OPERATIONS.filter((operation) => !operation.public);
/** An operation that names one thing, which may be another's. */
const OF_ONE = GUARDED.filter(({ path }) => path.includes("{"));
/** Their bodies name a thing. */
const BY_BODY = GUARDED.filter(({ id }) => ["startSaga", "signalWithStart", "createTrigger"].includes(id));

let locked: Locked;
let own: Things;
beforeAll(async () => {
  // Without encryption at rest there would be no data keys.
  locked = await openLocked(sealingSettings());
  own = await seed();
});
afterAll(() => locked?.stop());

async function seed(): Promise<Things> {
  const admin = locked.bearer("API key", "admin", TENANT);
  const post = async (path: string, body: object = {}) => {
    const { status, json, text } = await locked.ask(
      { method: "POST", path: `/api/v1${path}`, body: JSON.stringify(body) },
      admin,
    );
    if (status >= 300) throw new Error(`POST ${path}: ${status} ${text}`);
    return json;
  };
  const get = async (path: string) => (await locked.ask({ path: `/api/v1${path}` }, admin)).json;
  const [workflow, rule] = ["own.flow", "own.rule"];
  await post("/workflows", flow(workflow));
  const approval = { id: "wait", type: "manual_approval", assignee: "ann" };
  await post("/workflows", { ...flow("own.form"), steps: [approval] });
  await post("/rules", { rule_id: rule, name: rule, version: 1, published: true, ...decision });
  const { run_id: run } = await post("/sagas/start", { workflow_id: workflow });
  const { run_id: asking } = await post("/sagas/start", { workflow_id: "own.form" });
  const task = await until(async () => (await get(`/sagas/${asking}/user_tasks`)).items[0]?.id as string | undefined);
  await until(async () => (await get(`/sagas/${run}`)).state === "paused");
  const { id: trigger } = await post("/triggers", cron(workflow));
  const { bulk_id: bulk } = await post("/bulk", { filter: { business_key: "none" }, action: "pause" });
  await until(async () => (await get(`/bulk/${bulk}`)).state === "done");
  const { id: key } = await post("/api_keys", { name: "own", roles: ["viewer"] });
  return { run, asking, task, trigger, bulk, key, tenant: TENANT, workflow, rule };
}

/** Without what differs between any two answers. */
const shown = ({ status, text, headers: { date: _, ...headers } }: WireAnswer, things: Things) => {
  const left = Object.values(things).reduce((all, name) => all.replaceAll(name, "…"), text);
  const names = Object.keys(headers).filter((name) => name !== "content-length" && name !== "x-request-id");
  return { status, text: left.replace(/"request_id":"[^"]*"/, ""), names };
};

async function unchanged(work: () => Promise<void>): Promise<void> {
  const before = await locked.rows();
  await work();
  expect(await locked.rows()).toEqual(before);
}

const send = (operation: Operation, things: Things, bearer?: string) =>
  locked.ask(requestOf(operation, things), bearer);
const label = ({ id }: Operation) => id;
const named = (operations: readonly Operation[]) =>
  operations.map((operation) => [label(operation), operation] as const);
const KEYED_ROLES = KINDS.flatMap((kind) => ROLES.map((role) => [kind, role] as const));
const tenantOf = (role: Role, tenant: string) => (BESIDE.includes(role) ? undefined : tenant);
const with_ = (kind: Kind, role: Role, tenant: string) => locked.bearer(kind, role, tenantOf(role, tenant));

describe("the table of access", () => {
  it("has every operation of the document, and no other", () => {
    const listed = [...MAY.flatMap(([, operations]) => operations), ...PUBLIC].sort();
    expect(listed).toEqual(OPERATIONS.map(({ id }) => id).sort());
    expect(
      OPERATIONS.filter((one) => one.public)
        .map(({ id }) => id)
        .sort(),
    ).toEqual([...PUBLIC].sort());
  });

  it.each(named(GUARDED))("%s without a credential is 401", async (_, operation) => {
    await unchanged(async () => {
      const { status, json, headers } = await send(operation, own);
      expect([status, json?.error, headers["www-authenticate"]]).toEqual([401, "unauthorized", "Bearer"]);
    });
  });

  it.each(named(GUARDED))(
    "%s is refused to every role that may not ask for it, whatever it names",
    async (id, operation) => {
      const allowed = rolesOf(id) ?? [];
      await unchanged(async () => {
        for (const [kind, role] of KEYED_ROLES.filter(([, one]) => !allowed.includes(one))) {
          const answers = [];
          for (const [tenant, things] of [
            [TENANT, own],
            [OTHER, own],
            [TENANT, nowhere()],
          ] as const)
            answers.push(shown(await send(operation, things, with_(kind, role, tenant)), things));
          expect([kind, role, answers[0]?.status], answers[0]?.text).toEqual([kind, role, 403]);
          expect(answers[1]).toEqual(answers[0]);
          expect(answers[2]).toEqual(answers[0]);
          const [, sufficient] = /the role (\w+) may do this/.exec(answers[0]?.text ?? "") ?? [];
          expect(allowed).toContain(sufficient);
        }
      });
    },
  );

  it.each(named([...OF_ONE, ...BY_BODY]))("%s of another tenant's is as of what is nowhere", async (id, operation) => {
    const allowed = (rolesOf(id) ?? []).filter((role) => WITHIN.includes(role));
    await unchanged(async () => {
      for (const [kind, role] of KEYED_ROLES.filter(([, one]) => allowed.includes(one))) {
        const none = nowhere();
        const [its, no] = [
          await send(operation, own, with_(kind, role, OTHER)),
          await send(operation, none, with_(kind, role, OTHER)),
        ];
        expect([kind, role, shown(its, own)]).toEqual([kind, role, shown(no, none)]);
        // The contract gives a worker's report of another's its own status; so it is that of what is nowhere, too.
        expect([kind, role, its.status], its.text).toEqual([kind, role, role === "worker" ? 403 : 404]);
      }
    });
  });
});

const publishing = ({ path, ...operation }: Operation): Operation => ({
  ...{ ...operation, path: path.replace("unpublish", "publish") },
});

// After the others: it changes what is its own.
describe("the table of access, of the tenant's own things,", () => {
  it.each(named(GUARDED))("admits to %s every role that may ask for it", async (id, operation) => {
    const post = (path: string, body: object) =>
      locked.ask(
        { method: "POST", path: `/api/v1${path}`, body: JSON.stringify(body) },
        with_("API key", "admin", TENANT),
      );
    for (const [kind, role] of KEYED_ROLES.filter(([, one]) => rolesOf(id)?.includes(one))) {
      const things =
        id === "deleteTrigger"
          ? { ...own, trigger: (await post("/triggers", cron(own.workflow))).json.id as string }
          : own;
      const { status, text } = await send(operation, things, with_(kind, role, TENANT));
      expect([401, 403, 404, 405, 429], `${kind} ${role}: ${text}`).not.toContain(status);
      expect(status, text).toBeLessThan(500);
      if (/^unpublish/.test(id)) await send(publishing(operation), own, with_(kind, role, TENANT));
    }
  });
});

describe("the gRPC door", () => {
  it.each(KEYED_ROLES)("admits with %s: %s if it is a worker", async (kind, role) => {
    const worker = new RawWorker(`127.0.0.1:${locked.node.grpcPort}`);
    const hello = {
      worker_id: role,
      service: "table",
      max_in_flight: 1,
      token: with_(kind, role, TENANT),
    };
    worker.send({ hello });
    await until(() => worker.ended || worker.of("hello_ack").length > 0);
    expect([worker.of("hello_ack").length, worker.error?.code]).toEqual(role === "worker" ? [1, undefined] : [0, 7]);
    worker.cut();
  });
});
