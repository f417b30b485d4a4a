// A fair queue for credit: tenants take turns by their shares, the actions of a tenant take turns, and within an action the order is that of precedence-queue.ts: first come,
// first served, where no item has a precedence. Where credit is that of a pool and not of a service, the actions and pools of a group take turns. It has no timer
// and no limit: its users decide how many items may wait, and for how long.
import { type Precedence, USUAL_PRIORITY } from "../../machines/index.js";
import { type FlowName, PrecedenceQueue } from "./precedence-queue.js";
import { type ActionName, nameKey, nameOf, type WaitingCount } from "./workers.js";

/** The items of one action, for the runs of one tenant. */
interface Row<T> {
  readonly key: string;
  readonly name: ActionName;
  readonly group: string;
  /** Items that had a turn before, when their run could not answer. They go before the fresh ones. */
  readonly requeued: Map<string, T>;
  readonly fresh: Map<string, T>;
  /** Present once an item has come that is not of the usual kind, until none is left. It has the fresh ones then. */
  ordered: PrecedenceQueue<T> | undefined;
}

interface Tenant<T> {
  readonly rows: Map<string, Row<T>>;
  readonly share: number;
  /** What is left of its turn. */
  left: number;
}

/** What has credit, where the service of an action has not: an address, for example. */
export interface Pool {
  /** The pools of a group are served together. */
  readonly group: string;
  readonly key: string;
}

export interface Place {
  readonly pool?: Pool | undefined;
}

export interface Joining extends Place {
  readonly requeued?: boolean;
  readonly precedence?: Precedence | undefined;
  /** The item is one of another node, which has a flow of its own in each level. */
  readonly nodeId?: string;
}

/** How far down a row `takeFirst` looks for an item that fits. */
const TAKE_FIRST_DEPTH = 100;

/** How many turns in a row a tenant has. */
export type ShareOf = (tenantId: string | undefined) => number;

export class FairQueue<T> {
  /** The tenants that wait for each service, or for each group of a pool. */
  private readonly groups = new Map<string, Map<string, Tenant<T>>>();
  private count = 0;

  constructor(private readonly shareOf: ShareOf = () => 1) {}

  get size(): number {
    return this.count;
  }

  /** True if the item is the only one of its row. If it is not, the items before it have already found no credit. */
  add(name: ActionName, id: string, item: T, joining: Joining = {}): boolean {
    const row = this.rowOf(name, joining);
    const { requeued = false, precedence, nodeId } = joining;
    if (requeued) {
      if (!row.requeued.has(id)) this.count++;
      row.requeued.set(id, item);
    } else if (row.ordered || precedence || nodeId !== undefined) {
      row.ordered ??= new PrecedenceQueue(row.fresh);
      if (row.ordered.add(flowOf(precedence, nodeId), precedence?.weight ?? 1, id, item)) this.count++;
    } else {
      if (!row.fresh.has(id)) this.count++;
      row.fresh.set(id, item);
    }
    return length(row) === 1;
  }

  remove(name: ActionName, id: string, place: Place = {}): void {
    const row = this.groups
      .get(groupOf(name, place))
      ?.get(name.tenantId ?? "")
      ?.rows.get(rowKey(name, place));
    if (!row) return;
    if (row.requeued.delete(id) || (row.ordered ? row.ordered.remove(id) : row.fresh.delete(id))) this.count--;
    this.dropIfEmpty(row);
  }

  /**
   * Gives the heads of the rows to `tryServe`, in turns, until each row's head was refused. An item that was
   * served leaves the queue.
   */
  serve(group: string, tryServe: (item: T) => boolean): void {
    const tenants = this.groups.get(group);
    if (!tenants) return;
    if (tenants.size === 1)
      for (const { rows } of tenants.values()) {
        const open = [...rows.values()];
        while (this.serveOne(rows, open, tryServe));
      }
    else this.serveTenants(tenants, tryServe);
    for (const [id, { rows }] of tenants) if (rows.size === 0) tenants.delete(id);
    if (tenants.size === 0 && this.groups.get(group) === tenants) this.groups.delete(group);
  }

  serveAll(tryServe: (item: T) => boolean): void {
    for (const group of [...this.groups.keys()]) this.serve(group, tryServe);
  }

  /** This node's own actions, and how many items wait for each. */
  *ownCounts(): IterableIterator<WaitingCount> {
    for (const { name, requeued, fresh, ordered } of this.rows()) {
      if (!ordered) yield [name, requeued.size + fresh.size];
      else if (requeued.size + ordered.own > 0) yield [name, requeued.size + ordered.own, ordered.ownLevels()];
    }
  }

  /** Removes the first of this node's items for the action that fits, among the first hundred. */
  takeFirst(name: ActionName, fits: (item: T) => boolean): T | undefined {
    const row = this.groups
      .get(name.service)
      ?.get(name.tenantId ?? "")
      ?.rows.get(rowKey(name, {}));
    if (!row) return undefined;
    let depth = TAKE_FIRST_DEPTH;
    for (const side of [row.requeued, row.ordered ? EMPTY : row.fresh]) {
      for (const [id, item] of side) {
        if (depth-- === 0) return undefined;
        if (!fits(item)) continue;
        this.remove(name, id);
        return item;
      }
    }
    const taken = row.ordered?.takeFirst(fits, depth);
    if (taken !== undefined) this.count--;
    this.dropIfEmpty(row);
    return taken;
  }

  clear(): void {
    this.groups.clear();
    this.count = 0;
  }

  private *rows(): IterableIterator<Row<T>> {
    for (const tenants of this.groups.values()) for (const { rows } of tenants.values()) yield* rows.values();
  }

  private rowOf(name: ActionName, place: Place): Row<T> {
    const { tenantId } = name;
    const group = groupOf(name, place);
    const tenants = this.groups.get(group) ?? new Map<string, Tenant<T>>();
    this.groups.set(group, tenants);
    const tenant = tenants.get(tenantId ?? "") ?? newTenant<T>(this.shareOf(tenantId));
    tenants.set(tenantId ?? "", tenant);
    const key = rowKey(name, place);
    const row = tenant.rows.get(key) ?? newRow<T>(name, group, key);
    tenant.rows.set(key, row);
    return row;
  }

  private serveTenants(tenants: Map<string, Tenant<T>>, tryServe: (item: T) => boolean): void {
    const open = Array.from(tenants, ([id, tenant]) => ({ id, tenant, rows: [...tenant.rows.values()] }));
    for (let next = open.shift(); next; next = open.shift()) {
      const { id, tenant, rows } = next;
      while (tenant.left > 0 && this.serveOne(tenant.rows, rows, tryServe)) tenant.left--;
      // What is left of its turn it has when there is credit again.
      if (tenant.left > 0) continue;
      tenant.left = tenant.share;
      // Behind the others: the next call begins with a tenant that was not served last.
      if (tenants.delete(id)) tenants.set(id, tenant);
      open.push(next);
    }
  }

  /** One item of a tenant. `open`: its rows that were not refused yet, in the order of their turns. False: all were. */
  private serveOne(rows: Map<string, Row<T>>, open: Row<T>[], tryServe: (item: T) => boolean): boolean {
    for (let row = open.shift(); row; row = open.shift()) {
      if (!this.serveHead(row, tryServe)) continue;
      // Behind the others: the next call begins with a row that was not served last.
      if (rows.get(row.key) === row) rows.delete(row.key);
      if (length(row) === 0) return true;
      rows.set(row.key, row);
      open.push(row);
      return true;
    }
    return false;
  }

  private serveHead(row: Row<T>, tryServe: (item: T) => boolean): boolean {
    if (row.requeued.size === 0 && row.ordered) {
      const outcome = row.ordered.serve(tryServe);
      if (outcome === "served") this.count--;
      if (row.ordered?.size === 0) row.ordered = undefined;
      return outcome !== "refused";
    }
    const side = row.requeued.size > 0 ? row.requeued : row.fresh;
    const head = side.entries().next();
    if (head.done) return false;
    const [id, item] = head.value;
    if (!tryServe(item)) return false;
    if (side.delete(id)) this.count--;
    return true;
  }

  private dropIfEmpty(row: Row<T>): void {
    // Its fresh items were in the same map.
    if (row.ordered?.size === 0) row.ordered = undefined;
    if (length(row) > 0) return;
    const id = row.name.tenantId ?? "";
    const tenants = this.groups.get(row.group);
    const tenant = tenants?.get(id);
    tenant?.rows.delete(row.key);
    if (tenant?.rows.size === 0) tenants?.delete(id);
    if (tenants?.size === 0) this.groups.delete(row.group);
  }
}

const EMPTY = new Map<string, never>();

function flowOf(precedence: Precedence | undefined, nodeId: string | undefined): FlowName {
  const level = precedence?.priority ?? USUAL_PRIORITY;
  if (nodeId !== undefined) return { level, id: `node ${nodeId}`, own: false };
  return { level, id: precedence?.key === undefined ? "" : `key ${precedence.key}`, own: true };
}

const newTenant = <T>(share: number): Tenant<T> => ({ rows: new Map(), share, left: share });

function newRow<T>(name: ActionName, group: string, key: string): Row<T> {
  // Every member from the beginning: a row has one shape.
  return { key, name: nameOf(name), group, requeued: new Map(), fresh: new Map(), ordered: undefined };
}

function length({ requeued, fresh, ordered }: Pick<Row<unknown>, "requeued" | "fresh" | "ordered">): number {
  return requeued.size + (ordered ? ordered.size : fresh.size);
}

function groupOf({ service }: ActionName, { pool }: Place): string {
  return pool?.group ?? service;
}

function rowKey(name: ActionName, { pool }: Place): string {
  return `${nameKey(name)} ${pool?.key ?? ""}`;
}
