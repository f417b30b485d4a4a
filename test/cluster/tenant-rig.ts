// Two tenants on a node with access control, whose runs are of the platform's workflows: whatever they share by name, they share. A worker of the
// platform serves both.
import { ACTS, charge, HELPED, refused } from "../faults/helping.js";
import { openShop, type Shop } from "../faults/shop.js";
import { rowsOfTenant, type TenantRows } from "../harness/tenant-rows.js";
import { until } from "../harness/until.js";
import { type Locked, OTHER, openLocked, TENANT } from "./access-rig.js";

export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape, and fail where they have another.
  readonly json: any;
}

export class TwoTenants {
  private constructor(
    readonly locked: Locked,
    private readonly shop: Shop,
    /** Of the tenant that is not to be touched. */
    readonly theirs: string,
    /** Of the other one. */
    readonly own: string,
    readonly root: string,
  ) {}

  static async open(): Promise<TwoTenants> {
    const locked = await openLocked();
    const [theirs, own] = [TENANT, OTHER].map((tenant) => locked.bearer("API key", "admin", tenant)) as [
      string,
      string,
    ];
    const root = await locked.newKey({ roles: ["admin", "platform"] });
    const token = await locked.newKey({ roles: ["worker", "platform"], services: ["*"] });
    const { grpcPort, httpPort } = locked.node;
    const shop = await openShop({ grpc: `127.0.0.1:${grpcPort}`, api: `http://127.0.0.1:${httpPort}`, token });
    const two = new TwoTenants(locked, shop, theirs, own, root);
    const wait = { id: "wait", type: "wait_for_signal", signal_name: "go" };
    for (const version of [1, 2])
      await two.publish("waits", [charge("pay", { next: "wait" }), wait], { ...HELPED, version });
    const inputs = { n: "${has(vars.n) ? vars.n : 0}" };
    await two.publish(
      "breaks",
      [charge("pay", { next: "no" }), charge("no", { action: "shop.refuse", inputs })],
      HELPED,
    );
    await two.publish(
      "stuck",
      [charge("pay", { compensation: { action: "shop.refuse" }, next: "no" }), refused],
      HELPED,
    );
    await two.publish("asks", [{ id: "ask", type: "manual_approval", assignee: "ann" }]);
    await two.publish("ends", [{ id: "end", type: "end", output: "${inputs}" }]);
    return two;
  }

  async send(bearer: string, method: string, path: string, body?: object, key?: string): Promise<Answer> {
    const { status, text, json } = await this.locked.ask(
      {
        ...{ method, path: `/api/v1${path}` },
        ...(body && { body: JSON.stringify(body) }),
        ...(key !== undefined && { headers: { "idempotency-key": key } }),
      },
      bearer,
    );
    return { status, json, text: text.replace(/"request_id":"[^"]*"/, "") };
  }

  /** The body of what has to go well. */
  async ask(bearer: string, method: string, path: string, body?: object): Promise<Answer["json"]> {
    const { status, text, json } = await this.send(bearer, method, path, body);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return json;
  }

  /** A workflow that everyone may use, or of the bearer's tenant. */
  publish(id: string, steps: readonly object[], head: object = {}, bearer = this.root) {
    const start = (steps[0] as { id: string }).id;
    return this.ask(bearer, "POST", "/workflows", { id, name: id, start, steps, version: 1, published: true, ...head });
  }

  async start(bearer: string, workflow_id: string, more: object = {}): Promise<string> {
    return (await this.ask(bearer, "POST", "/sagas/start", { workflow_id, ...more })).run_id;
  }

  /** A run that has come to rest: it waits for someone, or has ended. */
  async rested(bearer: string, workflow_id: string, more: object = {}): Promise<string> {
    const id = await this.start(bearer, workflow_id, more);
    await until(async () => {
      const { state, paused_reason: reason, incident } = await this.ask(bearer, "GET", `/sagas/${id}`);
      return incident || ["succeeded", "failed"].includes(state) || ["signal", "user_task"].includes(reason);
    });
    return id;
  }

  act(bearer: string, runId: string, act: keyof typeof ACTS) {
    return this.ask(bearer, "POST", `/sagas/${runId}/${act}`, ACTS[act]);
  }

  /** All rows of the tenant that is not to be touched, once nothing of it is on its way. */
  async rows(): Promise<TenantRows> {
    const { sql } = this.locked.database;
    await until(async () => {
      const [row] = await sql<[{ moving: boolean }]>`
        select exists (select from runs where tenant_id = ${TENANT} and terminal_at is null and paused_reason is null
            and record->'wait'->'error' is null)
          or exists (select from inbox where run_id in (select id from runs where tenant_id = ${TENANT}))
          or exists (select from outbox where run_id in (select id from runs where tenant_id = ${TENANT}))
          or exists (select from events where tenant_id = ${TENANT} and due_at is not null)
          or exists (select from bulk_jobs where tenant_id = ${TENANT} and state = 'running')
          or exists (select from trigger_fires where due_at is not null) as moving`;
      return !row.moving;
    });
    return rowsOfTenant(sql, TENANT);
  }

  async stop(): Promise<void> {
    await this.shop.stop();
    await this.locked.stop();
  }
}

/** Without what differs between any two things: ids, times, and where an undo is in the list of all. */
export const shapeOf = ({ status, text }: Answer) => ({
  status,
  text: text
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>")
    .replace(/\d{4}-\d\d-\d\d[T ][\d:.]+(Z| UTC)/g, "<time>"),
});
