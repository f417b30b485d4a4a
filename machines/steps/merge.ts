// `merge`: merges several objects into one. A later source wins, member by member. Arrays are replaced, not concatenated.
import { list } from "../attribute/composite.js";
import { defaulted, expression, oneOf, required } from "../attribute/kinds.js";
import { ExpressionError } from "../expression/index.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { isEncrypted, isSecret, SECRET, secret } from "../values/secret.js";
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
    const values = sources.map((source) => source.evaluate(scope));
    const objects = values.map((value, index) => objectAt(index, bare(value)));
    const output = strategy === "deep" ? deep(objects) : shallow(objects);
    // The names of a secret object are secret, too.
    return { kind: "done", output: values.some(isSecret) ? secret(output) : output };
  },
});

function objectAt(index: number, value: Json): JsonObject {
  if (isMergeable(value)) return bare(value) as JsonObject;
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
      if (below && isMergeable(value) && isMergeable(below[0])) below.push(value);
      else layers.set(name, [value]);
    }
  }
  return Object.fromEntries([...layers].map(([name, values]) => [name, merged(values)]));
}

/** Several values of one name are all objects. */
function merged(values: readonly Json[]): Json {
  if (values.length <= 1) return values[0] ?? null;
  const all = deep(values.map(bare).filter(isObject));
  return values.some(isSecret) ? secret(all) : all;
}

/** Without the mark of a secret value. */
const bare = (value: Json): Json => (isSecret(value) ? value[SECRET] : value);

function isMergeable(value: Json | undefined): boolean {
  const inner = value === undefined ? undefined : bare(value);
  return isObject(inner) && !isEncrypted(inner);
}
