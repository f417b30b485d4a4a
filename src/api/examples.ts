// Puts the examples into the OpenAPI document: a body for each request that has one, and an answer for each that succeeds. The examples
// themselves are in the folder of this name.
import { ANSWERS, REQUESTS } from "./examples/operations.js";
import { RESOURCE_EXAMPLES } from "./examples/resources.js";
import type { Resource } from "./schemas.js";

interface Schema {
  readonly $ref?: string;
  readonly properties?: { readonly items?: { readonly items?: Schema }; readonly total?: object };
}
interface Content {
  schema?: Schema;
  example?: unknown;
}
type Contents = Readonly<Record<string, Content>>;
interface Operation {
  readonly requestBody?: { readonly content: Contents };
  readonly responses?: Readonly<Record<string, { readonly content?: Contents }>>;
}

const JSON_TYPE = "application/json";

export function addExamples(paths: Readonly<Record<string, object>>): void {
  for (const [path, operations] of Object.entries(paths))
    for (const [method, operation] of Object.entries(operations as Readonly<Record<string, Operation>>))
      addTo(operation, `${method.toUpperCase()} ${path}`);
}

function addTo({ requestBody, responses = {} }: Operation, name: string): void {
  const body = requestBody?.content[JSON_TYPE];
  if (body && name in REQUESTS) body.example = REQUESTS[name];
  for (const [status, { content }] of Object.entries(responses)) {
    const answer = content?.[JSON_TYPE];
    if (!answer?.schema || !status.startsWith("2")) continue;
    const example = ANSWERS[`${name} ${status}`] ?? exampleOf(answer.schema);
    if (example !== undefined) answer.example = example;
  }
}

/** The example of a resource, of a page of resources, or of a list of them all. */
function exampleOf({ $ref, properties }: Schema): unknown {
  if ($ref !== undefined) return RESOURCE_EXAMPLES[$ref.slice($ref.lastIndexOf("/") + 1) as Resource];
  const item = properties?.items?.items;
  if (!item) return undefined;
  const items = [exampleOf(item)];
  return properties.total ? { items, total: items.length, limit: 50, offset: 0 } : { items };
}
