// A fair queue for credit: first come, first served within an action and a tenant, and these take turns within a service. Where credit is that of a
// pool and not of a service, the actions and pools of a group take turns. It has no timer and no limit: its users decide how many
// items may wait, and for how long.
import { type ActionName, nameKey, nameOf } from "./workers.js";

/** The items of one action, for the runs of one tenant, and of one node. */
interface Row<T> {
  readonly name: ActionName;
  /** The node whose items these are; "" is this node. */
  readonly nodeId: string;
  readonly pool: Pool | undefined;
  /** Items that had a turn before, when their run could not answer. They go before the fresh ones. */
  readonly requeued: Map<string, T>;
  readonly fresh: Map<string, T>;
}

/** What has credit, where the service of an action has not: an address, for example. */
export interface Pool {
  /** The pools of a group are served together. */
  readonly group: string;
  readonly key: string;
}

export interface Place {
  /** Another node, whose items for the action take turns with those of this node. */
  readonly nodeId?: string;
  readonly pool?: Pool | undefined;
}

/** How far down a row `takeFirst` looks for an item that fits. */
const TAKE_FIRST_DEPTH = 100;

export class FairQueue<T> {
  /** The rows of each service, or of each group of a pool. */
  private readonly groups = new Map<string, Map<string, Row<T>>>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** True if the item is the only one of its row. If it is not, the items before it have already found no credit. */
  add(
    name: ActionName,
    id: string,
    item: T,
    { requeued = false, ...place }: Place & { requeued?: boolean } = {},
  ): boolean {
    const row = this.rowOf(name, place);
    const side = requeued ? row.requeued : row.fresh;
    if (!side.has(id)) this.count++;
    side.set(id, item);
    return length(row) === 1;
  }

  remove(name: ActionName, id: string, place: Place = {}): void {
    const row = this.groups.get(groupOf(name, place))?.get(rowKey(name, place));
    if (!row) return;
    if (row.requeued.delete(id) || row.fresh.delete(id)) this.count--;
    this.dropIfEmpty(row);
  }

  /**
   * Gives the heads of the rows to `tryServe`, row after row, until each row's head was refused. An item that was
   * served leaves the queue.
   */
  serve(group: string, tryServe: (item: T) => boolean): void {
    const rows = this.groups.get(group);
    if (!rows) return;
    const refused = new Set<string>();
    let progress = true;
    while (progress) progress = this.serveRound(rows, refused, tryServe);
    if (rows.size === 0 && this.groups.get(group) === rows) this.groups.delete(group);
  }

  serveAll(tryServe: (item: T) => boolean): void {
    for (const group of [...this.groups.keys()]) this.serve(group, tryServe);
  }

  /** This node's own actions, and how many items wait for each. */
  *ownCounts(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    for (const rows of this.groups.values())
      for (const row of rows.values()) if (row.nodeId === "") yield [row.name, length(row)];
  }

  /** Removes the first of this node's items for the action that fits, among the first hundred. */
  takeFirst(name: ActionName, fits: (item: T) => boolean): T | undefined {
    const row = this.groups.get(name.service)?.get(rowKey(name, {}));
    if (!row) return undefined;
    let depth = TAKE_FIRST_DEPTH;
    for (const side of [row.requeued, row.fresh]) {
      for (const [id, item] of side) {
        if (depth-- === 0) return undefined;
        if (!fits(item)) continue;
        this.remove(name, id);
        return item;
      }
    }
    return undefined;
  }

  clear(): void {
    this.groups.clear();
    this.count = 0;
  }

  private rowOf(name: ActionName, place: Place): Row<T> {
    const group = groupOf(name, place);
    const rows = this.groups.get(group) ?? new Map<string, Row<T>>();
    this.groups.set(group, rows);
    const key = rowKey(name, place);
    const row = rows.get(key) ?? newRow<T>(name, place);
    rows.set(key, row);
    return row;
  }

  /** One turn for each row that is not refused yet. True if any item was served. */
  private serveRound(rows: Map<string, Row<T>>, refused: Set<string>, tryServe: (item: T) => boolean): boolean {
    let progress = false;
    for (const [key, row] of [...rows]) {
      if (refused.has(key)) continue;
      if (!this.serveHead(row, tryServe)) {
        refused.add(key);
        continue;
      }
      progress = true;
      // Behind the others: the next call begins with a row that was not served last.
      rows.delete(key);
      if (length(row) > 0) rows.set(key, row);
    }
    return progress;
  }

  private serveHead(row: Row<T>, tryServe: (item: T) => boolean): boolean {
    const side = row.requeued.size > 0 ? row.requeued : row.fresh;
    const head = side.entries().next();
    if (head.done) return false;
    const [id, item] = head.value;
    if (!tryServe(item)) return false;
    if (side.delete(id)) this.count--;
    return true;
  }

  private dropIfEmpty(row: Row<T>): void {
    if (length(row) > 0) return;
    const group = groupOf(row.name, row);
    const rows = this.groups.get(group);
    rows?.delete(rowKey(row.name, row));
    if (rows?.size === 0) this.groups.delete(group);
  }
}

function newRow<T>(name: ActionName, { nodeId = "", pool }: Place): Row<T> {
  return { name: nameOf(name), nodeId, pool, requeued: new Map(), fresh: new Map() };
}

function length(row: Row<unknown>): number {
  return row.requeued.size + row.fresh.size;
}

function groupOf({ service }: ActionName, { pool }: Place): string {
  return pool?.group ?? service;
}

function rowKey(name: ActionName, { nodeId = "", pool }: Place): string {
  return `${nameKey(name)} ${nodeId} ${pool?.key ?? ""}`;
}
