// Whole numbers at their bounds and beyond, in every parameter and member that the OpenAPI document has: an answer or a refusal, never a
// fault of the service.
import type { InjectOptions } from "fastify";
import { describe, expect, it } from "vitest";
import { asRunId } from "../../machines/index.js";
import { insertRun, type Response, useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
const MAX_INT32 = 2_147_483_647;
const EXTREMES: readonly (number | string)[] = [
  ...[-1, 0, 1, 1.5, MAX_INT32, MAX_INT32 + 1, Number.MAX_SAFE_INTEGER, 2 ** 63, 1e21, "1e3"],
];

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly not?: { readonly enum?: readonly number[] };
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}
interface Operation {
  readonly parameters?: readonly { readonly in: string; readonly name: string; readonly schema: Schema }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema; example?: unknown }>> };
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}
/** An integer that a client may send, and how one sends it. */
interface Door {
  readonly name: string;
  readonly schema: Schema;
  send(value: number | string): Promise<Response>;
}

const ID = asRunId("0190a000-0000-7000-8000-0000000000aa");
const fits = ({ minimum = -Infinity, maximum = Infinity, not }: Schema, value: number | string) =>
  typeof value === "number" &&
  Number.isSafeInteger(value) &&
  value >= minimum &&
  value <= maximum &&
  !not?.enum?.includes(value);

function doorsOf({ paths, components }: Document): Door[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { parameters = [], requestBody }]) => {
      const place = `${method.toUpperCase()} ${path}`;
      const send = (url: string, body?: unknown) =>
        rig.call(method.toUpperCase() as InjectOptions["method"], url, body);
      const { schema = {}, example = {} } = requestBody?.content["application/json"] ?? {};
      const inUrl = parameters
        .filter(({ schema }) => schema.type === "integer")
        .map(({ in: where, name, schema }) => ({
          name: `${name} of ${place}`,
          schema,
          send: (value: number | string) => {
            const filled = where === "path" ? urlOf(path.replace(`{${name}}`, String(value))) : urlOf(path);
            const query = where === "query" ? `?${name}=${encodeURIComponent(String(value))}` : "";
            return send(filled + query, requestBody && example);
          },
        }));
      const inBody = integersIn(schema, components.schemas).map(({ at, schema }) => ({
        name: `${at.join(".")} of ${place}`,
        schema,
        send: (value: number | string) => send(urlOf(path), placed(Array.isArray(at[0]) ? [] : example, at, value)),
      }));
      return [...inUrl, ...inBody];
    }),
  );
}

const RULE = {
  ...{ rule_id: "w", name: "Any", rule_type: "decision_table" },
  spec: { hit_policy: "first", rows: [], default_output: {} },
};

const urlOf = (path: string) =>
  path
    .replace("{version}", "1")
    .replace(/\{(\w+)\}/g, (_, name) => (/^(wf_id|rule_id|name|step_id)$/.test(name) ? "w" : ID));

function integersIn(schema: Schema, named: Document["components"]["schemas"]): { at: string[]; schema: Schema }[] {
  const known = schema.$ref === undefined ? schema : (named[schema.$ref.split("/").at(-1) ?? ""] ?? {});
  const below = (name: string, part: Schema) =>
    integersIn(part, named).map(({ at, schema }) => ({ at: [name, ...at], schema }));
  return [
    ...(known.type === "integer" ? [{ at: [], schema: known }] : []),
    ...Object.entries(known.properties ?? {}).flatMap(([name, part]) => below(name, part)),
    ...(known.items ? below("0", known.items) : []),
    ...(known.anyOf ?? []).flatMap((part) => integersIn(part, named)),
  ];
}

/** A copy of the body with the value at its place; what lies between is made. */
function placed(body: unknown, [name, ...rest]: readonly string[], value: number | string): unknown {
  if (name === undefined) return value;
  if (name === "0") return [placed(Array.isArray(body) ? body[0] : undefined, rest, value)];
  const whole = typeof body === "object" && body !== null && !Array.isArray(body) ? body : {};
  return { ...whole, [name]: placed((whole as Record<string, unknown>)[name], rest, value) };
}

describe("an integer that a client sends", () => {
  it("at its bounds or beyond is an answer or a refusal, wherever there is one", async () => {
    await insertRun(rig, { id: ID, workflow_id: "w", record: { groups: {}, frames: [] } });
    for (const version of [1, MAX_INT32]) {
      await rig.call("POST", "/api/v1/workflows", { ...WORKFLOW, id: "w", version, published: true });
      await rig.call("POST", "/api/v1/rules", { ...RULE, version, published: true });
    }
    await rig.database.sql`
      update runs set definition_id = (select definition_id from definitions where workflow_id = 'w' and version = 1) where id = ${ID}`;
    const cron = { trigger_type: "cron", workflow_id: "w", config: { schedule: "0 0 * * *" } };
    const { id: trigger } = (await rig.call("POST", "/api/v1/triggers", cron)).body;
    await rig.database.sql`update triggers set id = ${ID} where id = ${trigger}`;
    const doors = doorsOf((await rig.call("GET", "/openapi.json")).body as Document);
    expect(doors.length).toBeGreaterThan(70);
    const faults: string[] = [];
    for (const { name, schema, send } of doors)
      for (const value of EXTREMES) {
        if (name.startsWith("wait_ms") && fits(schema, value)) continue;
        const { status, body } = await send(value);
        // 426: a stream without an upgrade.
        const refusedAsItMust = fits(schema, value) || status === 400 || status === 426;
        if (status >= 500 || !refusedAsItMust) faults.push(`${name}: ${value} is ${status} ${body.message}`);
      }
    expect(faults).toEqual([]);
  });

  it.each([
    ["workflow", "/api/v1/workflows", { ...WORKFLOW, id: "full" }],
    ["rule", "/api/v1/rules", { ...RULE, rule_id: "full" }],
  ])(
    "is the last version of a %s: one that gives none is refused with a sentence, and a free one is taken",
    async (noun, url, document) => {
      const post = (more: object) => rig.call("POST", url, { ...document, published: true, ...more });
      expect((await post({ version: MAX_INT32 })).status).toBe(201);
      expect((await post({})).body.version, "the same content").toBe(MAX_INT32);
      const { status, body } = await post({ name: "Other" });
      expect([status, body.error, body.message]).toEqual([
        409,
        "conflict",
        `${noun} full has its last version, ${MAX_INT32}: post it with a version that is free`,
      ]);
      expect((await post({ name: "Other", version: 7 })).status).toBe(201);
    },
  );

  it("is the version of a document if it is one, and is refused with its place if not", async () => {
    const trigger = { trigger_type: "cron", workflow_id: "w", config: { schedule: "0 0 * * *" } };
    for (const [url, document] of [
      ["/api/v1/workflows", { ...WORKFLOW, id: "versions" }],
      ["/api/v1/rules", { ...RULE, rule_id: "versions" }],
      ["/api/v1/triggers", trigger],
    ] as const)
      for (const version of EXTREMES) {
        const { status, body } = await rig.call("POST", url, { ...document, version });
        // No workflow has those versions.
        const taken = url.endsWith("triggers") ? [201, 404] : [200, 201];
        const isVersion = fits({ minimum: 1, maximum: MAX_INT32 }, version);
        expect(isVersion ? taken : [400], `${url} ${version}: ${body.message}`).toContain(status);
      }
  });
});
