// Messages between nodes about runs: their types, and the decoding of received bodies. A wire format between nodes of neighbouring
// releases: members may be added, never changed.
import {
  type Answer,
  isObject,
  type Json,
  type JsonObject,
  parseRunId,
  type RunCommand,
  type RunId,
  type Send,
} from "../../machines/index.js";
import { type PlainReach, readPlainReach } from "../access/index.js";
import type { Protocol } from "../bus/protocol.js";
import { type ErrorCode, SagaError } from "../errors.js";

/** Asks the owner of a run to carry out a command. */
export interface CommandAsk {
  readonly kind: "command";
  readonly run_id: RunId;
  readonly id?: string;
  readonly keep?: boolean;
  readonly request_hash?: string;
  readonly command: RunCommand;
  /** Whose runs the sender of the command may command. An ask without it is not understood, and the asking node carries the command out. */
  readonly reach: PlainReach;
}

/** Asks a node to read its catalog again, after a publish or a registration. */
export interface CatalogAsk {
  readonly kind: "catalog";
}

/** Asks a node to read its data keys again, after some were destroyed. */
export interface KeysAsk {
  readonly kind: "keys";
}

export type RefreshAsk = CatalogAsk | KeysAsk;

/** Tells the owner of a run to carry out effects that the sender has committed for it. */
export interface EffectsTell {
  readonly kind: "effects";
  readonly run_id: RunId;
  readonly effects: readonly Send[];
}

export type RunAsk = CommandAsk | RefreshAsk;
export type RunTell = EffectsTell;

/** The answer to a `CommandAsk`: the run's answer, or the error of the owner. */
export type CommandReply = { readonly answer: Answer } | { readonly error: RefusedCommand };

export interface RefusedCommand {
  readonly status: number;
  readonly code: ErrorCode;
  readonly message: string;
  readonly extra?: JsonObject;
}

export const runProtocol: Protocol<RunAsk, RunTell> = { ask: decodeAsk, tell: decodeTell };

function decodeAsk({ kind, run_id, id, keep, request_hash, command, reach: asked }: JsonObject): RunAsk | undefined {
  if (kind === "catalog" || kind === "keys") return { kind };
  const runId = parseRunId(run_id);
  const reach = readPlainReach(asked);
  if (kind !== "command" || runId === undefined || !isCommand(command) || !reach) return undefined;
  if (id !== undefined && typeof id !== "string") return undefined;
  const identity = {
    ...(id !== undefined && { id }),
    ...(typeof request_hash === "string" && { request_hash }),
  };
  return { kind, run_id: runId, keep: keep === true, command, reach, ...identity };
}

function decodeTell({ kind, run_id, effects }: JsonObject): RunTell | undefined {
  const runId = parseRunId(run_id);
  if (kind !== "effects" || runId === undefined || !areEffects(effects)) return undefined;
  return { kind, run_id: runId, effects };
}

export function decodeReply({ answer, error }: JsonObject): CommandReply | undefined {
  if (isRefusal(error)) return { error };
  return isAnswer(answer) ? { answer } : undefined;
}

export function refusedCommand({ status, code, message, extra = {} }: SagaError): RefusedCommand {
  return { status, code, message, extra: extra as JsonObject };
}

export function errorOf({ status, code, message, extra }: RefusedCommand): SagaError {
  return new SagaError(status, code, message, undefined, extra);
}

// A node of the next release may know more members than this one. So only the tags of unions are checked here; the machine refuses
// commands that it does not know.
type Untyped = Json | undefined;

const isCommand = (value: Untyped): value is Untyped & RunCommand => isObject(value) && typeof value.type === "string";

const isAnswer = (value: Untyped): value is Untyped & Answer => isObject(value) && typeof value.type === "string";

const areEffects = (value: Untyped): value is Untyped & readonly Send[] =>
  Array.isArray(value) && value.every((effect) => isObject(effect) && typeof effect.kind === "string");

const isRefusal = (value: Untyped): value is Untyped & RefusedCommand =>
  isObject(value) &&
  typeof value.status === "number" &&
  typeof value.code === "string" &&
  typeof value.message === "string";
