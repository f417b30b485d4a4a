// Watchers: WebSockets that follow runs live, ten of them each run. The runs are signalled, and the latency is that from the signal's
// request to the frame with the run's end, for each watcher.
import { once } from "node:events";
import { WebSocket } from "ws";
import type { Stage } from "../stage.js";
import { SIGNALLED } from "../workloads.js";
import type { Scenario } from "./scenario.js";

const WATCHERS_EACH = 10;

interface Watcher {
  readonly socket: WebSocket;
  /** The moment at which it hears of the end. */
  readonly ended: Promise<number>;
}

/** Resolves when it has the run as it is. */
async function watch(base: string, runId: string): Promise<Watcher> {
  const socket = new WebSocket(`${base.replace(/^http/, "ws")}/api/v1/sagas/${runId}/stream`);
  const ended = new Promise<number>((resolve, reject) => {
    socket.on("message", (frame) => {
      if (frame.toString().startsWith('{"type":"end"')) resolve(performance.now());
    });
    socket.on("close", (code) => reject(new Error(`a stream was closed with ${code} before the end of its run`)));
  });
  ended.catch(() => {});
  await once(socket, "message");
  return { socket, ended };
}

interface Watched {
  readonly runId: string;
  readonly watchers: readonly Watcher[];
}

const watchers: Scenario = {
  ...{ name: "watchers", title: "Watchers of runs, over WebSockets", unit: "watchers", count: 1_000 },
  ...{ concurrency: 16, kind: "work" },
  async play(stage) {
    await stage.api.publish(SIGNALLED);
    const runs = Math.max(1, Math.round(stage.size.count / WATCHERS_EACH));
    const watched: Watched[] = [];
    try {
      await stage.prepare(runs, async () => void watched.push(await watchedRun(stage)));
      await stage.measured(async () => {
        await stage.prepare(runs, (nth) => signalled(stage, watched[nth]));
        return { count: runs * WATCHERS_EACH };
      });
    } finally {
      for (const { socket } of watched.flatMap((each) => each.watchers)) socket.terminate();
    }
  },
};

export const WATCHERS = [watchers];

async function watchedRun({ api }: Stage): Promise<Watched> {
  const runId = await api.start(SIGNALLED);
  await api.paused(runId);
  const all = Array.from({ length: WATCHERS_EACH }, () => watch(api.base, runId));
  return { runId, watchers: await Promise.all(all) };
}

/** Records when each of its watchers heard of the end. */
async function signalled(stage: Stage, watched: Watched | undefined): Promise<void> {
  if (!watched) return;
  const since = performance.now();
  await stage.api.signal(watched.runId);
  const ends = await Promise.all(watched.watchers.map(({ ended }) => ended));
  for (const at of ends) stage.record("signal to watcher", at - since);
}
