// Who waits for credit: first come, first served for each action of a service, the actions of a service in turn. Not a
// timer and not a limit: whoever adds decides how many may wait and for how long.
import type { ActionName } from "./transport.js";

/** Those sent back (their run could not answer) go before those that never had a turn. */
interface Row<T> {
  readonly name: ActionName;
  /** Whose row it is: "" is this node's own. */
  readonly of: string;
  readonly again: Map<string, T>;
  readonly fresh: Map<string, T>;
}

export interface Place {
  readonly again?: boolean;
  /** Another node, whose calls for the action take turns with those of this one. */
  readonly of?: string;
}

/** How far down a row one that fits is looked for. */
const LOOKS = 100;

export class WaitingLine<T> {
  readonly #services = new Map<string, Map<string, Row<T>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Tells whether it is the only one of its row: if not, those before it have already found no credit. */
  add(name: ActionName, id: string, item: T, { again = false, of = "" }: Place = {}): boolean {
    const rows = this.#services.get(name.service) ?? new Map<string, Row<T>>();
    this.#services.set(name.service, rows);
    const key = rowKey(name, of);
    const row = rows.get(key) ?? { name, of, again: new Map<string, T>(), fresh: new Map<string, T>() };
    rows.set(key, row);
    const side = again ? row.again : row.fresh;
    if (!side.has(id)) this.#size++;
    side.set(id, item);
    return length(row) === 1;
  }

  remove(name: ActionName, id: string, of = ""): void {
    const row = this.#services.get(name.service)?.get(rowKey(name, of));
    if (!row) return;
    if (row.again.delete(id) || row.fresh.delete(id)) this.#size--;
    this.#tidy(row);
  }

  /** Hands out heads, the rows in turn, until none is taken any more. `take` says whether it took its item. */
  serve(service: string, take: (item: T) => boolean): void {
    const rows = this.#services.get(service);
    if (!rows) return;
    const refused = new Set<string>();
    let progress = true;
    while (progress) {
      progress = false;
      for (const [key, row] of [...rows]) {
        if (refused.has(key)) continue;
        if (this.#serveHead(row, take)) {
          progress = true;
          // Behind the others: the next call begins with a row that was not served last.
          rows.delete(key);
          if (length(row) > 0) rows.set(key, row);
        } else refused.add(key);
      }
    }
    if (rows.size === 0 && this.#services.get(service) === rows) this.#services.delete(service);
  }

  serveAll(take: (item: T) => boolean): void {
    for (const service of [...this.#services.keys()]) this.serve(service, take);
  }

  /** This node's own rows and how many wait in each. */
  *own(): IterableIterator<readonly [name: ActionName, waiting: number]> {
    for (const rows of this.#services.values())
      for (const row of rows.values()) if (row.of === "") yield [row.name, length(row)];
  }

  /** Takes out the first of its own row that fits, among the first hundred. */
  takeFirst(name: ActionName, fits: (item: T) => boolean): T | undefined {
    const row = this.#services.get(name.service)?.get(rowKey(name, ""));
    if (!row) return undefined;
    let looks = LOOKS;
    for (const side of [row.again, row.fresh]) {
      for (const [id, item] of side) {
        if (looks-- === 0) return undefined;
        if (!fits(item)) continue;
        this.remove(name, id);
        return item;
      }
    }
    return undefined;
  }

  clear(): void {
    this.#services.clear();
    this.#size = 0;
  }

  #serveHead(row: Row<T>, take: (item: T) => boolean): boolean {
    const side = row.again.size > 0 ? row.again : row.fresh;
    const head = side.entries().next();
    if (head.done) return false;
    const [id, item] = head.value;
    if (!take(item)) return false;
    if (side.delete(id)) this.#size--;
    return true;
  }

  #tidy(row: Row<T>): void {
    if (length(row) > 0) return;
    const { service } = row.name;
    const rows = this.#services.get(service);
    rows?.delete(rowKey(row.name, row.of));
    if (rows?.size === 0) this.#services.delete(service);
  }
}

function length(row: Row<unknown>): number {
  return row.again.size + row.fresh.size;
}

function rowKey({ action, version }: ActionName, of: string): string {
  return `${action}@${version} ${of}`;
}
