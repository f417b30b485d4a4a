// Checks what a hello says. Whether the worker is then admitted, stream.ts decides.
import { misfit } from "../../../machines/index.js";
import type { Hello } from "../../sdk/protocol/index.js";

const ID = new RegExp(misfit.ID_PATTERN);
const ACTION = /^[A-Za-z0-9_.:-]{1,128}(@[0-9]{1,10})?$/;

/** Actions, and dispatch ids in flight, that one hello may name. */
const HELLO_NAMES = 10_000;

/** A sentence for the worker. Undefined: the hello is as it must be. */
export function problemOf(hello: Hello, mostBytes: number): string | undefined {
  const { worker_id, service, actions, in_flight, token } = hello;
  let bytes = 0;
  for (const text of [worker_id, service, token, ...actions, ...in_flight]) bytes += Buffer.byteLength(text);
  if (bytes > mostBytes) return `the hello has ${bytes} bytes of text, more than ${mostBytes}`;
  for (const [name, id] of Object.entries({ worker_id, service }))
    if (!ID.test(id)) return `${name} ${misfit.unlike(misfit.ID_PATTERN)}`;
  for (const [name, { length }] of Object.entries({ actions, in_flight }))
    if (length > HELLO_NAMES) return `${name} ${misfit.tooManyItems(HELLO_NAMES)}`;
  const nth = actions.findIndex((name) => !ACTION.test(name));
  return nth < 0
    ? undefined
    : `actions[${nth}] ${misfit.unlike(misfit.ID_PATTERN)}, or such a name with @ and a version`;
}
