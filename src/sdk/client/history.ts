// The events of a run by plain requests: wait for news, then read the rows behind the last one. It is the way without a WebSocket, and the way back
// after a lost one.
import type { SagaRunEvent } from "./generated/resources.js";
import type { Call } from "./operations.js";
import { afterRound, now } from "./pause.js";

/** How long the service is asked to wait for news. */
const ROUND_MS = 25_000;
/** As many rows as the service puts on a page. */
const PAGE = 500;

export class History {
  /** The run has ended, and all its events were given. */
  isOver = false;
  /** Where the walk through the list is. */
  private cursor: string | undefined;
  private walks = false;

  constructor(
    private readonly id: string,
    private readonly call: Call,
    /** The number of the last event that was given. */
    public seq: number,
    private readonly signal: AbortSignal | undefined,
  ) {}

  /** False for an event that was given before. */
  passes({ seq }: SagaRunEvent): boolean {
    if (seq <= this.seq) return false;
    this.seq = seq;
    return true;
  }

  /** What is new. `waits`: for as long as one request may. */
  async *read(waits: boolean): AsyncGenerator<SagaRunEvent, void, undefined> {
    const query = { wait_ms: waits ? ROUND_MS : 0, after_seq: this.seq };
    const [beganAt, before] = [now(), this.seq];
    const run = await this.call("getSaga", { path: { id: this.id }, query }, { signal: this.signal });
    for (let more = true; more; ) {
      const page = await this.page();
      for (const event of page.items) if (this.passes(event)) yield event;
      more = page.more;
    }
    // Read after the run had ended, so nothing follows.
    if (run.terminal_at !== undefined) this.isOver = true;
    else if (waits && this.seq === before) await afterRound(beganAt, ROUND_MS, this.signal);
  }

  /** Numbers begin at 1 and have no gaps, so a number is a place in the list, unless old rows were deleted: then the list is walked. */
  private async page(): Promise<{ readonly items: readonly SagaRunEvent[]; readonly more: boolean }> {
    if (!this.walks) {
      const { items, total, total_is_lower_bound, next_cursor } = await this.list({ offset: this.seq });
      const isThere = items[0] ? items[0].seq === this.seq + 1 : total >= this.seq || total_is_lower_bound === true;
      if (isThere) return { items, more: next_cursor !== undefined };
      this.walks = true;
    }
    const { items, next_cursor } = await this.list(this.cursor === undefined ? {} : { cursor: this.cursor });
    // The last page is read again when there is news: it has no cursor to what does not exist yet.
    this.cursor = next_cursor ?? this.cursor;
    return { items, more: next_cursor !== undefined };
  }

  private list(at: { readonly offset?: number; readonly cursor?: string }) {
    const query = { ...at, limit: PAGE };
    return this.call("listSagaEvents", { path: { id: this.id }, query }, { signal: this.signal });
  }
}
