// The router: the port of commands. It brings a command to the node that owns its run, and has it carried out here if that node does not answer
// (law 6). Placement is for speed only: whichever node carries a command out, the compare-and-set
// and the command's id give it one outcome.
import { type Answer, type AnswerTo, COMMAND_KINDS, type RunCommand, type RunId } from "../../machines/index.js";
import { plainReach, reachOfPlain } from "../access/index.js";
import type { Bus } from "../bus/bus.js";
import { SagaError, Unreadable } from "../errors.js";
import { type ShardId, shardOf } from "../ids.js";
import type { LoadShedder } from "../work/load-shedder.js";
import {
  type CommandAsk,
  type CommandReply,
  decodeReply,
  errorOf,
  type RefreshAsk,
  type RunAsk,
  refusedCommand,
} from "./node-messages.js";
import type { CommandOptions, Runs } from "./ports.js";
import { commandId } from "./resident.js";
import type { Runtime } from "./runtime.js";

/** How long the owner has to answer before the command is carried out here. */
const OWNER_ANSWER_MS = 300;
/** How long the other nodes have to read a new definition or registration; a slower one finds it at its next refresh. */
const PEER_REFRESH_MS = 300;

export interface RouterOptions {
  readonly nodeId: string;
  readonly runtime: Pick<Runtime, "command">;
  /** The owner of a shard, as this node sees it. */
  readonly placement: { owner(shard: ShardId): string; readonly others: readonly string[] };
  /** Reads which nodes are alive now; `placement` knows them then. */
  readonly refreshMembership: () => Promise<void>;
  readonly catalog: { refresh(): Promise<void> };
  /** Of encryption at rest. Absent: it is off. */
  readonly keyring?: { refresh(): Promise<void> };
  readonly bus: Pick<Bus, "ask" | "advance">;
  /** Whether this node accepts new work from other nodes. Its own clients are checked by the API. */
  readonly shedder?: Pick<LoadShedder, "shedding" | "refusal">;
}

export class Router implements Runs {
  constructor(private readonly options: RouterOptions) {}

  async command<C extends RunCommand>(runId: RunId, command: C, options: CommandOptions): Promise<AnswerTo<C>> {
    const { reach, id = commandId(command), keep = false, requestHash } = options;
    const delivered = { reach, id, keep, requestHash };
    const { nodeId, runtime, placement, bus } = this.options;
    const owner = placement.owner(shardOf(runId));
    if (owner === nodeId) return runtime.command(runId, command, delivered);
    const identity = {
      ...(id !== undefined && { id }),
      ...(requestHash !== undefined && { request_hash: requestHash }),
    };
    const request: CommandAsk = {
      ...{ kind: "command", run_id: runId, keep, command },
      ...{ reach: plainReach(reach), ...identity },
    };
    const reply = decodeReply((await bus.ask(owner, request, OWNER_ANSWER_MS)) ?? {});
    if (reply) return outcomeOf(reply) as AnswerTo<C>;
    // The same id: if the owner has committed the command after all, this try loses and gets the recorded answer.
    const answer = await runtime.command(runId, command, delivered);
    bus.advance(runId);
    return answer;
  }

  /**
   * A publish, a registration or a destruction of keys is answered when all nodes know it, because the next request may reach any of them. A node that is
   * slower finds it by itself.
   */
  async refreshAll(kind: RefreshAsk["kind"]): Promise<void> {
    const { placement, refreshMembership, bus } = this.options;
    // Includes a node that has just started and has read everything already. If the store is away, it refreshes by itself.
    await refreshMembership().catch(() => {});
    const others = placement.others.map((nodeId) => bus.ask(nodeId, { kind }, PEER_REFRESH_MS));
    await Promise.all([this.refresh(kind), ...others]);
  }

  private async refresh(kind: RefreshAsk["kind"]): Promise<void> {
    const { catalog, keyring } = this.options;
    await (kind === "catalog" ? catalog : keyring)?.refresh();
  }

  /** Answers a request of another node. Undefined: it has to help itself. */
  async answer(request: RunAsk): Promise<object | undefined> {
    if (request.kind === "command") return this.carryOutFor(request);
    await this.refresh(request.kind);
    return {};
  }

  private async carryOutFor({
    run_id: runId,
    command,
    id,
    keep,
    request_hash: requestHash,
    reach: asked,
  }: CommandAsk): Promise<CommandReply | undefined> {
    try {
      this.refuseIfOverloaded(command);
      const reach = reachOfPlain(asked);
      return { answer: await this.options.runtime.command(runId, command, { reach, id, keep, requestHash }) };
    } catch (error) {
      // A fault of this node is no answer, and the asking node may be able to read what this one cannot: it carries out the command itself.
      if (!(error instanceof SagaError)) throw error;
      if (error instanceof Unreadable) return undefined;
      return { error: refusedCommand(error) };
    }
  }

  /** The asking node had room, but this one sheds load: refused before the run is loaded, and not carried out there either. */
  private refuseIfOverloaded({ type }: RunCommand): void {
    const { shedder } = this.options;
    if (!shedder || !COMMAND_KINDS[type].isNewWork) return;
    const shortage = shedder.shedding;
    if (shortage) throw shedder.refusal(shortage);
  }
}

function outcomeOf(reply: CommandReply): Answer {
  if ("answer" in reply) return reply.answer;
  throw errorOf(reply.error);
}
