// What the stories of the runbook need: a service process with the shop and the bank, workflows, starts, and facts to wait for. The commands of
// the page are runbook-page.ts.
import { afterAll, beforeAll, expect } from "vitest";
import type { JsonObject } from "../../machines/index.js";
import { Client } from "../faults/client.js";
import { createTestDatabase, type TestDatabase } from "../harness/database.js";
import { createService, type ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { Shop } from "./runbook-shop.js";

/** Starts at once. */
const CLIENTS = 20;

export interface Options {
  readonly bulkPerSecond: string;
  /** The longest wait for one fact. */
  readonly withinMs: number;
}

export class Rig {
  database!: TestDatabase;
  client!: Client;
  shop!: Shop;
  private service?: ServiceProcess;

  constructor(private readonly options: Options) {}

  async open(): Promise<void> {
    this.database = await createTestDatabase({ max: 2 });
    const env = { SAGA_WORKERS: "1", SAGA_BULK_PER_SECOND: this.options.bulkPerSecond, LOG_LEVEL: "warn" };
    this.service = await createService({ DATABASE_URL: this.database.url, ...env });
    await this.service.start();
    this.client = new Client(this.service.url);
    this.shop = await Shop.open({ grpc: this.service.grpcAddress, api: this.service.url });
  }

  async close(): Promise<void> {
    await this.shop?.close();
    await this.service?.stop();
    await this.database?.drop();
  }

  async publish(document: object): Promise<void> {
    const { status, body } = await this.client.insist("POST", "/workflows", document);
    if (status !== 201) throw new Error(JSON.stringify(body));
  }

  /** In the order of the requests. */
  async starts(workflowId: string, all: readonly JsonObject[]): Promise<string[]> {
    const ids: string[] = [];
    const left = [...all.entries()];
    const each = async () => {
      for (let next = left.shift(); next; next = left.shift())
        ids[next[0]] = await this.client.start(workflowId, next[1]);
    };
    await Promise.all(Array.from({ length: CLIENTS }, each));
    return ids;
  }

  signal(runId: string, name: string) {
    return this.client.insist("POST", `/sagas/${runId}/signal/${name}`, {});
  }

  async listed(filter: string): Promise<readonly { readonly id: string }[]> {
    return (await this.client.insist("GET", `/sagas?${filter}`)).body.items;
  }

  /** The counts of this filter are those, and no others. */
  untilCounts(filter: string, wanted: Readonly<Record<string, number>>) {
    const counted = async () => tally((await this.client.insist("GET", `/sagas/counts?${filter}`)).body.items);
    const what = `${text(wanted)} of ${filter}`;
    return until(async () => text(await counted()) === text(wanted), {
      ...{ pause: 100, within: this.options.withinMs, what },
    });
  }

  async end(runIds: readonly string[], state: string): Promise<void> {
    for (const id of runIds) expect(await this.client.untilState(id, state)).toMatchObject({ state });
  }

  /** A bulk job whose end the page does not wait for. */
  jobIsDone(id: string) {
    return until(async () => (await this.client.insist("GET", `/bulk/${id}?wait_ms=20000`)).body.state === "done");
  }
}

/** Call it at the top of a test file. */
export function useRig(options: Options): Rig {
  const rig = new Rig(options);
  beforeAll(() => rig.open());
  afterAll(() => rig.close());
  return rig;
}

export const pay = (refund = "shop.refund") => ({
  ...{ id: "pay", type: "action", action: "shop.charge", inputs: { card: "${has(inputs.card) ? inputs.card : ''}" } },
  compensation: { action: refund },
});

export const signal = (name: string) => ({ id: name, type: "wait_for_signal", signal_name: name });

/** A published version whose steps follow one another. */
export const workflow = (id: string, steps: readonly ({ id: string } & JsonObject)[], more: JsonObject = {}) => ({
  ...{ id, name: id, start: steps[0]?.id ?? "", published: true, version: 1, ...more },
  steps: steps.map((step, nth) => ({ next: steps[nth + 1]?.id, ...step })),
});

interface Count {
  readonly state: string;
  readonly paused_reason?: string;
  readonly count: number;
}

/** Counts by state and reason of a pause, over all versions. */
export function tally(items: readonly Count[]): Readonly<Record<string, number>> {
  const all: Record<string, number> = {};
  for (const { state, paused_reason: reason, count } of items) {
    const kind = reason === undefined ? state : `${state} ${reason}`;
    all[kind] = (all[kind] ?? 0) + count;
  }
  return all;
}
const text = (tallied: Readonly<Record<string, number>>) => JSON.stringify(Object.entries(tallied).sort());

export const idsIn = ({ items }: { readonly items: readonly { readonly id: string }[] }) =>
  items.map(({ id }) => id).sort();

export const repeat = <T>(count: number, value: (nth: number) => T) =>
  Array.from({ length: count }, (_, nth) => value(nth));

/** The answer of an act of an operator. */
export const changed = (state = expect.any(String)) => ({ run_id: expect.any(String), state, changed: true });
