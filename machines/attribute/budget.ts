// The budget of one document: what it asks for is weighed before it is compiled, in units of about a microsecond on a slow machine. Only a
// document that is posted has one; a stored definition was weighed then.
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { programSize } from "../values/pattern-size.js";

/** A thousand steps with three expressions of sixty characters each use two thirds of it. */
export const DOCUMENT_BUDGET = 400_000;
/** An edge is transitions in the machine that runs. */
const EDGE = 30;
/** An object of a JSON Schema, or a schema that is `true` or `false`. */
const SCHEMA = 100;
/** An instruction of a regular expression. */
const INSTRUCTION = 2;

export class Budget {
  private left = DOCUMENT_BUDGET;

  /** Whether this was within the budget. */
  spend(units: number): boolean {
    this.left -= units;
    return this.left >= 0;
  }

  get isOver(): boolean {
    return this.left < 0;
  }
}

export const edgesWeight = (count: number): number => count * EDGE;

/** The characters of strings that contain a template. */
export function templateWeight(value: Json): number {
  if (typeof value === "string") return value.includes("${") ? value.length : 0;
  if (typeof value !== "object" || value === null) return 0;
  if (Array.isArray(value)) return value.reduce((sum: number, item: Json) => sum + templateWeight(item), 0);
  const object = value as JsonObject;
  let sum = 0;
  for (const name of Object.keys(object)) sum += templateWeight(object[name] as Json);
  return sum;
}

/** Stops once it is over the budget: a hostile schema is not read to its end. */
export function schemaWeight(schema: Json, name = ""): number {
  if (typeof schema === "boolean") return SCHEMA;
  if (typeof schema === "string") return name === "pattern" ? patternWeight(schema) : 1;
  if (typeof schema !== "object" || schema === null) return 1;
  let sum = isObject(schema) ? SCHEMA : 1;
  for (const [key, member] of Object.entries(schema as JsonObject)) {
    if (sum > DOCUMENT_BUDGET) break;
    if (name === "patternProperties") sum += patternWeight(key);
    sum += schemaWeight(member, isObject(schema) ? key : "");
  }
  return sum;
}

const patternWeight = (pattern: string): number => programSize(pattern) * INSTRUCTION;
