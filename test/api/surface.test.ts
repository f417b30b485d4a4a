// The API as a whole: its OpenAPI document, probes, metrics, and the answers and log lines of failures.

import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { join } from "node:path";
import postgres from "postgres";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/config/package.js";
import { otherApi, useRig } from "./rig.js";

const rig = useRig();

describe("the OpenAPI document", () => {
  it("is 3.1 and describes every route with a summary, its parameters and its errors", async () => {
    const { status, body } = await rig.call("GET", "/openapi.json");
    expect(status).toBe(200);
    expect(body.openapi).toBe("3.1.0");
    const operations = Object.entries(body.paths).flatMap(([path, methods]) =>
      Object.entries(methods as Record<string, Operation>).map(([method, operation]) => ({ path, method, operation })),
    );
    for (const { path, method, operation } of operations) {
      const place = `${method} ${path}`;
      expect(operation.summary, place).toBeTruthy();
      // Markdown is for descriptions: the page of the API shows a summary as it is.
      expect(operation.summary, place).not.toContain("`");
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const inPath = (operation.parameters ?? [])
        .filter((parameter) => parameter.in === "path")
        .map(({ name }) => name);
      expect(inPath.sort(), place).toEqual(named.sort());
      if (!path.startsWith("/api")) continue;
      const errors = Object.keys(operation.responses).filter((code) => Number(code) >= 400);
      expect(errors, place).toEqual(expect.arrayContaining(["400", "403", "421", "500", "503"]));
      for (const code of errors) {
        const { content, description } = operation.responses[code] as { content: object; description: string };
        expect(JSON.stringify(content), `${place} ${code}`).toContain("#/components/schemas/Error");
        expect(description, `${place} ${code}`).not.toBe("Default Response");
      }
    }
    expect(operations.map(({ method, path }) => `${method} ${path}`)).toEqual(
      expect.arrayContaining([
        "post /api/v1/sagas/start",
        "get /api/v1/sagas",
        "get /api/v1/sagas/{id}",
        "post /api/v1/sagas/{id}/cancel",
        "post /api/v1/sagas/{run_id}/signal/{name}",
        "post /api/v1/sagas/{run_id}/actions/{step_id}/result",
        "get /api/v1/sagas/{id}/stream",
        "post /api/v1/registry/register",
        "get /api/v1/registry/actions",
        "get /api/v1/workflows/{wf_id}/stats",
      ]),
    );
    expect(Object.keys(body.components.schemas)).toEqual(
      expect.arrayContaining(["Error", "SagaRun", "WorkflowDefinition"]),
    );
  });

  it("names members in snake_case; null is the value of three, where the contract has it, and stays in documents", async () => {
    const { body } = await rig.call("GET", "/openapi.json");
    const [members, nullable] = [new Set<string>(), new Set<string>()];
    for (const [name, schema] of membersIn(body)) {
      members.add(name);
      if (JSON.stringify(schema.anyOf ?? schema.type ?? "").includes('"null"')) nullable.add(name);
    }
    expect(members.size).toBeGreaterThan(100);
    expect([...members].filter((name) => !/^\$?[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(name))).toEqual([]);
    // They are returned as they were posted.
    const kept = [
      ...["created_by", "default_output", "description", "entrypoints", "input_schema", "tenant_id", "timeout_ms"],
      ...["on_failure", "on_undo_failure", "migrations", "concurrency", "history", "rate_limit", "retention"],
      ...["days", "succeeded_days", "failed_days", "cancelled_days"],
    ];
    expect([...nullable].filter((name) => !kept.includes(name)).sort()).toEqual([
      ...["last_run_at", "matched_row", "success_rate_24h"],
    ]);
  });

  it("has Idempotency-Key on every POST that makes or changes something of its own", async () => {
    const { body } = await rig.call("GET", "/openapi.json");
    const keyed = Object.entries(body.paths as Record<string, { post?: Operation }>).flatMap(([path, { post }]) =>
      post ? [[path, post.parameters?.some(({ name }) => name === "idempotency-key") ?? false] as const] : [],
    );
    expect(keyed.filter(([, isKeyed]) => !isKeyed).map(([path]) => path)).toEqual(REPEATABLE);
  });

  it("has a name for every operation, as generated clients call it", async () => {
    const { body } = await rig.call("GET", "/openapi.json");
    const names = Object.entries(body.paths as Record<string, Record<string, { operationId?: string }>>).flatMap(
      ([path, operations]) =>
        Object.entries(operations).map(([method, { operationId }]) => operationId ?? `${method} ${path}`),
    );
    expect(names.filter((name) => !/^[a-z][A-Za-z]*$/.test(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  it("has the version of the package", async () => {
    const { version } = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8")) as { version: string };
    expect((await rig.call("GET", "/openapi.json")).body.info.version).toBe(version);
  });

  it("says which bodies may be omitted", async () => {
    const { body } = await rig.call("GET", "/openapi.json");
    const required = (path: string) => body.paths[path].post.requestBody.required;
    expect(required("/api/v1/sagas/start")).toBe(true);
    expect(required("/api/v1/sagas/{id}/cancel")).toBe(false);
  });

  it("has a page", async () => {
    const { status, headers } = await rig.call("GET", "/docs/");
    expect([status, String(headers["content-type"])]).toEqual([200, expect.stringContaining("text/html")]);
  });
});

/** POSTs whose repeat is the same as the first, by what they are. */
const REPEATABLE = [
  "/auth/session",
  "/auth/logout",
  "/api/v1/workflows/{wf_id}/migrations/check",
  "/api/v1/sagas/{id}/query",
  "/api/v1/sagas/{run_id}/actions/{step_id}/result",
  "/api/v1/sagas/{run_id}/actions/{step_id}/heartbeat",
  "/api/v1/triggers/{id}/backfill",
  "/api/v1/workflows",
  "/api/v1/workflows/{wf_id}/versions/{version}/publish",
  "/api/v1/workflows/{wf_id}/versions/{version}/unpublish",
  "/api/v1/workflows/validate",
  "/api/v1/workflows/{wf_id}/test",
  "/api/v1/rules",
  "/api/v1/rules/{rule_id}/versions/{version}/publish",
  "/api/v1/rules/{rule_id}/versions/{version}/unpublish",
  "/api/v1/rules/{rule_id}/evaluate",
  "/api/v1/registry/register",
  "/api/v1/api_keys",
];

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly anyOf?: unknown;
  readonly type?: unknown;
}

/** The members of all objects that the document describes, at any depth. */
function membersIn(value: unknown): [name: string, schema: Schema][] {
  if (typeof value !== "object" || value === null) return [];
  const { properties } = value as Schema;
  const own = typeof properties === "object" ? Object.entries(properties) : [];
  return [...own, ...Object.values(value).flatMap(membersIn)];
}

interface Operation {
  readonly summary?: string;
  readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  readonly responses: Readonly<Record<string, unknown>>;
}

describe("probes", () => {
  it("liveness depends on nothing else, readiness on whether the node takes requests", async () => {
    const see = async (path: string) => (await rig.call("GET", path)).status;
    const alive = ["/healthz", "/livez", "/health", "/health/live"];
    const ready = ["/readyz", "/health/ready"];
    for (const path of [...alive, ...ready]) expect([path, await see(path)]).toEqual([path, 200]);
    rig.ready = false;
    for (const path of alive) expect([path, await see(path)]).toEqual([path, 200]);
    for (const path of ready) expect([path, await see(path)]).toEqual([path, 503]);
    rig.ready = true;
  });

  it("readiness says that the store is read-only, as a standby or a primary under repair is", async () => {
    const connection = { default_transaction_read_only: true };
    const upkeep = postgres(rig.database.url, { max: 1, connection, onnotice: () => {} });
    const app = await otherApi(rig, {}, { upkeep });
    const { statusCode, body } = await app.inject("/readyz");
    expect([statusCode, JSON.parse(body).message]).toEqual([503, "the store is read-only"]);
    await app.close();
    await upkeep.end();
  });

  it("metrics count requests by route, not by URL", async () => {
    await rig.call("GET", "/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa");
    const { status, body, headers } = await rig.call("GET", "/metrics");
    expect([status, String(headers["content-type"])]).toEqual([200, expect.stringContaining("text/plain")]);
    expect(body).toContain('saga_http_request_seconds_count{method="GET",route="/api/v1/sagas/:id",status="404"} 1');
    expect(body).not.toContain("0190a000");
  });
});

describe("failures", () => {
  it("are logged with their request id, without the content of the request", async () => {
    rig.answer = () => {
      throw Object.assign(new Error("invalid input: TOPSECRET"), { severity: "ERROR", code: "22P02" });
    };
    const url = "/api/v1/sagas/0190a000-0000-7000-8000-0000000000aa/signal/paid";
    const { status, body } = await rig.call("POST", url, { card: "TOPSECRET" });
    expect(status).toBe(500);
    const line = rig.logLines.find((text) => text.includes(body.request_id));
    expect(line).toContain("22P02");
    expect(rig.logLines.join("")).not.toContain("TOPSECRET");
  });

  it("of malformed HTTP have the envelope too", async () => {
    await rig.app.listen({ port: 0, host: "127.0.0.1" });
    const socket = connect((rig.app.server.address() as AddressInfo).port, "127.0.0.1");
    socket.write("HELLO\r\n\r\n");
    let text = "";
    for await (const chunk of socket) text += chunk;
    expect(text).toContain("400 Bad Request");
    expect(JSON.parse(text.slice(text.indexOf("{")))).toMatchObject({
      error: "bad_request",
      request_id: expect.any(String),
    });
  });
});
