// `merge`: merges several objects into one. A later source wins, member by member. Arrays are replaced, not concatenated.
import { list } from "../attribute/composite.js";
import { defaulted, expression, oneOf, required } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { stepType } from "./step.js";

const MAX_SOURCES = 100;

export const merge = stepType({
  name: "merge",
  summary: "Merges objects into one; a later source wins.",
  attributes: {
    sources: required(list(expression, { min: 1, max: MAX_SOURCES }), "The objects, each as CEL."),
    strategy: defaulted(oneOf("shallow", "deep"), "shallow", "`deep` also merges objects of the same name."),
  },
  output: "the merged object",
  outputSchema: () => ({ type: "object" }),
  fits: ({ sources }) =>
    sources.map((given, index) => ({ at: ["sources", index], given, schema: { type: "object" }, by: "a source" })),
  enter({ attributes: { sources, strategy }, scope }) {
    const objects = sources.map((source, index) => objectAt(index, source.evaluate(scope)));
    return { kind: "done", output: strategy === "deep" ? deep(objects) : shallow(objects) };
  },
});

function objectAt(index: number, value: Json): JsonObject {
  if (isObject(value)) return value;
  throw new ExpressionError(`sources[${index}] must be an object`);
}

function shallow(sources: readonly JsonObject[]): JsonObject {
  return Object.fromEntries(sources.flatMap((source) => Object.entries(source)));
}

/** Visits every member once, whatever the number of sources. `fromEntries` never sets a prototype. */
function deep(sources: readonly JsonObject[]): JsonObject {
  const layers = new Map<string, Json[]>();
  for (const source of sources) {
    for (const [name, value] of Object.entries(source)) {
      const below = layers.get(name);
      if (below && isObject(value) && isObject(below[0])) below.push(value);
      else layers.set(name, [value]);
    }
  }
  return Object.fromEntries([...layers].map(([name, values]) => [name, merged(values)]));
}

/** Several values of one name are all objects. */
function merged(values: readonly Json[]): Json {
  return values.length > 1 ? deep(values.filter(isObject)) : (values[0] ?? null);
}
