// The acts of an operator as commands to a run: what their names mean, and what their answers mean. Bodies are checked where they arrive, in
// api/; what an act does to a run is decided in machines/decide.
import type { Sql } from "postgres";
import {
  type Answer,
  isWithin,
  type Json,
  type JsonObject,
  type OperatorAct,
  type OperatorActName,
  type RunCommand,
  type RunId,
} from "../../machines/index.js";
import type { Reach } from "../access/index.js";
import { badRequest, notFound } from "../errors.js";
import { undoOrdinal } from "../store/lists/history.js";
import { runOwner } from "../store/lists/run-owner.js";

/** What the bodies of acts may have, once they are checked. */
export interface ActBody {
  readonly reason?: string;
  readonly variables?: JsonObject;
  readonly output?: Json;
  /** The number of an undo as clients count the undos of a run, from 1. */
  readonly ordinal?: number;
  readonly version?: number;
  readonly steps?: Readonly<Record<string, string>>;
}

export interface Acting {
  readonly runId: RunId;
  readonly body: ActBody;
  readonly sql: Sql;
  readonly actor: string;
  /** Whose runs the actor may command. */
  readonly reach: Reach;
}

type Builder = (acting: Acting) => OperatorAct | Promise<OperatorAct>;

const because = ({ body: { reason }, actor }: Acting) => ({ ...(reason && { reason }), actor });

const BUILDERS: Readonly<Record<OperatorActName, Builder>> = {
  pause: (acting) => ({ type: "pause", ...because(acting) }),
  resume: (acting) => ({ type: "resume", ...because(acting) }),
  retry_step: ({ body: { variables }, actor }) => ({ type: "retry_step", ...(variables && { variables }), actor }),
  skip_step: ({ body: { output }, actor }) => ({ type: "skip_step", ...(output !== undefined && { output }), actor }),
  fail: (acting) => ({ type: "fail", ...because(acting) }),
  "compensations/retry": async (acting) => ({ type: "retry_undo", ...(await ordinalOf(acting)), actor: acting.actor }),
  "compensations/skip": async (acting) => ({ type: "skip_undo", ...(await ordinalOf(acting)), actor: acting.actor }),
  terminate: ({ body: { reason = "" }, actor }) => ({ type: "terminate", reason, actor }),
  migrate: ({ body: { version = 0, steps }, actor }) => ({ type: "migrate", version, ...(steps && { steps }), actor }),
};

export const isOperatorAct = (name: string): name is OperatorActName => Object.hasOwn(BUILDERS, name);

/** Throws 400 if the body names an undo that the run does not have, and 404 if it names one and there is no such run. */
export async function commandOf(name: OperatorActName, acting: Acting): Promise<OperatorAct> {
  return BUILDERS[name](acting);
}

/** Clients count the undos of a run from 1; the run knows them by the ordinals of the store. */
async function ordinalOf({ sql, runId, reach, body: { ordinal: nth } }: Acting) {
  if (nth === undefined) return {};
  const owner = await runOwner(sql, runId);
  // As the command answers that names no undo. A run that is another's does not exist, either.
  if (!owner || !isWithin(reach, owner)) throw notFound(`there is no run ${runId}`);
  const ordinal = await undoOrdinal(sql, runId, nth);
  if (ordinal === undefined) throw badRequest(`the undo list of the run has no entry ${nth}`);
  return { ordinal };
}

/** Why the run has not done what it was asked for. Undefined: it has, or was as the act wants it. */
export function refusalIn(answer: Answer, command: RunCommand): string | undefined {
  if (answer.type === "refused") return answer.reasons?.map(({ message }) => message).join("; ") ?? answer.reason;
  if (answer.type === "acted") return answer.reason;
  if (answer.type === "signal" && command.type === "signal" && !answer.matched)
    return notAwaited(command.name, answer.ended);
  return undefined;
}

/** The run was as the act wants it. */
export function isUnchanged(answer: Answer): boolean {
  if (answer.type === "cancel") return answer.alreadyTerminal || answer.alreadyEnding === true;
  return answer.type === "acted" && !answer.changed;
}

/** Why a signal was not taken. */
export const notAwaited = (signal: string, ended = false) =>
  ended
    ? `the run has ended: the signal ${signal} is recorded, and nothing will take it`
    : `no run awaits the signal ${signal} now; it is recorded for a later wait`;
