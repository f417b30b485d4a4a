// A worker without the SDK, small and right, that breaks the rule named in its environment (BROKEN), and no other. Its mistakes are those of a
// first try in another language.
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import {
  type CoordinatorMessage,
  type ExecuteStep,
  type Hello,
  PROTO_OPTIONS,
  type ProtoGrpcType,
  protoPath,
  type WorkerMessage,
} from "../../src/sdk/protocol/index.js";
import type { WorkerCall } from "../../src/sdk/worker/client.js";

const { SAGA_GRPC = "", SAGA_API = "", SAGA_TOKEN = "", BROKEN = "" } = process.env;
const breaks = (rule: string) => BROKEN === rule;
const ACTIONS = breaks("registration") ? ["echo", "fail", "slow"] : ["echo", "undo_echo", "fail", "slow"];
const RESEND_MS = 1_000;

const { saga } = loadPackageDefinition(loadSync(protoPath(), PROTO_OPTIONS)) as unknown as ProtoGrpcType;
const executing = new Map<string, AbortController>();
const unrecorded = new Map<string, Partial<WorkerMessage>>();
const recorded = new Map<string, Partial<WorkerMessage>>();
const begun = new Map<string, number>();
let last: Promise<unknown> = Promise.resolve();
let call: WorkerCall | undefined;
let stopping = false;

async function register(onlyMissing: boolean): Promise<void> {
  const headers = {
    "content-type": "application/json",
    ...(!breaks("credential") && { authorization: `Bearer ${SAGA_TOKEN}` }),
  };
  const actions = ACTIONS.map((action_name) => ({ action_name }));
  const body = JSON.stringify({ service: "conformance", actions, ...(onlyMissing && { only_missing: true }) });
  await fetch(`${SAGA_API}/api/v1/registry/register`, { method: "POST", headers, body });
}

const send = (message: Partial<WorkerMessage>) => call?.write(message as WorkerMessage);

function hello(): Partial<Hello> {
  const about = { worker_id: breaks("hello") ? "a worker" : `broken:${process.pid}`, service: "conformance" };
  const in_flight = breaks("reconnect-after-end") ? [] : [...executing.keys(), ...unrecorded.keys()];
  return { ...about, actions: [], max_in_flight: 4, token: SAGA_TOKEN, in_flight, credit: breaks("credit-change") };
}

function open(again: boolean): void {
  const client = new saga.worker.v1.WorkerService(SAGA_GRPC, credentials.createInsecure(), {
    "grpc.use_local_subchannel_pool": 1,
    ...(!breaks("reconnect-after-silence") && { "grpc.keepalive_time_ms": 5_000, "grpc.keepalive_timeout_ms": 2_000 }),
    "grpc.max_receive_message_length": 16 * 1_048_576,
  });
  const stream = client.ExecuteStep();
  call = stream as WorkerCall;
  const lost = () => {
    if (call !== stream) return;
    call = undefined;
    client.close();
    if (breaks("reconnect-after-cut")) process.exit(1);
    if (!stopping) setTimeout(() => open(true), 200);
  };
  stream.on("data", (message: CoordinatorMessage) => receive(message, again));
  stream.on("error", lost).on("end", lost);
  send({ hello: hello() as Hello });
}

function receive({ message, hello_ack, execute, cancel, recorded: settled }: CoordinatorMessage, again: boolean): void {
  if (hello_ack) onLive(again);
  else if (execute) onExecute(execute);
  else if (cancel && !breaks("cancel")) executing.get(cancel.dispatch_id)?.abort();
  else if (settled) {
    const answer = unrecorded.get(settled.dispatch_id);
    unrecorded.delete(settled.dispatch_id);
    if (answer) recorded.set(settled.dispatch_id, answer);
  } else if (message === undefined && breaks("newer-service")) throw new Error("unknown message");
}

function onLive(again: boolean): void {
  if (breaks("credit-change")) for (const max_in_flight of [2, 4]) send({ credit: { max_in_flight } });
  for (const answer of unrecorded.values()) send(answer);
  if (again && !breaks("registered-again")) void register(true);
}

function onExecute(step: ExecuteStep): void {
  const { dispatch_id: id } = step;
  const known = unrecorded.get(id) ?? recorded.get(id);
  if (known && !breaks("duplicates")) {
    unrecorded.set(id, known);
    send(known);
    return;
  }
  if (executing.has(id) && !breaks("duplicates")) return;
  const left =
    step.timeout_ms > 0 && step.timeout_ms < 2 ** 32 - 1 ? step.timeout_ms : Date.parse(step.deadline_at) - Date.now();
  if (left <= 0 && !breaks("late-step")) return;
  const run = () => execute(step, left);
  last = breaks("credit") ? last.then(run) : run();
}

async function execute(step: ExecuteStep, left: number): Promise<void> {
  const { dispatch_id, run_id, step_id, attempt, heartbeat_timeout_ms: timeout } = step;
  const abort = new AbortController();
  executing.set(dispatch_id, abort);
  const deadline = breaks("deadline") ? undefined : setTimeout(() => abort.abort(), Math.min(left, 2 ** 31 - 1));
  const every = breaks("heartbeats") ? 10_000 : timeout / 3;
  const beats = timeout > 0 ? setInterval(() => send({ heartbeat: { dispatch_id } }), every) : undefined;
  const about = { dispatch_id, run_id, step_id, attempt: breaks("result") ? 1 : attempt };
  let answer: Partial<WorkerMessage>;
  try {
    const output = Buffer.from(JSON.stringify(await act(step, abort.signal)));
    answer = { result: { ...about, result_json: output } };
  } catch (error) {
    const { code, message, retryable, outcome_unknown } = error as Record<string, never>;
    const whether = breaks("failure") ? {} : { retryable, outcome_unknown };
    answer = { failure: { ...about, code, message, ...whether } as never };
  }
  clearTimeout(deadline);
  clearInterval(beats);
  executing.delete(dispatch_id);
  unrecorded.set(dispatch_id, answer);
  send(answer);
  if (breaks("resend")) unrecorded.delete(dispatch_id);
}

async function act(step: ExecuteStep, signal: AbortSignal): Promise<object> {
  const text = Buffer.from(step.inputs_json).toString(breaks("inputs") ? "latin1" : "utf8");
  const inputs = JSON.parse(text);
  const { action, version, phase, idempotency_key: key } = step;
  if (action === "echo" && version === 1) return inputs;
  if (action === "undo_echo") return { phase, undone: breaks("undo") ? key : step.forward_idempotency_key };
  if (action === "fail") throw inputs;
  if (action !== "slow") {
    if (breaks("unknown-action")) process.exit(1);
    throw { code: "unknown_action", message: action, retryable: true, outcome_unknown: false };
  }
  const executions = (begun.get(key) ?? 0) + 1;
  begun.set(key, executions);
  await new Promise<void>((resolve, reject) => {
    setTimeout(resolve, inputs.ms);
    signal.addEventListener("abort", () => reject({ code: "stopped", message: "stopped", retryable: true }));
  });
  return { executions };
}

process.once("SIGTERM", () => {
  if (breaks("stop")) process.exit(143);
  stopping = true;
  send({ drain: {} });
  setInterval(() => {
    if (executing.size + unrecorded.size === 0) process.exit(0);
  }, 50);
});
await register(false);
open(false);
setInterval(() => {
  for (const answer of unrecorded.values()) send(answer);
}, RESEND_MS);
