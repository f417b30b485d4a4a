// The router: brings a command to the node that owns its run, and carries it out here when that node does not answer (law 6). It
// implements Runs for the rooms above; with one node it is a door to the runtime. Placement is for speed: whoever carries a
// command out, the compare-and-set and the command's id give it one outcome.
import type { Answer, Effect, JsonObject, RunCommand } from "../../machines/index.js";
import type { Bus } from "../bus/bus.js";
import { type ErrorCode, SagaError } from "../errors.js";
import { shardOf } from "../ids.js";
import type { Admission } from "./admission.js";
import type { CommandOptions, Runs, StartAnswer, StartRequest } from "./ports.js";
import { commandId, type Runtime } from "./runtime.js";

/** How long the owner has to answer before the command is carried out here. */
const OWNER_ANSWERS_MS = 300;
/** How long other nodes have to learn what was published or registered here; who takes longer learns it by looking. */
const OTHERS_LEARN_MS = 300;

export interface RouterOptions {
  readonly nodeId: string;
  readonly runtime: Runtime;
  /** The node that a shard is placed on, as this node sees it. */
  readonly placement: { owner(shard: number): string; readonly others: readonly string[] };
  /** Looks who is there now; `placement` knows it then. */
  readonly meet: () => Promise<void>;
  /** What this node knows of definitions and registrations. */
  readonly catalog: { refresh(): Promise<void> };
  readonly bus: Pick<Bus, "ask" | "tell" | "advance">;
  /** Whether this node takes on more from others; absent: it always does. Its own callers ask at their door. */
  readonly admission?: Pick<Admission, "shedding" | "refusal">;
}

/** A wire format between nodes of neighbouring releases: members may be added, never changed. */
type Request = JsonObject & { readonly kind: "command"; readonly run_id: string; readonly id?: string };

export class Router implements Runs {
  constructor(private readonly options: RouterOptions) {}

  start(request: StartRequest): Promise<StartAnswer> {
    return this.options.runtime.start(request);
  }

  async command(runId: string, command: RunCommand, options: CommandOptions = {}): Promise<Answer> {
    const { id = commandId(command), keep = false } = options;
    const { nodeId, runtime, placement, bus } = this.options;
    const owner = placement.owner(shardOf(runId));
    if (owner === nodeId) return runtime.command(runId, command, { id, keep });
    const named: JsonObject = id === undefined ? {} : { id };
    const request = { kind: "command", run_id: runId, keep, command: command as unknown as JsonObject, ...named };
    const reply = await bus.ask(owner, request, OWNER_ANSWERS_MS);
    if (reply) return answerOf(reply);
    // The same id: should the owner have done it after all, this one loses and gets the recorded answer.
    const answer = await runtime.command(runId, command, { id, keep });
    bus.advance(runId);
    return answer;
  }

  /** Publishing and registering are answered when all nodes know: the next request may come to any of them. */
  async refreshCatalogs(): Promise<void> {
    const { catalog, placement, meet, bus } = this.options;
    // One that has just come would serve what it read at its start. Who cannot be met learns it by looking.
    await meet().catch(() => {});
    const others = placement.others.map((nodeId) => bus.ask(nodeId, { kind: "catalog" }, OTHERS_LEARN_MS));
    await Promise.all([catalog.refresh(), ...others]);
  }

  /** Another node asks for a run of ours. Undefined: it was no question that this release knows. */
  async asked(request: JsonObject): Promise<JsonObject | undefined> {
    if (request.kind === "catalog") {
      await this.options.catalog.refresh();
      return {};
    }
    if (!isRequest(request)) return undefined;
    const { run_id: runId, id, keep, command } = request;
    try {
      this.admit(command as unknown as RunCommand);
      const answer = await this.options.runtime.command(runId, command as unknown as RunCommand, {
        id,
        keep: keep === true,
      });
      return { answer: answer as unknown as JsonObject };
    } catch (error) {
      // A fault of ours is no answer: the asker goes on by itself, and logs what it then meets.
      if (!(error instanceof SagaError)) throw error;
      return { error: errorOf(error) };
    }
  }

  /** The asker had room, and this node has none: refused here, before the run is loaded, and not carried out there. */
  private admit({ type }: RunCommand): void {
    const { admission } = this.options;
    if (!admission || (type !== "signal" && type !== "cancel" && type !== "release")) return;
    const shortage = admission.shedding;
    if (shortage) throw admission.refusal(shortage);
  }

  /** What was committed here for a run of another node is its owner's to carry out. A hint; the outbox is the truth. */
  tell(runId: string, effects: readonly Effect[]): void {
    const { placement, bus } = this.options;
    bus.tell(placement.owner(shardOf(runId)), {
      kind: "effects",
      run_id: runId,
      effects: effects as unknown as JsonObject[],
    });
  }

  /** A node that carried out a command for one of our runs tells what it owes. */
  told(message: JsonObject): void {
    const { kind, run_id: runId, effects } = message;
    if (kind !== "effects" || typeof runId !== "string" || !Array.isArray(effects)) return;
    this.options.runtime.carryOut(runId, effects as unknown as readonly Effect[]);
  }
}

function isRequest(request: JsonObject): request is Request {
  const { kind, run_id: runId, id, command } = request;
  return (
    kind === "command" &&
    typeof runId === "string" &&
    (id === undefined || typeof id === "string") &&
    typeof command === "object"
  );
}

function errorOf({ status, code, message, extra = {} }: SagaError): JsonObject {
  return { status, code, message, extra: extra as JsonObject };
}

function answerOf(reply: JsonObject): Answer {
  if (!reply.error) return reply.answer as unknown as Answer;
  const { status, code, message, extra } = reply.error as {
    status: number;
    code: ErrorCode;
    message: string;
    extra?: JsonObject;
  };
  throw new SagaError(status, code, message, undefined, extra);
}
