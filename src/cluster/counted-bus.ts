// The bus of a node, with a count of what it carries to other nodes on behalf of runs: work of a node that does not own the run, or has no
// worker for it. It changes no message.
import type { JsonObject, RunId } from "../../machines/index.js";
import type { Bus } from "../bus/bus.js";
import type { Ask, DirectoryAsk, Tell } from "../dispatch/relay/messages.js";
import type { RunAsk, RunTell } from "../run/node-messages.js";

type NodeAsk = RunAsk | Ask | DirectoryAsk;
type NodeTell = { readonly kind: (RunTell | Tell)["kind"] };

/** What is carried. The names are labels of a metric: there are these and no others. */
export type Relayed = "answer" | "command" | "dispatch" | "effects" | "wake";

export class CountedBus implements Bus {
  constructor(
    private readonly bus: Bus,
    private readonly relayed: (what: Relayed) => void,
  ) {}

  advance(runId: RunId): void {
    this.relayed("wake");
    this.bus.advance(runId);
  }

  listen(...shards: Parameters<Bus["listen"]>): void {
    this.bus.listen(...shards);
  }

  ask(nodeId: string, request: NodeAsk, withinMs: number): Promise<JsonObject | undefined> {
    const what = askOf(request);
    if (what) this.relayed(what);
    return this.bus.ask(nodeId, request, withinMs);
  }

  tell(nodeId: string, message: NodeTell): void {
    if (message.kind === "effects") this.relayed("effects");
    this.bus.tell(nodeId, message);
  }

  stop(): Promise<void> {
    return this.bus.stop();
  }
}

function askOf(request: NodeAsk): Relayed | undefined {
  if (request.kind === "dispatch.hand") return "dispatch";
  if (request.kind !== "command") return undefined;
  const { type } = request.command;
  return type === "result" || type === "failure" ? "answer" : "command";
}
