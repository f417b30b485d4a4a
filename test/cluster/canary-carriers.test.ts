// The ways out and in of a service of two nodes, with a canary in everything that goes over them: HTTP workers and their reports, RabbitMQ workers,
// webhooks, requests with a secret, events over RabbitMQ, triggers. Each also fails and refuses.
// @module-tag long
import type { ConsumeMessage } from "amqplib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Answering, type Asked, Site } from "../dispatch/requests-rig.js";
import { Exchange } from "../events/rig.js";
import { describeWithRabbitMq, describeWithRedis } from "../harness/services.js";
import { until } from "../harness/until.js";
import { TENANT } from "./access-rig.js";
import { at, CanaryService } from "./canary-rig.js";

interface Call {
  readonly callback_url: string;
  readonly callback_token: string;
  readonly attempt: number;
}

const NO_RETRY = { retry: { max_attempts: 1, initial_backoff_ms: 0 } };
const JSON_TYPE = { "content-type": "application/json" };
const jsonOf = ({ body }: Pick<Asked, "body">) => JSON.parse(body) as Call;

/** What a worker over HTTP answers at each path. The service must tell nobody. */
const ANSWERS: Readonly<Record<string, Answering>> = {
  "/inline": (_, response) =>
    response
      .writeHead(200, { ...JSON_TYPE, "x-own": at("answer-header") })
      .end(body({ result: { kept: at("inline") } })),
  "/fails": (_, response) =>
    response
      .writeHead(200, JSON_TYPE)
      .end(body({ error: { code: at("http-code"), message: at("http-error"), retryable: false } })),
  "/refuses": (_, response) => response.writeHead(422, JSON_TYPE).end(body({ message: at("http-refusal") })),
  "/breaks": (_, response) => response.writeHead(500).end(at("http-500")),
  "/garbage": (_, response) => response.writeHead(200, JSON_TYPE).end(`{"result": ${at("http-garbage")}`),
  "/hangs-up": (_, response) => response.destroy(),
  "/later": (_, response) => response.writeHead(202).end(at("http-202")),
};

function body(of: object): string {
  return JSON.stringify(of);
}

describeWithRedis("what goes over the carriers of a service of two nodes", (redisUrl) => {
  describeWithRabbitMq("and over RabbitMQ", (amqpUrl) => {
    let canary: CanaryService;
    let exchange: Exchange;
    let workers: Site;
    let hooks: Site;
    const calls: Call[] = [];
    let queue: string;

    beforeAll(async () => {
      exchange = await Exchange.open(amqpUrl);
      queue = await exchange.work("queued", (message) => void calls.push(jsonOf({ body: message.content.toString() })));
      workers = await Site.open((asked, response, request) => ANSWERS[pathOf(asked)]?.(asked, response, request));
      hooks = await Site.open(({ path, headers }, response) => {
        const status = Number(/\d{3}/.exec(path)?.[0] ?? 200);
        // What a receiver says may repeat what it was sent.
        response.writeHead(status, { "x-back": String(headers["x-api-key"] ?? "") }).end(at("hook-answer"));
      });
      canary = await CanaryService.open(redisUrl, exchange.env);
    });
    afterAll(async () => {
      await canary?.close();
      await exchange?.close();
      await workers?.close();
      await hooks?.close();
    });

    const pathOf = ({ path }: Asked) => path.split("?")[0] ?? "";

    const register = async (service: string, actions: readonly object[]) => {
      const { status, text } = await canary.ask("/api/v1/registry/register", {
        body: { service, actions },
      });
      expect(status, text).toBe(200);
    };

    /** A run of one step. */
    async function runOf(id: string, step: object, ends: string, inputs?: object): Promise<string> {
      await canary.publish(id, [{ id: "step", ...step }]);
      const run = await canary.start(id, inputs);
      if (ends !== "") await canary.reaches(run, ends);
      return run;
    }

    /** The reports of a worker, those that are wrong first. */
    async function report(run: string, { callback_url, callback_token }: Call): Promise<void> {
      canary.more.add(callback_token);
      const path = callback_url.slice(canary.url.length);
      const reports = (token: string, sent: object | string) => ({
        key: "none",
        headers: { authorization: "", "saga-callback-token": token },
        body: sent,
      });
      const right = (sent: object | string) => reports(callback_token, sent);
      await canary.refuses(401, path, reports(at("callback-token"), { result: { kept: at("report") } }));
      await canary.refuses(401, path, reports(`${callback_token}${at("x")}`, { result: { kept: at("report") } }));
      await canary.refuses(401, `${path}&access_token=${callback_token}`, reports("", { result: {} }));
      await canary.refuses(400, path, right({ result: { kept: at("report") }, step_id: at("step") }));
      await canary.refuses(400, path, right(`{"result": ${at("report")}`));
      await canary.refuses(400, path, right({ error: { code: at("code"), message: at("message") }, result: {} }));
      await canary.refuses(400, path, right({ error: { code: [at("code")], message: at("message") } }));
      await canary.refuses(400, path, right({ result: at("report") }));
      expect((await canary.ask(path.replace("/result", "/heartbeat"), right({}))).status).toBe(202);
      const answer = await canary.ask(path, right({ result: { kept: at("report") } }));
      expect(answer.json).toEqual({ accepted: true, stale: false });
      await canary.reaches(run, "succeeded");
    }

    it("is nowhere else, of HTTP workers", async () => {
      const names = Object.keys(ANSWERS).map((path) => path.slice(1));
      await register(
        "web",
        names.map((action_name) => ({
          ...{ action_name, transport: "http", address: `${workers.url}/${action_name}?key=${at("address")}` },
        })),
      );
      const step = (name: string) => ({
        ...{ type: "action", action: `web.${name}`, inputs: { note: "${inputs.note}" }, ...NO_RETRY },
      });
      await runOf("web-inline", step("inline"), "succeeded");
      // A body that is no answer is a hand-over.
      await runOf("web-garbage", step("garbage"), "running");
      for (const name of ["fails", "refuses", "breaks", "hangs-up"]) await runOf(`web-${name}`, step(name), "failed");
      const later = await runOf("web-later", { ...step("later"), heartbeat_timeout_ms: 60_000 }, "");
      const call = await until(() => workers.asked.find((asked) => pathOf(asked) === "/later"));
      await report(later, jsonOf(call));
      await until(() => canary.collector.spans.length > 0, { what: "a span" });
      await canary.expectNoLeak();
    });

    it("is nowhere else, of RabbitMQ workers", async () => {
      await register("queued", [{ action_name: "keep", transport: "rmq", address: queue }]);
      const before = calls.length;
      const run = await runOf("queued-keep", { type: "action", action: "queued.keep", inputs: "${inputs}" }, "");
      await report(run, await until(() => calls[before]));
      const failing = await runOf("queued-fails", { type: "action", action: "queued.keep", ...NO_RETRY }, "");
      const call = await until(() => calls[before + 1]);
      canary.more.add(call.callback_token);
      const answer = await canary.ask(call.callback_url.slice(canary.url.length), {
        headers: { authorization: "", "saga-callback-token": call.callback_token },
        body: { error: { code: at("queued-code"), message: at("queued-error"), retryable: false } },
      });
      expect(answer.json).toEqual({ accepted: true, stale: false });
      await canary.reaches(failing, "failed");
      await canary.expectNoLeak();
    });

    it("is nowhere else, of webhooks that are taken, fail and are given up", async () => {
      const emit = (status: number, more: object = {}) => ({
        ...{ type: "webhook_emit", url: `${hooks.url}/${status}/${at("hook-path")}?key=\${inputs.note}` },
        ...{
          event_type: "made",
          payload: { note: "${inputs.note}" },
          headers: { "x-own": at("hook-header") },
          ...more,
        },
      });
      await runOf("hook-taken", emit(200, { secret_ref: "hook" }), "succeeded");
      await runOf("hook-fails", emit(500), "succeeded");
      await runOf("hook-given-up", emit(410), "succeeded");
      const outside = `http://10.0.0.1/${at("hook-outside")}`;
      await runOf("hook-refused", { ...emit(200), url: outside }, "succeeded");
      await runOf("hook-nowhere", emit(200, { url: "http://${inputs.note}.invalid/" }), "succeeded");
      await runOf(
        "hook-no-secret",
        emit(200, { secret_ref: "hook", url: "http://${inputs.note}.invalid/" }),
        "succeeded",
      );
      for (const status of [200, 500, 410])
        await until(() => hooks.asked.some(({ path }) => path.startsWith(`/${status}/`)));
      await until(() => canary.service.log.some((line) => line.includes("webhook given up")));
      // Those that wait are given up, too: they are as old as that.
      await canary.database.sql`
        update outbox set due_at = now(), payload = jsonb_set(payload::jsonb, '{message,timestamp}', '"2026-01-01T00:00:00.000Z"')::json`;
      await until(async () => (await canary.database.sql`select from outbox`).length === 0);
      await canary.expectNoLeak();
    });

    it("is nowhere else, of requests with a secret, and the secret not even in what is the tenant's", async () => {
      const request = (status: number, more: object = {}) => ({
        ...{ type: "http_request", url: `${hooks.url}/${status}/${at("request-path")}?key=\${inputs.note}` },
        ...{ method: "POST", secret_ref: "vault", body: { note: "${inputs.note}" }, ...NO_RETRY, ...more },
      });
      const runs = [
        await runOf("request-taken", request(200), "succeeded"),
        await runOf("request-refused", request(403), "failed"),
        await runOf("request-fails", request(503), "failed"),
        await runOf("request-outside", request(200, { url: `http://10.0.0.1/${at("outside")}` }), "failed"),
        await runOf("request-malformed", request(200, { url: "http://${inputs.note + ' '}/" }), "failed"),
      ];
      expect(hooks.asked.filter(({ headers }) => headers["x-api-key"] === at("secret")).length).toBeGreaterThan(2);
      for (const run of runs)
        for (const page of ["", "/events", "/undo", "/explain"])
          expect((await canary.ask(`/api/v1/sagas/${run}${page}`)).text).not.toContain(at("secret"));
      await canary.expectNoLeak();
    });

    it("is nowhere else, of events over RabbitMQ, those that cannot be taken among them", async () => {
      const own = { "saga-tenant": TENANT, own: at("amqp-header") };
      const tell = { type: "emit_event", topic: "told", payload: "${vars.hear.payload}" };
      await canary.publish("hears", [
        { id: "hear", type: "wait_for_event", topic: "canaries", next: "tell" },
        { id: "tell", ...tell, headers: { own: at("emitted-header") } },
      ]);
      const run = await canary.start("hears");
      await canary.reaches(run, "paused");
      const payload = { note: at("amqp-payload") };
      await exchange.send("canaries", payload, { headers: own, messageId: at("message-id") });
      await canary.reaches(run, "succeeded");
      await until(() => exchange.heard.some(({ fields }: ConsumeMessage) => fields.routingKey === "told"));
      const wrong = [
        [Buffer.from(`{"note": ${at("amqp-malformed")}`), { headers: own, messageId: at("malformed-id") }],
        [payload, { headers: { own: at("no-tenant") }, messageId: at("no-tenant-id") }],
        [payload, { headers: { ...own, "saga-tenant": at("wrong-tenant") }, messageId: at("wrong-tenant-id") }],
        // Another event under an id that is known.
        [{ note: at("amqp-other") }, { headers: own, messageId: at("message-id") }],
      ] as const;
      for (const [content, options] of wrong) await exchange.send("canaries", content, options);
      const buried: unknown[] = [];
      await until(async () => {
        const message = await exchange.buried();
        if (message) buried.push(message.properties.messageId);
        return buried.length === wrong.length;
      });
      // With too many headers, some are left out.
      const many = Object.fromEntries(Array.from({ length: 40 }, (_, nth) => [`h${nth}`, at(`many-${nth}`)]));
      await exchange.send("canaries", payload, { headers: { ...many, ...own }, messageId: at("many-headers") });
      await until(() => canary.service.log.some((line) => line.includes("leftOut")));
      await canary.expectNoLeak();
    });

    it("is nowhere else, of triggers that start a run, and of those that cannot", async () => {
      const noop = [{ id: "step", type: "noop" }];
      await canary.publish("triggered", noop);
      await canary.publish("strict", noop, {
        input_schema: { type: "object", properties: { note: { type: "string", maxLength: 3 } }, required: ["note"] },
      });
      const trigger = (more: object) => canary.ask("/api/v1/triggers", { body: more });
      const record = (workflow_id: string, input_mapping: object) => ({
        ...{ trigger_type: "record_transition", workflow_id },
        config: { record_type: "order", from_state: "new", to_state: "paid", input_mapping },
      });
      const mapped = { note: "${record.note}", fixed: at("mapping") };
      for (const document of [
        record("triggered", mapped),
        record("strict", mapped),
        record("strict", { note: "${record.note * 2}" }),
      ])
        expect((await trigger(document)).status).toBe(201);
      const nightly = { schedule: "0 3 * * *", inputs: { note: at("cron-input") } };
      const cron = await trigger({ trigger_type: "cron", workflow_id: "triggered", config: nightly });
      expect(cron.status, cron.text).toBe(201);
      const strict = await trigger({ trigger_type: "cron", workflow_id: "strict", config: nightly });
      for (const { json } of [cron, strict])
        await canary.ask(`/api/v1/triggers/${json.id}/fire`, {
          body: {},
          headers: { "idempotency-key": at("fire-key") },
        });
      await canary.refuses(400, "/api/v1/triggers", {
        body: {
          trigger_type: "cron",
          workflow_id: "triggered",
          config: { schedule: at("schedule"), inputs: [at("x")] },
        },
      });
      const transition = { record_type: "order", record_id: "r-1", from_state: "new", to_state: "paid" };
      const payload = { ...transition, record: { note: at("record") } };
      const sent = {
        topic: "record.transition",
        payload,
        idempotency_key: at("record-key"),
        headers: { own: at("record-header") },
      };
      expect((await canary.ask("/api/v1/events", { body: sent })).status).toBe(202);
      await exchange.send("record.transition", payload, {
        headers: { "saga-tenant": TENANT },
        messageId: at("record-id"),
      });
      await until(async () => {
        const fires = await canary.database
          .sql`select from trigger_fires where resulting_run_id is null and error is not null`;
        return fires.length >= 4;
      });
      await until(
        async () => (await canary.ask("/api/v1/sagas?workflow_id=triggered&state=succeeded")).json?.total === 3,
      );
      await canary.expectNoLeak();
    });
  });
});
