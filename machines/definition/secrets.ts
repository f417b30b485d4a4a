// What a definition shows about its secrets before anything runs: keys that would show one, and marks that have no effect.
import type { Place } from "../attribute/problem.js";
import {
  ExpressionSyntaxError,
  type Outline,
  outlineOfExpression,
  readTemplate,
  type Template,
} from "../expression/index.js";
import { unusedSecrets, withSecrets } from "../schema/secrets.js";
import { isObject, type Json, type JsonObject } from "../values/json.js";
import { isSecret } from "../values/secret.js";

/** A key that reads a secret input. One that is computed in another way is refused when a run starts. */
export function refuseSecretKey(key: Template, inputSchema: JsonObject | undefined, place: Place): void {
  if (!inputSchema) return;
  for (const { path } of referencesIn(key.source)) {
    const [root, ...below] = path;
    if (root === "inputs" && isSecretAt(inputSchema, below))
      place.problem(`is shown, and ${path.join(".").slice(0, 128)} is secret (x-secret)`);
  }
}

type Reference = Extract<Outline, { kind: "reference" }>;

/** The names that its expressions are, where they are nothing else. */
function referencesIn(source: Json): readonly Reference[] {
  try {
    const outlines = readTemplate(source).found.map(({ expression }) => outlineOfExpression(expression.source));
    return outlines.filter((outline) => outline.kind === "reference");
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return [];
    throw error;
  }
}

/** Whether the schema marks what is there, or something around it. */
function isSecretAt(schema: JsonObject, path: readonly (string | number)[]): boolean {
  const sample = path.reduceRight<Json>(
    (inner, key) =>
      typeof key === "number" ? [...Array<Json>(Math.min(key, 100)).fill(null), inner] : { [key]: inner },
    null,
  );
  let value: Json | undefined = withSecrets(schema, sample);
  for (const key of path) {
    if (isSecret(value)) return true;
    value =
      isObject(value) || Array.isArray(value) ? (value as Readonly<Record<string | number, Json>>)[key] : undefined;
  }
  return isSecret(value);
}

/** Warns of each `x-secret` of the schema that marks nothing. */
export function warnOfUnused(schema: JsonObject, place: Place): void {
  for (const path of unusedSecrets(schema))
    place
      .below(path)
      .warn("secret_unused", "marks nothing here: no value is one that this schema is applied to as it stands");
}
