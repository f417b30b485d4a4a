// What keeps the keys of a node up to date: it reads what other nodes have made and destroyed, and says how many keys each master key still wraps. One
// node wraps keys anew after the master key was replaced, and ends what is left of destroyed ones. How keys are made and used is keyring.ts.
import type { Sql } from "postgres";
import type { RunId } from "../../../machines/index.js";
import type { Log } from "../../log.js";
import { WorkLoop } from "../../work/loop.js";
import { dropUnreadable, openRunsUnder, settle } from "./destroyed-keys.js";
import type { DestroyedKey, Keyring } from "./keyring.js";

const PAUSE_MS = 1_000;

export interface KeyUpkeepOptions {
  readonly keyring: Keyring;
  readonly sql: Sql;
  readonly log: Log;
  /** Whether this node works for the whole cluster. */
  readonly isMine: () => boolean;
  /** Has the owner of the run look at it: a run whose values cannot be read ends. Rejects if that was not to be done now. */
  readonly look: (runId: RunId) => Promise<unknown>;
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
    const { unsettled } = keyring;
    if (unsettled.length > 0 && isMine()) await this.endRuns(unsettled);
    return more;
  }

  /** What has not ended in this round is found again in the next one: children end first, or an owner does not know of the destruction yet. */
  private async endRuns(keys: readonly DestroyedKey[]): Promise<void> {
    const { keyring, sql, log, look } = this.options;
    const { webhooks, events, fires, jobs } = await dropUnreadable(sql, keys);
    if (webhooks + events + fires + jobs > 0)
      log.warn(
        { webhooks, events, fires, jobs },
        "what was owed is dropped, because the key of its values was destroyed",
      );
    const runs = await openRunsUnder(sql, keys);
    const looks = await Promise.allSettled(runs.map((runId) => look(runId)));
    const refused = looks.filter(({ status }) => status === "rejected").length;
    if (runs.length > 0)
      return log.info({ runs: runs.length, refused }, "runs end, because the key of their values was destroyed");
    if (!(await settle(sql, keys))) return;
    await keyring.refresh();
    log.info({ keys: keys.length }, "no unfinished run has values under the destroyed keys");
  }
}
