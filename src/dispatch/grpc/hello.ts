// Checks what a hello says. Whether the worker is then admitted, stream.ts decides.
import type { Hello } from "../../sdk/protocol/index.js";

const ID = /^[A-Za-z0-9_.:-]{1,128}$/;
const ACTION = /^[A-Za-z0-9_.:-]{1,128}(@[0-9]{1,10})?$/;

/** Actions, and dispatch ids in flight, that one hello may name. */
const HELLO_NAMES = 10_000;

/** A sentence for the worker. Undefined: the hello is as it must be. */
export function problemOf(hello: Hello, mostBytes: number): string | undefined {
  const { worker_id, service, actions, in_flight, token } = hello;
  let bytes = 0;
  for (const text of [worker_id, service, token, ...actions, ...in_flight]) bytes += Buffer.byteLength(text);
  if (bytes > mostBytes) return `the hello has ${bytes} bytes of text, more than ${mostBytes}`;
  if (!ID.test(worker_id) || !ID.test(service)) return "worker_id and service must match [A-Za-z0-9_.:-]{1,128}";
  const tooMany = actions.length > HELLO_NAMES || in_flight.length > HELLO_NAMES;
  if (tooMany) return `actions and in_flight must have at most ${HELLO_NAMES} items each`;
  const nth = actions.findIndex((name) => !ACTION.test(name));
  return nth < 0
    ? undefined
    : `actions[${nth}] is not the name of an action: name or name@version, up to 128 characters`;
}
