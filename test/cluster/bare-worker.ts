// A worker without the SDK: one stream to one node, and the minimum of the protocol. It executes a dispatch once, keeps its answer
// until it is recorded, and names the dispatches that it holds after a reconnect.
import { RawWorker, type Wire } from "../dispatch/rig.js";
import { workerToken } from "../harness/access.js";

export class BareWorker {
  /** Dispatch ids in the order of their arrival; one that was sent twice is here twice. */
  readonly sent: string[] = [];
  /** Executed, to be answered later. */
  answering = true;
  private stream: RawWorker | undefined;
  private readonly held = new Map<string, Wire>();
  private readonly unrecorded = new Map<string, Wire>();

  constructor(
    readonly id: string,
    private readonly service: string,
    private readonly credit = 1_000,
  ) {}

  /** The node that has its stream. */
  async connect(target: string): Promise<string> {
    const stream = new RawWorker(target);
    this.stream = stream;
    stream.onExecute = (step) => this.execute(step);
    stream.onRecorded = ({ dispatch_id: id }) => this.unrecorded.delete(id);
    const inFlight = [...this.held.keys(), ...this.unrecorded.keys()];
    stream.send({
      hello: {
        ...workerToken(),
        worker_id: this.id,
        service: this.service,
        max_in_flight: this.credit,
        in_flight: inFlight,
      },
    });
    const { node_id: nodeId } = await stream.wait("hello_ack");
    for (const step of this.unrecorded.values()) this.answer(step);
    return nodeId;
  }

  get lost(): boolean {
    return this.stream?.ended ?? true;
  }

  get settled(): boolean {
    return this.held.size + this.unrecorded.size === 0;
  }

  letGo(): void {
    this.answering = true;
    for (const step of this.held.values()) this.answer(step);
    this.held.clear();
  }

  cut(): void {
    this.stream?.cut();
  }

  private execute(step: Wire): void {
    this.sent.push(step.dispatch_id);
    if (this.answering || this.unrecorded.has(step.dispatch_id)) this.answer(step);
    else this.held.set(step.dispatch_id, step);
  }

  private answer(step: Wire): void {
    const { dispatch_id, run_id, step_id, attempt } = step;
    this.unrecorded.set(dispatch_id, step);
    this.stream?.send({
      result: { dispatch_id, run_id, step_id, attempt, result_json: Buffer.from(JSON.stringify({ by: this.id })) },
    });
  }
}
