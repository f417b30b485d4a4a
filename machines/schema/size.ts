// How large a schema is, before anything of it is read. A schema that is over a limit is walked up to there only.
import { isObject, type Json, type JsonObject } from "../values/json.js";

const MAX_CHARS = 262_144;
/** Objects, and schemas that are `true` or `false`. */
const MAX_WEIGHT = 1_000;
const MAX_DEPTH = 200;

/** Keywords whose value is a flag or data. */
const FLAGS: ReadonlySet<string> = new Set([
  ...["uniqueItems", "deprecated", "readOnly", "writeOnly", "default", "const", "enum", "examples"],
]);

export class SchemaSize {
  /** About the length of its JSON. */
  chars = 0;
  /** Objects, and schemas that are `true` or `false`: thirty thousand of them fit into the characters. */
  weight = 0;
  isTooDeep = false;

  constructor(schema: JsonObject) {
    this.add(schema, "", 0);
  }

  /** Why the schema is not read, whatever it says. */
  get fault(): string | undefined {
    if (this.isTooDeep) return `it is nested too deeply: over ${MAX_DEPTH} levels`;
    if (this.weight > MAX_WEIGHT) return `it has over ${MAX_WEIGHT} objects and boolean schemas`;
    return this.chars > MAX_CHARS ? `it is over ${MAX_CHARS} characters` : undefined;
  }

  private add(value: Json, name: string, depth: number): void {
    if (typeof value !== "object" || value === null) {
      this.chars += typeof value === "string" ? value.length + 2 : String(value).length;
      if (typeof value === "boolean" && !FLAGS.has(name)) this.weight++;
      return;
    }
    this.chars += 2;
    if (depth >= MAX_DEPTH) this.isTooDeep = true;
    else if (isObject(value)) this.addMembers(value, depth + 1);
    else for (const item of value) if (this.fault === undefined) this.addItem(item, name, depth + 1);
  }

  private addItem(item: Json, name: string, depth: number): void {
    this.chars++;
    this.add(item, name, depth);
  }

  private addMembers(members: JsonObject, depth: number): void {
    this.weight++;
    for (const [key, member] of Object.entries(members)) {
      if (this.fault !== undefined) return;
      this.chars += key.length + 4;
      this.add(member, key, depth);
    }
  }
}
