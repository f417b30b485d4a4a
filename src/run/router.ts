// The router: brings a command to the node that owns its run, and carries it out here if that node does not answer (law 6). It
// implements Runs for the layers above. Placement is for speed only: whichever node carries a command out, the compare-and-set
// and the command's id give it one outcome.
import type { Answer, AnswerTo, CommandType, RunCommand, RunId, Send } from "../../machines/index.js";
import type { Bus } from "../bus/bus.js";
import { SagaError } from "../errors.js";
import { type ShardId, shardOf } from "../ids.js";
import type { Admission } from "./admission.js";
import { commandId } from "./delivery.js";
import {
  type CommandAsk,
  type CommandReply,
  decodeReply,
  errorOf,
  type RunAsk,
  type RunTell,
  refusedCommand,
} from "./node-messages.js";
import type { CommandOptions, Runs, StartAnswer, StartRequest } from "./ports.js";
import type { Runtime } from "./runtime.js";
import { Unreadable } from "./unreadable.js";

/** How long the owner has to answer before the command is carried out here. */
const OWNER_ANSWER_MS = 300;
/** How long the other nodes have to read a new definition or registration; a slower one finds it at its next refresh. */
const PEER_REFRESH_MS = 300;

/** What clients and operators ask for. Other commands complete work that is in progress. */
const NEW_WORK: ReadonlySet<CommandType> = new Set([
  ...(["signal", "cancel", "release", "pause", "resume", "retry_step", "skip_step", "fail"] as const),
  ...(["retry_undo", "skip_undo", "terminate", "migrate"] as const),
]);

export interface RouterOptions {
  readonly nodeId: string;
  readonly runtime: Runtime;
  /** The owner of a shard, as this node sees it. */
  readonly placement: { owner(shard: ShardId): string; readonly others: readonly string[] };
  /** Reads which nodes are alive now; `placement` knows them then. */
  readonly refreshMembership: () => Promise<void>;
  readonly catalog: { refresh(): Promise<void> };
  readonly bus: Pick<Bus, "ask" | "tell" | "advance">;
  /** Whether this node accepts new work from other nodes. Its own clients are checked by the API. */
  readonly admission?: Pick<Admission, "shedding" | "refusal">;
}

export class Router implements Runs {
  constructor(private readonly options: RouterOptions) {}

  start(request: StartRequest): Promise<StartAnswer> {
    return this.options.runtime.start(request);
  }

  async command<C extends RunCommand>(runId: RunId, command: C, options: CommandOptions = {}): Promise<AnswerTo<C>> {
    const { id = commandId(command), keep = false, requestHash } = options;
    const delivered = { id, keep, requestHash };
    const { nodeId, runtime, placement, bus } = this.options;
    const owner = placement.owner(shardOf(runId));
    if (owner === nodeId) return runtime.command(runId, command, delivered);
    const identity = {
      ...(id !== undefined && { id }),
      ...(requestHash !== undefined && { request_hash: requestHash }),
    };
    const request: CommandAsk = { kind: "command", run_id: runId, keep, command, ...identity };
    const reply = decodeReply((await bus.ask(owner, request, OWNER_ANSWER_MS)) ?? {});
    if (reply) return outcomeOf(reply) as AnswerTo<C>;
    // The same id: if the owner has committed the command after all, this try loses and gets the recorded answer.
    const answer = await runtime.command(runId, command, delivered);
    bus.advance(runId);
    return answer;
  }

  /** A publish or a registration is answered when all nodes know it, because the next request may reach any of them. */
  async refreshCatalogs(): Promise<void> {
    const { catalog, placement, refreshMembership, bus } = this.options;
    // Includes a node that has just started and has read the catalog already. If the store is away, it refreshes by itself.
    await refreshMembership().catch(() => {});
    const request: RunAsk = { kind: "catalog" };
    const others = placement.others.map((nodeId) => bus.ask(nodeId, request, PEER_REFRESH_MS));
    await Promise.all([catalog.refresh(), ...others]);
  }

  /** Answers a request of another node. Undefined: it has to help itself. */
  async answer(request: RunAsk): Promise<object | undefined> {
    if (request.kind === "command") return this.carryOutFor(request);
    await this.options.catalog.refresh();
    return {};
  }

  /** Effects that another node committed for one of our runs. */
  receive({ run_id: runId, effects }: RunTell): void {
    this.options.runtime.carryOut(runId, effects);
  }

  /** Effects that were committed here for a run of another node. A hint: the outbox is the truth. */
  sendEffects(runId: RunId, effects: readonly Send[]): void {
    const { placement, bus } = this.options;
    const message: RunTell = { kind: "effects", run_id: runId, effects };
    bus.tell(placement.owner(shardOf(runId)), message);
  }

  private async carryOutFor({
    run_id: runId,
    command,
    id,
    keep,
    request_hash: requestHash,
  }: CommandAsk): Promise<CommandReply | undefined> {
    try {
      this.admit(command);
      return { answer: await this.options.runtime.command(runId, command, { id, keep, requestHash }) };
    } catch (error) {
      // A fault of this node is no answer, and the asking node may be able to read what this one cannot: it carries out the command itself.
      if (!(error instanceof SagaError)) throw error;
      if (error instanceof Unreadable) return undefined;
      return { error: refusedCommand(error) };
    }
  }

  /** The asking node had room, but this one sheds load: refused before the run is loaded, and not carried out there either. */
  private admit({ type }: RunCommand): void {
    const { admission } = this.options;
    if (!admission || !NEW_WORK.has(type)) return;
    const shortage = admission.shedding;
    if (shortage) throw admission.refusal(shortage);
  }
}

function outcomeOf(reply: CommandReply): Answer {
  if ("answer" in reply) return reply.answer;
  throw errorOf(reply.error);
}
