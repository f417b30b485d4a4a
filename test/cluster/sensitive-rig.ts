// A run that uses everything, with a canary of every kind in each place that a schema marks as secret: what its workers and servers got, and all
// that can be read about it afterwards.
import { randomUUID } from "node:crypto";
import WebSocket from "ws";
import { ActionError, createWorker, type Worker } from "../../src/sdk/worker/index.js";
import { Site } from "../dispatch/requests-rig.js";
import { handleAll } from "../harness/actions.js";
import type { ServiceProcess } from "../harness/service.js";
import { until } from "../harness/until.js";
import { silentWorker } from "./canary-rig.js";

/** Each kind of value, and each way in, has its own. */
const TEXT = "canary7d3f";
export const canary = (place: string) => `${TEXT}-${place}`;
/** Numbers that occur nowhere else. */
export const AMOUNT = 730_519_284_617;
export const LIMIT = 915_264_870_133;

const SECRETS = [TEXT, String(AMOUNT), String(LIMIT), String(AMOUNT + 1)];

/** Where a canary is in these texts, by their names. */
export const leaks = (texts: Iterable<readonly [string, string]>) =>
  [...texts].flatMap(([name, text]) =>
    SECRETS.filter((one) => text.includes(one)).map((one) => `${name}: ${around(text, one)}`),
  );

function around(text: string, one: string): string {
  const at = text.indexOf(one);
  return text.slice(Math.max(0, at - 200), at + 60);
}

export const SECRET_INPUTS = {
  pin: canary("pin"),
  amount: AMOUNT,
  vip: true,
  card: { number: canary("card"), limit: LIMIT, deep: [{ of: canary("deep") }] },
  tokens: [canary("token-1"), canary("token-2")],
  map: { one: canary("map") },
  path: canary("path"),
};

const X = { "x-secret": true };
const INPUTS = {
  type: "object",
  properties: {
    ...{ customer: { type: "string" }, pin: { type: "string", ...X }, amount: { type: "number", ...X } },
    ...{ vip: { type: "boolean", ...X }, card: { type: "object", ...X }, tokens: { items: { type: "string", ...X } } },
    ...{ map: { type: "object", additionalProperties: X }, path: { type: "string", ...X } },
  },
};

const NO_RETRY = { max_attempts: 1, initial_backoff_ms: 0 };

function steps(site: string): readonly object[] {
  const each = [
    {
      id: "copy",
      type: "set_var",
      variables: { all: "${inputs}", text: "pin ${inputs.pin}", sum: "${inputs.amount + 1}" },
    },
    {
      ...{
        id: "keep",
        type: "action",
        action: "safe.keep",
        inputs: { pin: "${vars.text}", card: "${inputs.card}", vip: "${inputs.vip}" },
      },
      compensation: { action: "safe.drop", inputs: { pin: "${inputs.pin}", receipt: "${output.receipt}" } },
    },
    {
      ...{ id: "call", type: "http_request", method: "POST", url: `${site}/call/\${inputs.path}` },
      ...{ query: { pin: "${inputs.pin}" }, headers: { "x-pin": "${inputs.pin}" }, body: { card: "${inputs.card}" } },
      output_schema: { properties: { body: X } },
      retry: NO_RETRY,
    },
    {
      ...{ id: "hook", type: "webhook_emit", url: `${site}/hook/\${inputs.path}`, event_type: "told" },
      ...{ payload: { pin: "${inputs.pin}" }, headers: { "x-pin": "${inputs.pin}" } },
    },
    { id: "each", type: "foreach", items: "inputs.tokens", body: "eachKeep", max_concurrency: 2, next: "fork" },
    { id: "eachKeep", type: "action", action: "safe.keep", inputs: { pin: "${item}" }, next: "each" },
    { id: "fork", type: "parallel", branches: { a: { next: "left" }, b: { next: "right" } }, next: "join" },
    { id: "left", type: "transform", template: { pin: "${inputs.pin}" }, next: "join" },
    { id: "right", type: "transform", expression: "inputs.card", next: "join" },
    { id: "join", type: "join", next: "child" },
    { id: "child", type: "sub_saga", workflow_id: "child", inputs: { given: "${inputs.pin}" } },
    { id: "spawn", type: "spawn_saga", workflow_id: "child", inputs: { given: "${inputs.card.number}" } },
    { id: "tell", type: "emit_event", topic: "told", payload: { pin: "${inputs.pin}", of: "${run.id}" } },
    {
      id: "hear",
      type: "wait_for_event",
      topic: "told",
      match: "event.payload.of == run.id && event.payload.pin == inputs.pin",
    },
    {
      ...{ id: "outside", type: "wait_for_event", topic: "outside.${run.id}" },
      payload_schema: { properties: { code: X } },
    },
    { id: "signal", type: "wait_for_signal", signal_name: "go", payload_schema: { properties: { code: X } } },
    {
      ...{ id: "ask", type: "collect_input", assignee: "ann", title: "for ${inputs.pin}" },
      form_schema: { type: "object", properties: { answer: { type: "string", ...X } } },
    },
    { id: "say", type: "log", message: "pin ${inputs.pin}", fields: { pin: "${inputs.pin}", plain: "seen" } },
    {
      ...{
        id: "break",
        type: "action",
        action: "safe.break",
        inputs: { pin: "${inputs.pin}", amount: "${inputs.amount}" },
      },
      ...{ retry: NO_RETRY, on_error: "continue" },
    },
    { id: "copies", type: "set_var", variables: { heard: "${vars}" } },
    { id: "way", type: "switch", cases: [{ when: "inputs.customer == 'fails'", next: "fails" }], next: "done" },
    { id: "fails", type: "error", code: "given_up", message: "pin ${inputs.pin}", details: { pin: "${inputs.pin}" } },
    { id: "done", type: "end", output: { pin: "${inputs.pin}", all: "${vars.heard}", customer: "${inputs.customer}" } },
  ];
  const flat = each as readonly { id: string; next?: string; type: string }[];
  return flat.map((step, nth) =>
    step.next !== undefined || ["end", "error"].includes(step.type) ? step : { ...step, next: flat[nth + 1]?.id },
  );
}

export class Sensitive {
  /** What the workers got, as JSON. */
  readonly worked: string[] = [];
  readonly frames: string[] = [];

  private constructor(
    readonly service: ServiceProcess,
    readonly site: Site,
    private readonly worker: Worker,
    private readonly key: string | undefined,
  ) {}

  static async open(
    service: ServiceProcess,
    keys: { readonly key?: string; readonly worker?: string } = {},
  ): Promise<Sensitive> {
    const site = await Site.open((asked, response) =>
      response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify({ echo: asked.body, code: canary("answer") })),
    );
    const worker = createWorker({
      ...{ service: "safe", grpc: service.grpcAddress, api: service.url, log: silentWorker },
      ...(keys.worker !== undefined && { token: keys.worker }),
    });
    const opened = new Sensitive(service, site, worker, keys.key);
    const got = (name: string, input: object) => void opened.worked.push(`${name} ${JSON.stringify(input)}`);
    const secretOutput = { type: "object", properties: { receipt: X } } as object;
    handleAll(worker, "safe", [
      {
        ...{ name: "keep", compensable: true, output: secretOutput as never },
        execute(input) {
          got("keep", input);
          return { receipt: canary("receipt"), marked: { $secret: canary("marked") } };
        },
      },
      {
        name: "drop",
        execute(input) {
          got("drop", input);
          return {};
        },
      },
      {
        name: "break",
        execute(input) {
          got("break", input);
          const { pin, amount } = input as { pin: string; amount: number };
          throw new ActionError(`no-${pin}`, `refused ${pin} and ${amount}`, { retryable: false });
        },
      },
    ]);
    await worker.start();
    return opened;
  }

  async close(): Promise<void> {
    await this.worker.stop();
    await this.site.close();
  }

  async ask(
    path: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly text: string; readonly json: never }> {
    return until(async () => {
      const answer = await fetch(`${this.service.url}${path}`, {
        headers: {
          ...(this.key !== undefined && { authorization: `Bearer ${this.key}` }),
          ...(body && { "content-type": "application/json" }),
        },
        ...(body && { method: "POST", body: JSON.stringify(body) }),
      });
      const text = await answer.text();
      return (
        answer.status !== 503 && {
          status: answer.status,
          text,
          json: (/^[{[]/.test(text) ? JSON.parse(text) : undefined) as never,
        }
      );
    });
  }

  async publish(): Promise<void> {
    const all = steps(this.site.url) as readonly { id: string }[];
    for (const document of [
      {
        id: "child",
        name: "child",
        start: "end",
        steps: [{ id: "end", type: "end", output: "${inputs.given}" }],
        published: true,
      },
      { id: "whole", name: "whole", start: "copy", steps: all, input_schema: INPUTS, published: true },
    ]) {
      const { status, text } = await this.ask("/api/v1/workflows", document);
      if (status !== 201) throw new Error(text);
    }
  }

  /** A run to its end. */
  async live(customer: string): Promise<string> {
    const runId = randomUUID();
    const started = await this.ask("/api/v1/sagas/start", {
      run_id: runId,
      workflow_id: "whole",
      inputs: { customer, ...SECRET_INPUTS },
    });
    if (started.status !== 202) throw new Error(started.text);
    this.watch(runId);
    await this.reaches(runId, ({ awaited_event_topic: topic }) => topic === `outside.${runId}`);
    await this.ask("/api/v1/events", { topic: `outside.${runId}`, payload: { code: canary("event"), plain: "heard" } });
    await this.reaches(runId, ({ awaited_signal: name }) => name === "go");
    await this.ask(`/api/v1/sagas/${runId}/signal/later`, { payload: { $secret: { code: canary("kept-signal") } } });
    await this.ask(`/api/v1/sagas/${runId}/signal/go`, { payload: { code: canary("signal"), plain: "signalled" } });
    const task = await until(async () => {
      const { json } = await this.ask(`/api/v1/sagas/${runId}/user_tasks`);
      return (json as { items: { id: string }[] }).items[0]?.id;
    });
    await this.ask(`/api/v1/sagas/${runId}/user_task/${task}/submit`, { result: { answer: canary("answered") } });
    await this.reaches(runId, ({ terminal_at: at }) => at !== undefined && at !== null);
    return runId;
  }

  reaches(runId: string, is: (run: Record<string, unknown>) => boolean): Promise<true> {
    return until(async () => {
      const { json, text } = await this.ask(`/api/v1/sagas/${runId}`);
      if (json && is(json as Record<string, unknown>)) return true;
      throw new Error(text);
    });
  }

  private watch(runId: string): void {
    for (const path of [`/api/v1/sagas/${runId}/stream?after_seq=0`, `/api/v1/sagas/${runId}/inspect`]) {
      const headers = this.key === undefined ? {} : { authorization: `Bearer ${this.key}` };
      const socket = new WebSocket(`${this.service.url.replace("http", "ws")}${path}`, { headers });
      socket.on("message", (data) => void this.frames.push(String(data)));
      socket.on("error", (error) => void this.frames.push(String(error)));
    }
  }

  /** The answer of every route that is read with GET, for this run and what belongs to it, by its path. */
  async readAll(runId: string): Promise<ReadonlyMap<string, string>> {
    const { paths } = (await this.ask("/openapi.json")).json as { paths: Record<string, Record<string, unknown>> };
    const children = (await this.ask(`/api/v1/sagas/${runId}/children`)).json as { items: { id: string }[] };
    const spawned = (await this.ask("/api/v1/sagas?workflow_id=child&limit=100")).json as { items: { id: string }[] };
    const answers = new Map<string, string>();
    for (const path of Object.keys(paths).filter((one) => paths[one]?.get)) {
      const ids = path.startsWith("/api/v1/sagas/")
        ? [runId, ...[...children.items, ...spawned.items].map(({ id }) => id)]
        : [runId];
      for (const id of ids) {
        const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => this.valueOf(name, path, id));
        for (const query of ["", ...(filled.endsWith(id) ? ["?wait_ms=1"] : [])]) {
          const { status, text } = await this.ask(filled + query);
          answers.set(filled + query, `${status} ${text}`);
        }
      }
    }
    return answers;
  }

  private valueOf(name: string, path: string, runId: string): string {
    if (/workflows/.test(path)) return "whole";
    return name === "version" ? "1" : runId;
  }
}
