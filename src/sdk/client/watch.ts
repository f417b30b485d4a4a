// The events of a run as they happen, each once and in order, over whatever connections that takes. A WebSocket carries them where there is one; else
// requests that wait do.
import type { SagaRunEvent } from "./generated/resources.js";
import { History } from "./history.js";
import type { Call } from "./operations.js";
import type { SocketClass } from "./options.js";
import { now, orAborted } from "./pause.js";
import { Stream } from "./stream.js";

export interface WatchOptions {
  /** Begins after the event of this number. Default 0: with the first event of the run. */
  readonly afterSeq?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Watched {
  readonly call: Call;
  readonly webSocket: SocketClass | undefined;
  /** Where the stream of a run is. */
  streamUrl(id: string, afterSeq: number): string;
  token(): string | undefined | Promise<string | undefined>;
}

/** After so many streams in a row that ended soon and brought nothing, something between does not carry them, or there are too many. */
const LAST_STREAM = 2;
const SOON_MS = 10_000;

/** Ends with the run. Throws the errors of requests, and the reason of the signal. */
export async function* watchRun(
  id: string,
  watched: Watched,
  { afterSeq = 0, signal }: WatchOptions = {},
): AsyncGenerator<SagaRunEvent, void, undefined> {
  if (!Number.isInteger(afterSeq) || afterSeq < 0) throw new TypeError("afterSeq must be a whole number of 0 or more");
  const history = new History(id, watched.call, afterSeq, signal);
  let barren = 0;
  for (;;) {
    signal?.throwIfAborted();
    if (watched.webSocket && barren < LAST_STREAM) {
      const [beganAt, before] = [now(), history.seq];
      const stream = new Stream(
        watched.webSocket,
        watched.streamUrl(id, history.seq),
        await orAborted(watched.token(), signal),
      );
      try {
        for await (const event of stream.events(signal)) if (history.passes(event)) yield event;
      } finally {
        stream.close();
      }
      if (stream.isOver) return;
      barren = history.seq === before && now() - beganAt < SOON_MS ? barren + 1 : 0;
    }
    // What a request says of a lost stream is clear: the run is gone, the credential has ended, the service cannot be reached.
    const waits = watched.webSocket === undefined || barren >= LAST_STREAM;
    yield* history.read(waits);
    if (history.isOver) return;
  }
}
