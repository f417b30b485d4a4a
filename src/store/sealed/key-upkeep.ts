// What keeps the keys of a node up to date: it reads what other nodes have made, wraps keys anew after the master key was replaced, and says how many
// keys each master key still wraps. How keys are made and used is keyring.ts.
import type { Log } from "../../log.js";
import { WorkLoop } from "../../work/loop.js";
import type { Keyring } from "./keyring.js";

const PAUSE_MS = 1_000;

export interface KeyUpkeepOptions {
  readonly keyring: Keyring;
  readonly log: Log;
  /** Whether this node works for the whole cluster. */
  readonly isMine: () => boolean;
  /** Is told how many keys each master key wraps. */
  readonly gauge: (wrappedBy: ReadonlyMap<string, number>) => void;
}

export class KeyUpkeep {
  private readonly loop: WorkLoop;

  constructor(private readonly options: KeyUpkeepOptions) {
    const polls = { pauseMs: PAUSE_MS, round: () => this.round() };
    this.loop = new WorkLoop({ what: "encryption keys", log: options.log, polls });
  }

  start(): void {
    this.loop.start();
  }

  /** Complete on return, safe twice and before `start`. */
  async stop(): Promise<void> {
    await this.loop.stop();
  }

  /** True: there are more keys to wrap. */
  private async round(): Promise<boolean> {
    const { keyring, isMine, gauge } = this.options;
    await keyring.refresh();
    const more = isMine() && (await keyring.rewrap());
    gauge(keyring.wrappedBy);
    return more;
  }
}
