// The examples of the OpenAPI document: every operation has them, they conform to its schemas, and the service takes those that are documents.
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, describe, expect, it } from "vitest";
import { ignoredFields } from "../../src/api/http/body.js";
import { openApiDocument } from "../docs/generated.js";
import { Documented } from "./documented.js";
import { useRig } from "./rig.js";

const JSON_TYPE = "application/json";

interface Content {
  readonly schema: { readonly $ref?: string };
  readonly example?: unknown;
}
type Contents = Readonly<Record<string, Content>>;
interface Operation {
  readonly requestBody?: { readonly content: Contents };
  readonly responses: Readonly<Record<string, { readonly content?: Contents }>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: object;
}

let document: Document;
beforeAll(async () => {
  document = (await openApiDocument()) as Document;
});

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );

/** The JSON of every 2xx. */
const answers = () =>
  operations().flatMap(({ operation: { responses }, ...route }) =>
    Object.entries(responses).flatMap(([status, { content }]) => {
      const json = content?.[JSON_TYPE];
      return json && status.startsWith("2") ? [{ ...route, status: Number(status), ...json }] : [];
    }),
  );

const bodies = () =>
  operations().flatMap(({ operation: { requestBody }, ...route }) => {
    const json = requestBody?.content[JSON_TYPE];
    return json ? [{ ...route, ...json }] : [];
  });

describe("an operation", () => {
  it("with a body has an example of it, which its schema accepts whole", () => {
    expect(bodies().length).toBeGreaterThan(30);
    const ajv = new Ajv2020({ strict: false, validateSchema: false, validateFormats: false });
    for (const { method, path, schema, example } of bodies()) {
      const validate = ajv.compile({ ...schema, components: document.components });
      validate(example);
      const ignored = ignoredFields(schema, example);
      expect({ at: `${method} ${path}`, example, errors: validate.errors, ignored }).toEqual({
        ...{ at: `${method} ${path}`, example: expect.anything(), errors: null, ignored: [] },
      });
    }
  });

  it("that answers with JSON has an example of each answer that succeeds, as the document has it", () => {
    const documented = new Documented(document as ConstructorParameters<typeof Documented>[0]);
    expect(answers().length).toBeGreaterThan(70);
    for (const { method, path, status, example } of answers()) {
      expect(example, `${method} ${path} ${status}`).toBeDefined();
      // A path with its parameters in place is a path, too.
      expect(documented.check({ method, path, status, contentType: JSON_TYPE, body: example })).toBe(
        `${method} ${path}`,
      );
    }
  });
});

describe("a document of an example", () => {
  const rig = useRig();
  const bodyOf = (path: string) => bodies().find((body) => body.path === path && body.method === "POST")?.example;
  const send = (path: string, at = path) => rig.call("POST", at, bodyOf(path));

  it("is taken by the service, and does what its answer says", async () => {
    expect((await send("/api/v1/registry/register")).status).toBe(200);
    expect((await send("/api/v1/workflows/validate")).body).toMatchObject({ valid: true, errors: [] });
    expect((await send("/api/v1/workflows")).status).toBe(201);
    expect((await send("/api/v1/rules")).status).toBe(201);
    expect((await send("/api/v1/triggers")).status).toBe(201);
    const rehearsed = await send("/api/v1/workflows/{wf_id}/test", "/api/v1/workflows/order/test");
    expect(rehearsed.body).toMatchObject({ state: "succeeded", output: "r-1081" });
    expect((await send("/api/v1/bulk")).status).toBe(202);
    expect((await send("/api/v1/events")).status).toBe(202);
  });
});
