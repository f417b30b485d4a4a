// The idempotency key of a request, from its header or from its body, and what follows from it: the id of a command to a run. The
// id is part of the commit of the command's outcome (law 6), so every node that gets a repeat finds the first answer.
import { isUtf8 } from "node:buffer";
import type { FastifyRequest } from "fastify";
import * as Type from "typebox";
import { isLongerThan, misfit } from "../../../machines/index.js";
import { type Principal, reachOf } from "../../access/index.js";
import { badRequest } from "../../errors.js";
import { derivedUuid, requestHash, shardOf } from "../../ids.js";
import type { CommandOptions } from "../../run/ports.js";

const MIN_LENGTH = 1;
const MAX_LENGTH = 255;

export const IdempotencyKey = Type.String({ minLength: MIN_LENGTH, maxLength: MAX_LENGTH });
/** The header as the OpenAPI document describes it. */
export const IdempotencyHeader = Type.Object({ "idempotency-key": Type.Optional(IdempotencyKey) });

/** Header and body may both have the key; then they must agree. */
export function idempotencyKey({ headers }: Pick<FastifyRequest, "headers">, member?: string): string | undefined {
  const header = headers["idempotency-key"];
  if (header === undefined) return member;
  const key = decoded(String(header));
  if (key.length < MIN_LENGTH) throw badRequest(`the header Idempotency-Key ${misfit.tooShort(MIN_LENGTH)}`);
  if (isLongerThan(key, MAX_LENGTH)) throw badRequest(`the header Idempotency-Key ${misfit.tooLong(MAX_LENGTH)}`);
  if (member === undefined || member === key) return key;
  throw badRequest("the header Idempotency-Key and the member $.idempotency_key differ", [
    { path: "$.idempotency_key", message: "differs from the header Idempotency-Key" },
  ]);
}

/** For an answer with a secret, which a recorded answer would keep. */
export function refuseKey({ headers }: Pick<FastifyRequest, "headers">): void {
  if (headers["idempotency-key"] !== undefined)
    throw badRequest("this route takes no header Idempotency-Key: its answers are not recorded");
}

/** A command to a run: who sends it, and what its idempotency key is about. */
export interface KeyedCommand {
  readonly principal: Principal;
  readonly runId: string;
  /** What it is and what it is sent to: the same key, sent elsewhere, is another command. */
  readonly target: readonly string[];
  /** What a repeat must have in common with the first, without defaults; another one is 409. Absent: the key alone decides. */
  readonly body?: unknown;
}

/**
 * With a key, the command's id follows from it, and its answer is kept as long as the run. A run is of one tenant, and so is the key: whether the sender
 * may reach the run is found out before its answers are looked at.
 */
export function commandOptions(
  key: string | undefined,
  { principal, runId, target, body }: KeyedCommand,
): CommandOptions {
  const reach = reachOf(principal);
  if (key === undefined) return { reach };
  const options = { reach, id: keyedId(key, runId, target), keep: true };
  return body === undefined ? options : { ...options, requestHash: requestHash(body) };
}

/** A repeat is the same command. A storage format: it must never change. */
function keyedId(key: string, runId: string, target: readonly string[]): string {
  return derivedUuid(JSON.stringify([...target, key]), shardOf(runId));
}

/** Node reads headers as Latin-1. The same key must be the same bytes in the header and in the body, which is UTF-8. */
function decoded(header: string): string {
  const bytes = Buffer.from(header, "latin1");
  if (!isUtf8(bytes)) throw badRequest("the header Idempotency-Key must be UTF-8");
  return bytes.toString();
}
