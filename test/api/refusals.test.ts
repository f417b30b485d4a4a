// Every bad request is refused with its status, its code and a message that names the place, and leaves nothing behind.
import { describe, expect, it } from "vitest";
import { useRig, WORKFLOW } from "./rig.js";

const rig = useRig();
const ID = "0190a000-0000-7000-8000-0000000000aa";
const START = "/api/v1/sagas/start";
const RESULT = `/api/v1/sagas/${ID}/actions/charge/result`;
const REGISTER = "/api/v1/registry/register";
const action = (fields: object) => ({ service: "pay", actions: [{ action_name: "charge", ...fields }] });

interface Refusal {
  readonly what: string;
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly url: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly status?: number;
  readonly code?: string;
  /** Part of the message or of a detail. */
  readonly names: string;
}

const post = (what: string, url: string, body: unknown, names: string, more: Partial<Refusal> = {}): Refusal => ({
  what,
  method: "POST",
  url,
  body,
  names,
  ...more,
});
const get = (what: string, url: string, names: string, more: Partial<Refusal> = {}): Refusal => ({
  what,
  url,
  names,
  ...more,
});
const CONFIG = { code: "invalid_config" };
const OTHER_METHOD = { status: 405, code: "method_not_allowed" };
const GONE = { status: 404, code: "not_found" };

const REFUSALS: readonly Refusal[] = [
  post("a start without a body", START, undefined, "$.workflow_id"),
  post("a start that is not JSON", START, "{oops", "is not JSON: see line 1, column 2"),
  post("a start with a comma too many", START, '{\n  "workflow_id": "día🎉",\n}', "is not JSON: see line 3, column 1"),
  post("a start with a mark and a comma too many", START, '\uFEFF{\n "a": 1,\n}', "is not JSON: see line 3, column 1"),
  post("a start with a comma too many in a list", START, '{"workflow_id":["w",]}', "is not JSON: unexpected ]"),
  post("a start that quotes a place", START, "x at position 3", "is not JSON: unexpected x"),
  post("a start that quotes an end", START, '{"Unexpected end of JSON input": x', "is not JSON: unexpected x"),
  post("a start that ends too early", START, '{"workflow_id":', "is not JSON: it ends too early"),
  post("a start that is a list", START, [], "$ must be an object"),
  post("a start that is null", START, "null", "$ must be an object"),
  post("an empty start", START, {}, "$.workflow_id"),
  post("a workflow id with a space", START, { workflow_id: "a b" }, "$.workflow_id"),
  post("a workflow id that is too long", START, { workflow_id: "a".repeat(129) }, "$.workflow_id"),
  post("a version that is text", START, { workflow_id: "w", version: "1" }, "$.version"),
  post("a version of 0", START, { workflow_id: "w", version: 0 }, "$.version"),
  post("a version that is not an integer", START, { workflow_id: "w", version: 1.5 }, "$.version"),
  post("a version beyond the column", START, { workflow_id: "w", version: 2 ** 31 }, "$.version"),
  post("inputs that are a list", START, { workflow_id: "w", inputs: [] }, "$.inputs"),
  post("inputs that are text", START, { workflow_id: "w", inputs: "{}" }, "$.inputs"),
  post("variables that are a number", START, { workflow_id: "w", variables: 1 }, "$.variables"),
  post(
    "a variable named constructor",
    START,
    { workflow_id: "w", variables: { constructor: 1 } },
    "$.variables.constructor",
  ),
  post("__proto__ anywhere", START, '{"workflow_id":"w","inputs":{"a":{"__proto__":{"x":1}}}}', "prototype"),
  post(
    "constructor.prototype anywhere",
    START,
    '{"workflow_id":"w","inputs":{"constructor":{"prototype":{}}}}',
    "prototype",
  ),
  post("a tenant that is not a UUID", START, { workflow_id: "w", tenant_id: "acme" }, "$.tenant_id"),
  post("a run id that is not a UUID", START, { workflow_id: "w", run_id: "1" }, "$.run_id"),
  post("a dry run of 1", START, { workflow_id: "w", dry_run: 1 }, "$.dry_run"),
  post(
    "features that are not booleans",
    START,
    { workflow_id: "w", feature_overrides: { a: "yes" } },
    "$.feature_overrides.a",
  ),
  post("an empty idempotency key", START, { workflow_id: "w", idempotency_key: "" }, "$.idempotency_key"),
  post("two idempotency keys", START, { workflow_id: "w", idempotency_key: "a" }, "$.idempotency_key", {
    headers: { "idempotency-key": "b" },
  }),
  post("a key that is not UTF-8", START, { workflow_id: "w" }, "UTF-8", { headers: { "idempotency-key": "f\xfcr" } }),
  post("a body that is not UTF-8", START, Buffer.from('{"workflow_id":"f\xfcr"}', "latin1"), "UTF-8"),
  post("an idempotency key that is too long", START, { workflow_id: "w" }, "Idempotency-Key", {
    headers: { "idempotency-key": "k".repeat(256) },
  }),
  post("a negative delay", START, { workflow_id: "w", delay_ms: -1 }, "$.delay_ms"),
  post("a delay of centuries", START, { workflow_id: "w", delay_ms: 1e13 }, "$.delay_ms"),
  post("a timeout of 0", START, { workflow_id: "w", timeout_ms: 0 }, "$.timeout_ms"),
  post("a text with U+0000", START, { workflow_id: "w", inputs: { a: ["\u0000"] } }, "$.inputs.a[0]"),
  post("a name with U+0000", START, { workflow_id: "w", inputs: { "a\u0000": 1 } }, "$.inputs"),
  post("a lone surrogate", START, '{"workflow_id":"w","inputs":{"a":"\\ud800"}}', "$.inputs.a"),
  post("a number beyond a double", START, '{"workflow_id":"w","inputs":{"a":1e999}}', "$.inputs.a"),
  post("a body nested too deeply", START, `${"[".repeat(100_000)}${"]".repeat(100_000)}`, "nested"),
  post("a body of another content type", START, "a=1", "application/json", {
    headers: { "content-type": "application/x-www-form-urlencoded" },
    status: 415,
  }),
  post(
    "an event whose payload is too large",
    "/api/v1/events",
    { topic: "t", payload: "a".repeat(2 ** 20) },
    "$.payload",
  ),
  post("a body that is too large", START, `{"workflow_id":"${"a".repeat(2 * 1024 * 1024)}"}`, "SAGA_LIMIT_BODY_BYTES", {
    status: 413,
  }),

  get("a path with a run id that is not a UUID", "/api/v1/sagas/17", "id"),
  get("a run id with a quote", `/api/v1/sagas/${ID}'--`, "id"),
  get("an unknown run", `/api/v1/sagas/${ID}`, ID, GONE),
  get("events of an unknown run", `/api/v1/sagas/${ID}/events`, ID, GONE),
  get("signals of an unknown run", `/api/v1/sagas/${ID}/signals`, ID, GONE),
  get("children of an unknown run", `/api/v1/sagas/${ID}/children`, ID, GONE),
  get("undo of an unknown run", `/api/v1/sagas/${ID}/undo`, ID, GONE),
  get("user tasks of an unknown run", `/api/v1/sagas/${ID}/user_tasks`, ID, GONE),
  get("a URL that is malformed", "/api/v1/sagas/%", "URL"),
  get("an unknown route", "/api/v1/nothing?x=1", "/api/v1/nothing", GONE),
  get("another method", START, "Allow", OTHER_METHOD),
  { what: "a method that no route has", method: "PUT", url: START, body: {}, names: "PUT", ...OTHER_METHOD },

  get("a limit of 0", "/api/v1/sagas?limit=0", "limit"),
  get("a limit of 501", "/api/v1/sagas?limit=501", "limit"),
  get("a limit that is not a number", "/api/v1/sagas?limit=ten", "limit"),
  get("a limit in hexadecimal", "/api/v1/sagas?limit=0x10", "limit"),
  get("a limit with an exponent", "/api/v1/sagas?limit=1e2", "limit"),
  get("an empty limit", "/api/v1/sagas?limit=", "limit"),
  get("two limits", "/api/v1/sagas?limit=1&limit=2", "limit"),
  get("a negative offset", "/api/v1/sagas?offset=-1", "offset"),
  get("a malformed cursor", "/api/v1/sagas?cursor=abc", "cursor"),
  get(
    "a cursor with SQL",
    `/api/v1/sagas?cursor=${cursor(["-runs", "2026-01-01T00:00:00.000Z", "' or true --"])}`,
    "cursor",
  ),
  get(
    "a cursor with an invalid time",
    `/api/v1/sagas?cursor=${cursor(["-runs", "2026-99-99T00:00:00.000Z", ID])}`,
    "cursor",
  ),
  get(
    "a cursor of another order",
    `/api/v1/sagas?sort=started_at&cursor=${cursor(["-runs", "2026-01-01T00:00:00.000Z", ID])}`,
    "cursor",
  ),
  get("an unknown state", "/api/v1/sagas?state=running,asleep", "state"),
  get("a flag of 1", "/api/v1/sagas?root_only=1", "root_only"),
  get("a list of a version that is not a number", "/api/v1/sagas?version=latest", "version"),
  get("a time without a zone", "/api/v1/sagas?started_after=2026-01-01T00:00:00", "started_after"),
  get("31 February", "/api/v1/sagas?started_before=2026-02-31T00:00:00Z", "started_before"),
  get("a list of a tenant that is not a UUID", "/api/v1/sagas?tenant_id=acme", "tenant_id"),
  get("an unknown sort", "/api/v1/sagas?sort=id", "sort"),
  get("a q with U+0000", "/api/v1/sagas?q=%00", "q"),
  get("an unknown task status", "/api/v1/user_tasks?status=done", "status"),

  post("a cancel of a malformed id", "/api/v1/sagas/x/cancel", undefined, "id"),
  post("a reason that is a number", `/api/v1/sagas/${ID}/cancel`, { reason: 1 }, "$.reason"),
  post("a compensate that is text", `/api/v1/sagas/${ID}/cancel`, { compensate: "no" }, "$.compensate"),
  post("a signal to a malformed id", "/api/v1/sagas/x/signal/paid", {}, "run_id"),
  post("a signal of a user task", `/api/v1/sagas/${ID}/signal/user_task.1.submitted`, {}, "user_task."),
  post("a signal whose name has U+0000", `/api/v1/sagas/${ID}/signal/%00`, {}, "name"),
  post("a signal whose name is not UTF-8", `/api/v1/sagas/${ID}/signal/%ED%A0%80`, {}, "URL"),
  post("a reason with U+0000 in the URL", `/api/v1/sagas/${ID}/cancel?reason=%00`, undefined, "reason"),
  post("a signal without a name", `/api/v1/sagas/${ID}/signal/`, {}, "route", GONE),
  post("a payload that is a number", `/api/v1/sagas/${ID}/signal/paid`, { payload: 1 }, "$.payload"),
  post("a signal that is a list", `/api/v1/sagas/${ID}/signal/paid`, [1], "$ must be an object"),
  post("a key that is a number", `/api/v1/sagas/${ID}/signal/paid`, { idempotency_key: 1 }, "$.idempotency_key"),

  post("neither a result nor an error", RESULT, {}, "$.result"),
  post("both a result and an error", RESULT, { result: {}, error: { code: "x", message: "y" } }, "$.result"),
  post("a result without a body", RESULT, undefined, "$.result"),
  post("a result that is a list", RESULT, { result: [] }, "$.result"),
  post("a result of null", RESULT, { result: null }, "$.result"),
  post("an error without a code", RESULT, { error: { message: "y" } }, "$.error.code"),
  post("an error without a message", RESULT, { error: { code: "y" } }, "$.error.message"),
  post(
    "a retryable that is text",
    RESULT,
    { error: { code: "x", message: "y", retryable: "no" } },
    "$.error.retryable",
  ),
  post("an attempt that is text", RESULT, { result: {}, attempt: "1" }, "$.attempt"),
  post("an attempt of 0", RESULT, { result: {}, attempt: 0 }, "$.attempt"),
  post("an attempt of 0 in the URL", `${RESULT}?attempt=0`, { result: {} }, "attempt"),
  post("an attempt that differs from the URL", `${RESULT}?attempt=1`, { result: {}, attempt: 2 }, "$.attempt"),
  post("a dispatch that is not a UUID", RESULT, { result: {}, dispatch_id: "d" }, "$.dispatch_id"),
  post(
    "a run that differs from the URL",
    RESULT,
    { result: {}, run_id: "0190a000-0000-7000-8000-0000000000ab" },
    "$.run_id",
  ),
  post("a step that differs from the URL", RESULT, { result: {}, step_id: "ship" }, "$.step_id"),
  post("a heartbeat to a malformed id", "/api/v1/sagas/x/actions/charge/heartbeat", {}, "run_id"),
  post("a release of a malformed id", "/api/v1/sagas/x/release", undefined, "id"),
  post("a release with a list", `/api/v1/sagas/${ID}/release`, [1], "$ must be an object"),
  post("a heartbeat that is text", `/api/v1/sagas/${ID}/actions/charge/heartbeat`, '"x"', "$ must be an object"),
  post("a cancel of null", `/api/v1/sagas/${ID}/cancel`, "null", "$ must be an object"),

  post("a workflow without a body", "/api/v1/workflows", undefined, "$.id", CONFIG),
  post("a workflow that is a list", "/api/v1/workflows", [], "$", CONFIG),
  post("an empty workflow", "/api/v1/workflows", {}, "$.start", CONFIG),
  post("a workflow with an unknown field", "/api/v1/workflows", { ...WORKFLOW, stpes: [] }, "$.stpes", CONFIG),
  post("a workflow named __proto__", "/api/v1/workflows", { ...WORKFLOW, id: "constructor" }, "$.id", CONFIG),
  post(
    "a next step that does not exist",
    "/api/v1/workflows",
    { ...WORKFLOW, steps: [{ id: "begin", type: "noop", next: "no" }] },
    "$.steps[0].next",
    CONFIG,
  ),
  post("a workflow with a version of 0", "/api/v1/workflows", { ...WORKFLOW, version: 0 }, "$.version", CONFIG),
  post("a version that is a template", "/api/v1/workflows", { ...WORKFLOW, version: "${1}" }, "$.version", CONFIG),
  get("an unknown workflow", "/api/v1/workflows/nothing", "nothing", GONE),
  get("an unknown version", "/api/v1/workflows/nothing?version=3", "nothing", GONE),
  get("a workflow of a version that is not a number", "/api/v1/workflows/nothing?version=x", "version"),
  get("versions of an unknown workflow", "/api/v1/workflows/nothing/versions", "nothing", GONE),
  get("the machine of an unknown workflow", "/api/v1/workflows/nothing/machine", "nothing", GONE),
  get("stats of an unknown workflow", "/api/v1/workflows/nothing/stats", "nothing", GONE),
  get("a malformed workflow id", "/api/v1/workflows/a%20b/stats", "wf_id"),
  post("publishing an unknown workflow", "/api/v1/workflows/nothing/versions/1/publish", undefined, "nothing", GONE),
  post("publishing with a text", "/api/v1/workflows/nothing/versions/1/publish", '"x"', "$ must be an object"),
  post("unpublishing with a list", "/api/v1/rules/nothing/versions/1/unpublish", [], "$ must be an object"),
  post(
    "publishing a version that is not a number",
    "/api/v1/workflows/nothing/versions/one/publish",
    undefined,
    "version",
  ),

  post("a registration without a body", REGISTER, undefined, "$"),
  post("a registration without a service", REGISTER, { actions: [{ action_name: "charge" }] }, "$.service"),
  post("a registration without actions", REGISTER, { service: "pay", actions: [] }, "$.actions"),
  post("a bare action without a service", REGISTER, [{ action_name: "charge" }], "$[0].service"),
  post("an action of another service", REGISTER, action({ service: "ship" }), "$.actions[0].service"),
  post("an action with a dot", REGISTER, action({ action_name: "a.b" }), "$.actions[0].action_name"),
  post("an action with a version that is text", REGISTER, action({ version: "1" }), "$.actions[0].version"),
  post("a compensable that is text", REGISTER, action({ compensable: "yes" }), "$.actions[0].compensable"),
  post("a schema that is text", REGISTER, action({ input_schema: "{}" }), "$.actions[0].input_schema"),
  post(
    "a schema that is not a JSON Schema",
    REGISTER,
    action({ output_schema: { type: "strnig" } }),
    "$.actions[0].output_schema",
  ),
  post(
    "no attempts at all",
    REGISTER,
    action({ default_retry: { max_attempts: 0, initial_backoff_ms: 1 } }),
    "$.actions[0].default_retry.max_attempts",
  ),
  post(
    "a retry without backoff",
    REGISTER,
    action({ default_retry: { max_attempts: 1 } }),
    "$.actions[0].default_retry.initial_backoff_ms",
  ),
  post("an unknown transport", REGISTER, action({ transport: "smtp" }), "$.actions[0].transport"),
  post("http without an address", REGISTER, action({ transport: "http" }), "$.actions[0].address"),
  post("http to a relative URL", REGISTER, action({ transport: "http", address: "/charge" }), "$.actions[0].address"),
  post("http to a file URL", REGISTER, action({ transport: "http", address: "file:///etc" }), "$.actions[0].address"),
  post(
    "http with a password",
    REGISTER,
    action({ transport: "http", address: "http://a:b@c/" }),
    "$.actions[0].address",
  ),
  post("rmq without a queue", REGISTER, action({ transport: "rmq" }), "$.actions[0].address"),
  post("rmq without a broker", REGISTER, action({ transport: "rmq", address: "q" }), "AMQP_URL", CONFIG),
  post(
    "an action twice",
    REGISTER,
    { service: "pay", actions: [{ action_name: "a" }, { action_name: "a", version: 1 }] },
    "$.actions[1]",
  ),
  post(
    "one good and one bad",
    REGISTER,
    { service: "pay", actions: [{ action_name: "a" }, { action_name: "b", version: -1 }] },
    "$.actions[1].version",
  ),
  get("a search that is too long", `/api/v1/registry/actions?search=${"a".repeat(300)}`, "search"),

  get("a stream without an upgrade", `/api/v1/sagas/${ID}/stream`, "WebSocket", {
    status: 426,
    code: "upgrade_required",
  }),
];

describe("a bad request is refused, and leaves nothing behind", () => {
  it.each(REFUSALS)(
    "$what",
    async ({ method = "GET", url, body, headers, status = 400, code = "bad_request", names }) => {
      const before = await rig.countRows();
      const response = await rig.call(method, url, body, headers);
      expect([response.status, response.body.error], JSON.stringify(response.body)).toEqual([status, code]);
      const { message, details = [], request_id } = response.body;
      expect(JSON.stringify([message, details])).toContain(JSON.stringify(names).slice(1, -1));
      expect(request_id).toBe(response.headers["x-request-id"] ?? request_id);
      for (const detail of details)
        expect(detail).toEqual({ path: expect.stringMatching(/^\$/), message: expect.any(String) });
      expect(await rig.countRows()).toBe(before);
      expect(rig.started).toEqual([]);
      expect(rig.asked).toEqual([]);
    },
  );
});

function cursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}
