// Ids for the names of a source: states and tasks may have any characters, ids may not. Two names never get one id.
import { FORBIDDEN_NAMES } from "../values/json.js";

const MOST = 100;

/** The name, if it is an id; else the nearest one. */
export function idOf(name: string): string {
  const near = name
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9_.:-]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .slice(0, MOST);
  return near === "" || near === "." || near === ".." || FORBIDDEN_NAMES.has(near) ? `step_${near.length}` : near;
}

export class Ids {
  private readonly taken = new Set<string>();
  private readonly given = new Map<string, string>();

  /** `key`: what is named, such as the path of a state. The same key gets the same id. */
  for(key: string, name: string): string {
    const before = this.given.get(key);
    if (before !== undefined) return before;
    const wanted = idOf(name);
    let id = wanted;
    for (let nth = 2; this.taken.has(id); nth++) id = `${wanted}.${nth}`;
    this.taken.add(id);
    this.given.set(key, id);
    return id;
  }
}
