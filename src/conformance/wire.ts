// The worker protocol as the conformance sends it: like the service, and with members that no worker can know yet. It decides nothing.
import type { ServiceDefinition } from "@grpc/grpc-js";
import { loadSync, type MethodDefinition } from "@grpc/proto-loader";
import { type CoordinatorMessage, PROTO_OPTIONS, protoPath, WORKER_SERVICE } from "../sdk/protocol/index.js";

/** Loaded with `oneofs`, so the member `message` names the one that is set; the encoder goes by the members themselves. */
export type Outbound = Partial<Omit<CoordinatorMessage, "message">> & {
  /** Members of a newer protocol are put beside and into the known ones. */
  readonly fromTheFuture?: true;
};

/** The number of a member that no release has: as a text, `(4095 << 3) | 2`. */
const UNKNOWN_FIELD = 4_095;
const LENGTH_DELIMITED = 2;

/** The service's definition, whose messages may have members of a newer protocol. */
export function workerService(): ServiceDefinition {
  const definition = loadSync(protoPath(), PROTO_OPTIONS)[WORKER_SERVICE] as ServiceDefinition;
  const method = definition.ExecuteStep as unknown as MethodDefinition<object, object>;
  const serialize = method.responseSerialize;
  const responseSerialize = ({ fromTheFuture, ...message }: Outbound) => {
    const bytes = serialize(message);
    return fromTheFuture ? withUnknown(bytes) : bytes;
  };
  return { ExecuteStep: { ...method, responseSerialize } } as unknown as ServiceDefinition;
}

/** `bytes`: one member with a message in it, or nothing. The unknown member is put into that message, and beside it. */
function withUnknown(bytes: Buffer): Buffer {
  const unknown = field(UNKNOWN_FIELD, Buffer.from("a newer protocol has this"));
  if (bytes.length === 0) return unknown;
  const { value: tag, next } = readVarint(bytes, 0);
  const { next: start } = readVarint(bytes, next);
  return Buffer.concat([field(tag >>> 3, Buffer.concat([bytes.subarray(start), unknown])), unknown]);
}

function field(number: number, content: Buffer): Buffer {
  return Buffer.concat([varint(number * 8 + LENGTH_DELIMITED), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

function readVarint(bytes: Buffer, at: number): { value: number; next: number } {
  let value = 0;
  let next = at;
  for (let factor = 1; ; factor *= 128) {
    const byte = bytes[next++] ?? 0;
    value += (byte % 128) * factor;
    if (byte < 128) return { value, next };
  }
}
