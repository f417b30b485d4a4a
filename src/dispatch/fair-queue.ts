// A fair queue for credit: first come, first served within an action, and the actions of a service take turns. Where
// calls name their workflow (requests), the workflows of an action take turns, too. It has no timer and no limit: its users decide how many items may wait, and for how long.
import { type ActionName, versionedAction } from "./action-name.js";

/** The items of one action and one node. */
interface Row<T> {
  readonly name: ActionName;
  /** The node whose items these are; "" is this node. */
  readonly nodeId: string;
  /** Items that had a turn before, when their run could not answer. They go before the fresh ones. */
  readonly requeued: Map<string, T>;
  readonly fresh: Map<string, T>;
}

export interface Place {
  readonly requeued?: boolean;
  /** Another node, whose items for the action take turns with those of this node. */
  readonly nodeId?: string;
}

/** How far down a row `takeFirst` looks for an item that fits. */
const TAKE_FIRST_DEPTH = 100;

export class FairQueue<T> {
  private readonly services = new Map<string, Map<string, Row<T>>>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** True if the item is the only one of its row. If it is not, the items before it have already found no credit. */
  add(name: ActionName, id: string, item: T, { requeued = false, nodeId = "" }: Place = {}): boolean {
    const row = this.rowOf(name, nodeId);
    const side = requeued ? row.requeued : row.fresh;
    if (!side.has(id)) this.count++;
    side.set(id, item);
    return length(row) === 1;
  }

  remove(name: ActionName, id: string, nodeId = ""): void {
    const row = this.services.get(name.service)?.get(rowKey(name, nodeId));
    if (!row) return;
    if (row.requeued.delete(id) || row.fresh.delete(id)) this.count--;
    this.dropIfEmpty(row);
  }

  /**
   * Gives the heads of the rows to `tryServe`, row after row, until each row's head was refused. An item that was
   * served leaves the queue.
   */
  serve(service: string, tryServe: (item: T) => boolean): void {
    const rows = this.services.get(service);
    if (!rows) return;
    const refused = new Set<string>();
    let progress = true;
    while (progress) progress = this.serveRound(rows, refused, tryServe);
    if (rows.size === 0 && this.services.get(service) === rows) this.services.delete(service);
  }

  serveAll(tryServe: (item: T) => boolean): void {
    for (const service of [...this.services.keys()]) this.serve(service, tryServe);
  }

  /** This node's own actions, and how many items wait for each. */
  *ownCounts(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    for (const rows of this.services.values())
      for (const row of rows.values()) if (row.nodeId === "") yield [row.name, length(row)];
  }

  /** Removes the first of this node's items for the action that fits, among the first hundred. */
  takeFirst(name: ActionName, fits: (item: T) => boolean): T | undefined {
    const row = this.services.get(name.service)?.get(rowKey(name, ""));
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
    this.services.clear();
    this.count = 0;
  }

  private rowOf(name: ActionName, nodeId: string): Row<T> {
    const rows = this.services.get(name.service) ?? new Map<string, Row<T>>();
    this.services.set(name.service, rows);
    const key = rowKey(name, nodeId);
    const row = rows.get(key) ?? { name, nodeId, requeued: new Map<string, T>(), fresh: new Map<string, T>() };
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
    const { service } = row.name;
    const rows = this.services.get(service);
    rows?.delete(rowKey(row.name, row.nodeId));
    if (rows?.size === 0) this.services.delete(service);
  }
}

function length(row: Row<unknown>): number {
  return row.requeued.size + row.fresh.size;
}

function rowKey(name: ActionName, nodeId: string): string {
  return `${versionedAction(name)} ${nodeId} ${name.workflowId ?? ""}`;
}
