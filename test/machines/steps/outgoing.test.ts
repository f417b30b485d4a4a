// The steps that send HTTP: what a request and a webhook are made of, and what the run does with what came of a request.
import { describe, expect, it } from "vitest";
import { type Dispatch, type HttpRequest, Schemas, secret } from "../../../machines/index.js";
import { RUN_ID, type Simulation, START } from "../simulation.js";
import {
  attribute,
  chartOf,
  type Draft,
  failureOf,
  finish,
  metadataOf,
  problemsOf,
  rowsOf,
  start,
  typesOf,
} from "./rig.js";

const URL = "https://shop.example/orders";
const ask = (more: Record<string, unknown> = {}): Draft => ({ type: "http_request", url: URL, ...more });
const hook = (more: Record<string, unknown> = {}): Draft => ({
  ...{ type: "webhook_emit", url: URL, event_type: "order.made" },
  ...more,
});
const ONCE = { max_attempts: 1, initial_backoff_ms: 0 };

function dispatched(run: Simulation): Dispatch {
  const { wait } = run.context;
  const dispatch = wait?.kind === "dispatched" ? run.dispatches.get(wait.dispatchId) : undefined;
  if (!dispatch) throw new Error(`nothing is under way: ${JSON.stringify(wait)} ${failureOf(run)}`);
  return dispatch;
}

function request(more: Record<string, unknown> = {}, inputs = {}): HttpRequest {
  const { request } = dispatched(start([ask(more)], { inputs })).call;
  if (!request) throw new Error("the call has no request");
  return request;
}

/** The payload of the only webhook. */
function posted(more: Record<string, unknown> = {}, inputs = {}) {
  const run = finish([hook(more)], { inputs });
  expect([run.state, run.posts.length]).toEqual(["succeeded", 1]);
  return run.posts[0]?.payload;
}

const WRONG_URLS: readonly (readonly [url: string, fault: string])[] = [
  ["ftp://shop.example", "must begin with http:// or https://"],
  ["//shop.example", "must begin with http:// or https://"],
  ["shop.example", "must begin with http:// or https://"],
  ["https://", "must begin with http:// or https://"],
  ["https://user:pass@shop.example", "must not contain credentials: use secret_ref"],
  ["https://shop.example/a b", "must not contain spaces or line breaks"],
  ["https://shop.example/a\nb", "must not contain spaces or line breaks"],
  [`https://shop.example/${"a".repeat(8_192)}`, "is longer than 8192 characters"],
];

describe("http_request and webhook_emit", () => {
  attribute(
    "http_request.url, webhook_emit.url",
    "is http or https, without credentials, and may be a template",
    () => {
      expect(request({ url: "https://shop.example/${inputs.id}" }, { id: 7 }).url).toBe("https://shop.example/7");
      expect(request({ url: "HTTP://shop.example:8080/a#part" }).url).toBe("HTTP://shop.example:8080/a");
      expect(posted({ url: "https://shop.example/${inputs.id}" }, { id: 7 })).toMatchObject({
        url: "https://shop.example/7",
      });
      for (const [url, fault] of WRONG_URLS) {
        for (const step of [ask, hook]) {
          expect(problemsOf(step({ url })), url).toEqual([`.url: ${fault}`]);
          const run = finish([step({ url: "${inputs.url}" })], { inputs: { url } });
          expect(failureOf(run), url).toBe(`expression_error: url ${fault}`);
        }
      }
      expect(problemsOf({ type: "http_request" })).toEqual([".url: is required"]);
      expect(problemsOf({ type: "webhook_emit", event_type: "x" })).toEqual([".url: is required"]);
      expect(failureOf(finish([ask({ url: "${1}" })]))).toBe("expression_error: url must be a string");
    },
  );

  attribute("http_request.method", "GET unless given, one of the seven", () => {
    expect(request().method).toBe("GET");
    for (const method of ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
      expect(request({ method }).method).toBe(method);
    for (const method of ["post", "TRACE", "CONNECT", 7])
      expect(problemsOf(ask({ method }))).toEqual([
        `.method: must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS`,
      ]);
  });

  attribute("http_request.headers, webhook_emit.headers", "names in lower case, null left out, none of our own", () => {
    const headers = { "X-Id": "${inputs.id}", "X-None": "${null}", Accept: "text/${inputs.kind}" };
    const inputs = { id: 7, kind: "csv" };
    const expected = { "x-id": "7", accept: "text/csv" };
    expect(request({ headers }, inputs).headers).toEqual(expected);
    expect(posted({ headers }, inputs)).toMatchObject({ headers: expected });
    expect(request({ headers: "${inputs.h}" }, { h: { a: "b" } }).headers).toEqual({ a: "b" });
    expect(request().headers).toEqual({});
    for (const step of [ask, hook]) {
      expect(
        problemsOf(step({ headers: { Host: "a", "Idempotency-Key": "b", "webhook-id": "c", "a b": "d" } })),
      ).toEqual([
        ".headers.Host: is set by the service",
        '.headers["Idempotency-Key"]: is set by the service',
        '.headers["webhook-id"]: is set by the service',
        '.headers["a b"]: is not a header name',
      ]);
      expect(problemsOf(step({ headers: [] }))).toEqual([".headers: must be an object"]);
      const failure = (h: unknown) => failureOf(finish([step({ headers: "${inputs.h}" })], { inputs: { h } as never }));
      expect(failure({ "Content-Length": "7" })).toBe("expression_error: headers.Content-Length is set by the service");
      expect(failure({ a: "b\r\nc: d" })).toBe("expression_error: headers.a has characters that a header cannot carry");
      expect(failure({ a: "\u2192" })).toBe("expression_error: headers.a has characters that a header cannot carry");
      expect(failure({ a: { b: 1 } })).toBe("expression_error: headers.a must be a string");
      expect(failure(Object.fromEntries(Array.from({ length: 101 }, (_, nth) => [`h${nth}`, "v"])))).toBe(
        "expression_error: there are more than 100 headers",
      );
    }
  });

  attribute("http_request.query", "is added to the URL's own, encoded; a list repeats, null is left out", () => {
    const query = { q: "a b&c=${inputs.of}", tag: ["x", 1, null], none: "${null}", flag: true, ä: "ü" };
    const encoded = "q=a%20b%26c%3Dd&tag=x&tag=1&flag=true&%C3%A4=%C3%BC";
    expect(request({ query }, { of: "d" }).url).toBe(`${URL}?${encoded}`);
    expect(request({ url: `${URL}?a=1#part`, query: { b: 2 } }).url).toBe(`${URL}?a=1&b=2`);
    expect(request({ url: `${URL}?`, query: { b: 2 } }).url).toBe(`${URL}?b=2`);
    expect(request({ url: `${URL}?a`, query: {} }).url).toBe(`${URL}?a`);
    expect(problemsOf(ask({ query: "a=b" }))).toEqual([".query: must be an object"]);
    expect(failureOf(finish([ask({ query: "${[1]}" })]))).toBe("expression_error: query must be an object");
  });

  attribute("http_request.body", "keeps its type, is part of what is limited, and not for GET and HEAD", () => {
    expect(request({ method: "POST", body: { n: "${inputs.n}" } }, { n: 7 }).body).toEqual({ n: 7 });
    expect(request({ method: "POST", body: "n=${inputs.n}" }, { n: 7 }).body).toBe("n=7");
    expect(request({ method: "POST", body: null }).body).toBe(null);
    expect(request({ method: "POST" })).not.toHaveProperty("body");
    expect(problemsOf(ask({ body: {} }))).toEqual([".body: a GET has no body"]);
    expect(problemsOf(ask({ method: "HEAD", body: {} }))).toEqual([".body: a HEAD has no body"]);
    const large = { limits: { output: 200 }, inputs: { x: "x".repeat(200) } };
    expect(failureOf(finish([ask({ method: "POST", body: "${inputs.x}" })], large))).toBe(
      "limit_exceeded: the request is over 200 characters of JSON",
    );
  });

  attribute("http_request.timeout_ms", "is at most ten minutes", () => {
    const deadline = (timeout_ms: unknown) => dispatched(start([ask({ timeout_ms })])).deadlineAt - START;
    expect(deadline(600_000)).toBe(600_000);
    expect(problemsOf(ask({ timeout_ms: 600_001 }))).toEqual([".timeout_ms: must be at most 600000"]);
    expect(failureOf(finish([ask({ timeout_ms: "${600001}" })]))).toBe(
      "limit_exceeded: timeout_ms is over 600000, the most for an http_request",
    );
  });

  attribute("http_request.timeout_ms", "30000 unless given; expiry is retryable, and it may have happened", () => {
    const deadline = (more = {}) => dispatched(start([ask(more)])).deadlineAt - START;
    expect(deadline()).toBe(30_000);
    expect(deadline({ timeout_ms: "${100.5}" })).toBe(101);
    expect(problemsOf(ask({ timeout_ms: 0 }))).toEqual([".timeout_ms: must be at least 1"]);
    expect(failureOf(finish([ask({ timeout_ms: "${0}" })]))).toBe(
      "expression_error: timeout_ms must be a number of at least 1",
    );
    const run = finish([ask({ timeout_ms: 500, retry: ONCE, compensation: { action: "shop.refund" } })], {
      worker: ({ call }) => (call.request ? { kind: "silence" } : { kind: "result", result: {} }),
    });
    expect(failureOf(run)).toBe("timeout: the server did not answer in time");
    expect(run.undo.map(({ stepId, state }) => [stepId, state])).toEqual([["s", "done"]]);
  });

  attribute("http_request.expected_status", "2xx unless given; statuses and classes", () => {
    expect(request().expectedStatus).toEqual(["2xx"]);
    expect(request({ expected_status: [404, "3xx"] }).expectedStatus).toEqual([404, "3xx"]);
    expect(problemsOf(ask({ expected_status: ["1xx", "20x", 99, 600, 200.5, "200"] }))).toEqual(
      [0, 1, 2, 3, 4, 5].map(
        (nth) => `.expected_status[${nth}]: must be a status from 200 to 599, or a class such as 2xx`,
      ),
    );
    expect(problemsOf(ask({ expected_status: [] }))).toEqual([".expected_status: must have at least 1 item"]);
  });

  attribute("http_request.output_schema", "fails the step on another response, and marks secret parts", () => {
    const output_schema = { properties: { status: { const: 200 }, body: { "x-secret": true } } };
    const answered = (status: number) => {
      const run = start([ask({ output_schema, retry: ONCE })], { schemas: new Schemas() });
      const { dispatchId } = dispatched(run);
      run.command({
        type: "result",
        actor: "worker:w",
        dispatchId,
        result: { status, headers: {}, body: { token: "t-1" } },
      });
      return run;
    };
    expect(answered(200).context.variables.s).toEqual({ status: 200, headers: {}, body: secret({ token: "t-1" }) });
    expect(failureOf(answered(201))).toMatch(/^schema_mismatch: the response: \/status/);
    expect(problemsOf(ask({ output_schema: [] }))).toEqual([".output_schema: must be an object (a JSON Schema)"]);
  });

  attribute("http_request.follow_redirects", "false unless given", () => {
    expect(request().followRedirects).toBe(false);
    expect(request({ follow_redirects: true }).followRedirects).toBe(true);
    expect(problemsOf(ask({ follow_redirects: 1 }))).toEqual([".follow_redirects: must be true or false"]);
  });

  attribute("http_request.secret_ref, webhook_emit.secret_ref", "the name travels, never the secret", () => {
    expect(request({ secret_ref: "shop_${inputs.r}" }, { r: "eu" }).secretRef).toBe("shop_eu");
    expect(request()).not.toHaveProperty("secretRef");
    expect(posted({ secret_ref: "shop_${inputs.r}" }, { r: "eu" })).toMatchObject({ secret_ref: "shop_eu" });
    expect(posted()).not.toHaveProperty("secret_ref");
    expect(failureOf(finish([ask({ secret_ref: "${1}" })]))).toBe("expression_error: secret_ref must be a string");
  });

  attribute("webhook_emit.event_type", "is the message's type", () => {
    expect(posted({ event_type: "order.${inputs.what}" }, { what: "paid" })).toMatchObject({
      message: { type: "order.paid", timestamp: "2023-11-14T22:13:20.000Z", data: {} },
    });
    expect(problemsOf({ type: "webhook_emit", url: URL })).toEqual([".event_type: is required"]);
    expect(failureOf(finish([hook({ event_type: "${1}" })]))).toBe("expression_error: event_type must be a string");
  });

  attribute("webhook_emit.payload", "is the message's data, whatever it is, within the limit of an output", () => {
    expect(posted({ payload: { n: "${inputs.n}" } }, { n: 7 })).toMatchObject({ message: { data: { n: 7 } } });
    expect(posted({ payload: "${[1]}" })).toMatchObject({ message: { data: [1] } });
    const large = { limits: { output: 200 }, inputs: { x: "x".repeat(200) } };
    expect(failureOf(finish([hook({ payload: "${inputs.x}" })], large))).toBe(
      "limit_exceeded: the webhook is over 200 characters of JSON",
    );
  });

  it("the attributes may stand inside inputs", () => {
    expect(
      dispatched(start([{ type: "http_request", inputs: { url: URL, method: "PUT" } }])).call.request,
    ).toMatchObject({
      url: URL,
      method: "PUT",
    });
  });

  it("a request is a call of the service itself: its rows, its line, its key", () => {
    const run = start([ask({ url: "https://Shop.example:8443/a?b" })]);
    const { call, dispatchId } = dispatched(run);
    expect(call).toMatchObject({
      ...{ transport: "request", service: "http_request", action: "shop.example:8443", version: 0, inputs: {} },
      idempotencyKey: `${RUN_ID}:s:1`,
    });
    expect(metadataOf(run, "step.dispatched")).toEqual({
      action: "http_request",
      transport: "request",
      dispatch_id: dispatchId,
      deadline_at: "2023-11-14T22:13:50.000Z",
    });
    run.result({ status: 200, headers: {}, body: { ok: true } });
    expect(run.context.variables).toEqual({ s: { status: 200, headers: {}, body: { ok: true } } });
  });

  it("attempts share the key; the engine's policy unless the step has its own", () => {
    const seen: string[] = [];
    const run = finish([ask()], {
      worker: ({ call }) => {
        seen.push(call.idempotencyKey);
        return { kind: "failure", code: "http_503", retryable: true, outcomeUnknown: true };
      },
    });
    expect(seen).toEqual(Array(3).fill(`${RUN_ID}:s:1`));
    expect(failureOf(run)).toBe("http_503: http_503!");
  });

  it.each([
    ["is kept to", 5_000, 60_000, 5_000],
    ["does not shorten a backoff", 100, 60_000, 1_000],
    ["is kept to as far as the policy goes", 3_600_000, 4_000, 4_000],
  ])("what the server asks to wait %s", (_, retryAfterMs, max_backoff_ms, expected) => {
    const retry = { max_attempts: 2, initial_backoff_ms: 1_000, max_backoff_ms, jitter: false };
    const run = start([ask({ retry })]);
    run.failure("http_429", { retryAfterMs });
    expect(run.context.wait).toMatchObject({ kind: "backoff", dueAt: START + expected });
  });

  it("undo: only an attempt that may have happened; its undo gets method, URL and body, and no headers", () => {
    const compensation = { action: "shop.refund" };
    const step = ask({
      method: "POST",
      body: { n: 1 },
      headers: { authorization: "Basic eA==" },
      retry: ONCE,
      compensation,
    });
    const undone = (outcomeUnknown: boolean) => {
      const calls: Dispatch[] = [];
      const run = finish([step], {
        worker: (dispatch) => {
          calls.push(dispatch);
          return dispatch.call.request
            ? { kind: "failure", code: "http_500", retryable: false, outcomeUnknown }
            : { kind: "result", result: {} };
        },
      });
      expect(run.state).toBe("failed");
      return calls.filter(({ call }) => call.phase === "compensation").map(({ call }) => call);
    };
    expect(undone(false)).toEqual([]);
    expect(undone(true)).toMatchObject([
      {
        inputs: { inputs: { method: "POST", url: URL, body: { n: 1 } }, output: null },
        forwardIdempotencyKey: `${RUN_ID}:s:1`,
        idempotencyKey: `${RUN_ID}:s:1:undo`,
      },
    ]);
    expect(JSON.stringify(undone(true))).not.toContain("Basic");
  });

  it("without a compensation the rollback skips it with a warning, and without a review", () => {
    const run = finish([ask({ next: "s2" }), { type: "error" }]);
    expect(run.rows.flatMap(({ metadata }) => (metadata?.kind === "undo_passed" ? [metadata.steps] : []))).toEqual([
      ["s"],
    ]);
    expect(run.context.requiresManualReview).toBe(false);
  });

  it("a cancel aborts the request and waits for its outcome", () => {
    const run = start([ask({ compensation: { action: "shop.refund" } })]);
    const { dispatchId } = dispatched(run);
    run.cancel();
    expect([run.state, run.cancelled]).toEqual(["compensating", [dispatchId]]);
    run.failure("cancelled", { retryable: false, outcomeUnknown: true, dispatchId });
    run.drain();
    expect(run.state).toBe("cancelled");
    expect(run.undo.map(({ stepId, state }) => [stepId, state])).toEqual([["s", "done"]]);
  });

  it("a dry run sends nothing: skipped, recorded, with an empty output", () => {
    const run = finish([ask({ next: "s2" }), hook()], { identity: { dryRun: true } });
    expect([run.state, run.sent, run.posts]).toEqual(["succeeded", [], []]);
    expect(typesOf(run, "s")).toEqual(["step.started", "step.skipped"]);
    expect(metadataOf(run, "step.skipped", "s2")).toEqual({ reason: "dry_run" });
    expect(run.context.variables).toEqual({ s: {} });
  });

  it("a webhook does not hold the run, is another one in every entry, and the same one in every replay", () => {
    const steps: Draft[] = [
      hook({ next: "s2" }),
      { type: "set_var", name: "n", value: "${has(vars.n) ? vars.n + 1 : 1}", next: "s3" },
      { type: "switch", cases: [{ when: "vars.n < 2", next: "s" }], default: "s4" },
      { type: "noop" },
    ];
    const [run, again] = [finish(steps), finish(steps, { reload: true, budget: 1 })];
    expect(run.state).toBe("succeeded");
    const ids = run.posts.map(({ id }) => id);
    expect(new Set(ids).size).toBe(2);
    expect(again.posts).toEqual(run.posts);
    expect(rowsOf(run, "s").map(({ type }) => type)).toEqual(Array(2).fill(["step.started", "step.succeeded"]).flat());
    expect(run.context.variables).toEqual({ n: 2 });
  });

  it("the chart: a request and a webhook may be skipped in a dry run", () => {
    expect(chartOf([ask({ next: "s2" }), hook({ next: "s" })])).toEqual({
      s: ["next -> s2", "skip -> s2"],
      s2: ["next -> s", "skip -> s"],
    });
  });
});
