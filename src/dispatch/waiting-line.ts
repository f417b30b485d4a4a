// Who waits for credit: first come, first served for each action of a service, the actions of a service in turn. Not a
// timer and not a limit: whoever adds decides how many may wait and for how long.
import type { ActionCall } from "../../machines/index.js";

/** Those sent back (their run could not answer) go before those that never had a turn. */
interface Row<T> {
  readonly again: Map<string, T>;
  readonly fresh: Map<string, T>;
}

export class WaitingLine<T> {
  readonly #services = new Map<string, Map<string, Row<T>>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Tells whether it is the only one of its action: if not, those before it have already found no credit. */
  add(call: ActionCall, id: string, item: T, again = false): boolean {
    const rows = this.#services.get(call.service) ?? new Map<string, Row<T>>();
    this.#services.set(call.service, rows);
    const row = rows.get(actionKey(call)) ?? { again: new Map(), fresh: new Map() };
    rows.set(actionKey(call), row);
    const side = again ? row.again : row.fresh;
    if (!side.has(id)) this.#size++;
    side.set(id, item);
    return row.again.size + row.fresh.size === 1;
  }

  remove(call: ActionCall, id: string): void {
    const row = this.#services.get(call.service)?.get(actionKey(call));
    if (!row) return;
    if (row.again.delete(id) || row.fresh.delete(id)) this.#size--;
    this.#tidy(call.service, actionKey(call), row);
  }

  /** Hands out heads, the actions in turn, until none is taken any more. `take` says whether it took its item. */
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
          // Behind the others: the next call begins with an action that was not served last.
          rows.delete(key);
          if (row.again.size + row.fresh.size > 0) rows.set(key, row);
        } else refused.add(key);
      }
    }
    if (rows.size === 0 && this.#services.get(service) === rows) this.#services.delete(service);
  }

  serveAll(take: (item: T) => boolean): void {
    for (const service of [...this.#services.keys()]) this.serve(service, take);
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

  #tidy(service: string, key: string, row: Row<T>): void {
    if (row.again.size + row.fresh.size > 0) return;
    const rows = this.#services.get(service);
    rows?.delete(key);
    if (rows?.size === 0) this.#services.delete(service);
  }
}

function actionKey(call: ActionCall): string {
  return `${call.action}@${call.version}`;
}
