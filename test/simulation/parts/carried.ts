// Workflows whose steps go over every carrier that pushes, and back over every way that an answer has: HTTP workers, requests, RabbitMQ, and a stream beside
// them; with webhooks, and with events to and from RabbitMQ.
import type { Sql } from "postgres";
import { register } from "../../../src/store/lists/registry.js";
import type { Step } from "../../run/rig.js";
import { HOSTS, PUSHED } from "../workers/sites.js";

export const STEPS_QUEUE = "depot.steps";
/** Of events that others publish. */
export const OUTSIDE_TOPIC = "outside";
export const TOLD = "tell";
/** Steps that publish an event, in their order. */
export const EMITTED = ["first_event", "second_event"] as const;

const retry = { max_attempts: 3, initial_backoff_ms: 50, max_backoff_ms: 1_000 };
const undone = (by: string, id: string) => ({ compensation: { action: `${PUSHED}.${by}`, inputs: { of: id } } });

const call =
  (action: string, undo: string) =>
  (id: string, more: Record<string, unknown> = {}) => ({
    ...{ id, type: "action", action: `${PUSHED}.${action}`, inputs: { of: id }, retry, timeout_ms: 8_000 },
    ...{ ...undone(undo, id), ...more },
  });
/** Over HTTP, and over RabbitMQ. */
const bill = call("bill", "unbill");
const pack = call("pack", "unpack");

const request = (id: string, more: Record<string, unknown> = {}): Step => ({
  ...{ id, type: "http_request", url: `http://${HOSTS.server}/${id}`, method: "POST", body: { of: id } },
  ...{ retry, timeout_ms: 8_000, ...undone("unbill", id), ...more },
});

const emit = (id: string, next: string): Step => ({
  ...{ id, type: "emit_event", topic: "inside", payload: { run: "${run.id}", step: id }, next },
});

const tell = (next: string): Step => ({
  ...{ id: TOLD, type: "webhook_emit", url: `http://${HOSTS.receiver}/hook`, event_type: "told" },
  ...{ payload: { run: "${run.id}" }, next },
});

const end: readonly Step[] = [
  { id: "last", type: "switch", cases: [{ when: "inputs.fail", next: "no" }], default: "yes" },
  { id: "no", type: "error", code: "late" },
  { id: "yes", type: "noop" },
];

/** By the id of the workflow. */
export const CARRIED: Readonly<Record<string, readonly Step[]>> = {
  carried: [
    bill("first", { next: "then" }),
    pack("then", { next: "ask" }),
    request("ask", { next: "p" }),
    { id: "p", type: "parallel", branches: { a: { next: "a1" }, b: { next: "b1" }, c: { next: "c1" } }, next: "j" },
    bill("a1", { next: "a2" }),
    pack("a2"),
    pack("b1", { next: "b2" }),
    request("b2", { follow_redirects: true }),
    {
      ...{ id: "c1", type: "action", action: "shop.charge", inputs: { of: "c1" }, retry, timeout_ms: 8_000 },
      compensation: { action: "shop.refund", inputs: { of: "c1" } },
    },
    { id: "j", type: "join", next: TOLD },
    tell(EMITTED[0]),
    emit(EMITTED[0], EMITTED[1]),
    emit(EMITTED[1], "hear"),
    {
      ...{ id: "hear", type: "wait_for_event", topic: OUTSIDE_TOPIC, timeout_ms: 1_500, on_timeout: "continue" },
      next: "last",
    },
    ...end,
  ],
  posted: [
    pack("first", { next: TOLD }),
    tell("then"),
    bill("then", { next: EMITTED[0] }),
    emit(EMITTED[0], "ask"),
    request("ask", { follow_redirects: true, next: EMITTED[1] }),
    emit(EMITTED[1], "last"),
    ...end,
  ],
};

/** An undo is tried until it succeeds, so the law of undos holds for all of these runs. */
const UNDO = {
  default_retry: { max_attempts: -1, initial_backoff_ms: 100, max_backoff_ms: 2_000 },
  default_timeout_ms: 5_000,
};

export async function registerPushed(sql: Sql): Promise<void> {
  const common = {
    ...{ service: PUSHED, version: 1, compensable: false, deprecated: false, dry_run_supported: false },
    ...{ input_schema: {}, output_schema: {} },
  };
  const http = (action_name: string, more: object = {}) => {
    const address = `http://${HOSTS.worker}/${action_name}`;
    return { ...common, ...more, action_name, transport: "http" as const, address };
  };
  const rmq = (action_name: string, more: object = {}) => {
    return { ...common, ...more, action_name, transport: "rmq" as const, address: STEPS_QUEUE };
  };
  await register(sql, [http("bill"), http("unbill", UNDO), rmq("pack"), rmq("unpack", UNDO)]);
}
