// Clients that watch runs live. Their nodes crash, freeze and are replaced; they hang up, read slowly, and go on at any node behind the last audit event
// that they have seen. So what each of them has seen must be the history of its run, from where it began: no event is missing, none comes twice.
import { EventEmitter } from "node:events";
import { isDeepStrictEqual } from "node:util";
import { isObject, isTerminal, type JsonObject, type RunId, type RunState } from "../../../machines/index.js";
import { EVERYTHING } from "../../../src/access/index.js";
import type { Core } from "../../../src/cluster/core.js";
import { type EventItem, eventsAfter } from "../../../src/store/lists/history.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";
import { Connection, Streams } from "./stream-client.js";

const WATCHERS = 3;
/** They watch runs that are as new as this. */
const NEWEST = 8;
/** A watch that nothing comes from for so long is begun again: its node may be frozen. */
const PATIENCE_MS = 12_000;
/** After the end of all runs, a watcher has all within this: polls of the feed, and the way to another node. */
const LAST_MS = 60_000;

interface Watch {
  readonly runId: RunId;
  /** The number of the audit event that it begins behind. Undefined: where its first snapshot stands. */
  from: number | undefined;
  readonly seen: EventItem[];
  /** The run as it ended. */
  end?: JsonObject;
}

type Frame =
  | { readonly type: "snapshot"; readonly run: JsonObject; readonly last_seq: number }
  | { readonly type: "event"; readonly event: EventItem }
  | { readonly type: "end"; readonly run: JsonObject };

/** Begins without a number, or with one that no run has reached: both mean from now on. */
const NOT_YET = 1_000_000;

export class Watchers implements Part {
  private readonly chance: Chance;
  private readonly streams = new Streams();
  private readonly watches: Watch[] = [];
  private readonly broken: string[] = [];
  private isCalm = false;
  private under = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("watchers");
  }

  async storm(end: number): Promise<void> {
    await Promise.all(Array.from({ length: WATCHERS }, () => this.watcher(end)));
  }

  calm(): void {
    this.isCalm = true;
  }

  async violations(): Promise<readonly string[]> {
    const { cluster, sql } = this.scene;
    const until = cluster.world.now + LAST_MS;
    while (this.under > 0 && cluster.world.now < until) await cluster.sleep(200);
    const found = [...this.broken];
    for (const watch of this.watches) {
      const { runId, from = 0, seen, end } = watch;
      const history: EventItem[] = [];
      for (let more = true; more; ) {
        const page = await eventsAfter(sql, EVERYTHING, runId, from + history.length);
        history.push(...page);
        more = page.length > 0;
      }
      if (!end)
        found.push(`a watcher of ${runId} has not seen its end, only ${seen.length} of ${history.length} events`);
      else if (!isTerminal(end.state as RunState)) found.push(`a watcher of ${runId} saw it end as ${end.state}`);
      const stored = JSON.parse(JSON.stringify(history)) as EventItem[];
      const differs = stored.findIndex((event, nth) => !isDeepStrictEqual(event, seen[nth]));
      if (end && (differs >= 0 || seen.length !== stored.length)) {
        const [was, is] = [seen[Math.max(differs, 0)], stored[Math.max(differs, 0)]].map((event) =>
          JSON.stringify(event),
        );
        found.push(`a watcher of ${runId} from ${from} saw ${seen.length} of ${stored.length} events: ${was} is ${is}`);
      }
    }
    return found;
  }

  private async watcher(end: number): Promise<void> {
    const { cluster } = this.scene;
    while (cluster.world.now < end) {
      await cluster.sleep(this.chance() * 1_000);
      const runId = await this.choose();
      if (runId === undefined || cluster.world.now >= end) continue;
      const watch: Watch = { runId, from: this.chance() < 0.7 ? 0 : undefined, seen: [] };
      this.watches.push(watch);
      this.scene.count("watched");
      this.under++;
      while (!watch.end) {
        await this.once(watch);
        await cluster.sleep(this.chance() * this.chance() * 3_000);
      }
      this.under--;
    }
  }

  /** One that a client was told of, or a child of it. */
  private async choose(): Promise<RunId | undefined> {
    const { acknowledged } = this.scene;
    const newest = [...acknowledged.runs].slice(-NEWEST) as RunId[];
    const root = newest[Math.floor(this.chance() * newest.length)];
    if (root === undefined || this.chance() < 0.6) return root;
    const children = await this.scene.read(
      (sql) => sql<{ id: RunId }[]>`select id from runs where root_run_id = ${root} order by id limit 20`,
    );
    return children[Math.floor(this.chance() * children.length)]?.id ?? root;
  }

  /** Watches at one node until the connection ends. */
  private async once(watch: Watch): Promise<void> {
    const { cluster } = this.scene;
    const socket = new EventEmitter();
    const connected: { at?: Connection; isGone: boolean } = { isGone: false };
    const ended = new Promise<void>((resolve) => {
      const client = new Watching(watch, this.broken, resolve);
      const paceMs = this.pace();
      const begin = async (core: Core) => {
        const life = cluster.reachable.find((node) => node.core === core)?.life;
        if (!life) return;
        const { world } = cluster;
        const afterSeq = watch.from === undefined ? this.fromNow() : watch.from + watch.seen.length;
        const request = { runId: watch.runId, socket, ...(afterSeq !== undefined && { afterSeq }) };
        const connect = () => {
          if (connected.isGone) return undefined;
          connected.at = new Connection({ world, node: life, chance: this.chance, client, paceMs });
          return connected.at;
        };
        await this.streams.open(core, request, connect);
      };
      cluster.ask(begin).then((answered) => {
        if (answered && "error" in answered) this.refused(watch, answered.error);
        if (!connected.at) resolve();
      });
    });
    const patience = this.loseInterest(watch, () => connected.at?.hangUp());
    await ended;
    connected.isGone = true;
    socket.emit("close");
    patience.stop();
  }

  private fromNow(): number | undefined {
    return this.chance() < 0.5 ? undefined : NOT_YET;
  }

  /** What the service answers before the upgrade. What a client was told of is there. */
  private refused({ runId }: Watch, error: unknown): void {
    const status = isObject(error) ? error.status : undefined;
    if (status === 404) this.broken.push(`${runId} was acknowledged, and a watcher was told that there is no such run`);
    this.scene.count("stream refused");
  }

  /** Some read slowly, as long as there is trouble. */
  private pace(): () => number {
    const most = this.chance() < 0.1 ? this.chance() * 150 : 0;
    return () => (this.isCalm ? 0 : most * this.chance());
  }

  /** Hangs up after a while, or where nothing comes. */
  private loseInterest(watch: Watch, hangUp: () => void): { stop(): void } {
    const { cluster } = this.scene;
    const leavesAfter = this.chance() < 0.3 && !this.isCalm ? this.chance() * 6_000 : Number.POSITIVE_INFINITY;
    const began = cluster.world.now;
    let last = { seen: -1, at: began };
    let isOver = false;
    const look = () => {
      if (isOver) return;
      const { now } = cluster.world;
      if (watch.seen.length !== last.seen) last = { seen: watch.seen.length, at: now };
      if (now - began > leavesAfter || now - last.at > PATIENCE_MS) {
        this.scene.count("hung up");
        hangUp();
      }
      cluster.world.later(500, look, null);
    };
    look();
    return {
      stop: () => {
        isOver = true;
      },
    };
  }
}

/** One connection of a watch: what may come when. */
class Watching {
  private snapshots = 0;
  private isOver = false;

  constructor(
    private readonly watch: Watch,
    private readonly broken: string[],
    private readonly over: () => void,
  ) {}

  frame(text: string): void {
    const frame = JSON.parse(text) as Frame;
    if (this.isOver) this.fault(`got a ${frame.type} after the close`);
    if (this.watch.end) this.fault(`got a ${frame.type} after the end`);
    if (frame.type === "snapshot") this.snapshot(frame.last_seq);
    else if (this.snapshots === 0) this.fault(`got a ${frame.type} before the snapshot`);
    if (frame.type === "event") this.event(frame.event);
    if (frame.type === "end") this.watch.end = frame.run;
  }

  closed(code: number | "broken"): void {
    this.isOver = true;
    const hasEnd = this.watch.end !== undefined;
    if (code === 1000 && !hasEnd) this.fault("was told that the run has ended, without its end");
    this.over();
  }

  private snapshot(lastSeq: number): void {
    const { watch } = this;
    if (this.snapshots++ > 0) this.fault("got two snapshots");
    watch.from ??= lastSeq;
    const seen = watch.from + watch.seen.length;
    if (lastSeq < seen) this.fault(`had seen event ${seen}, and the snapshot is of ${lastSeq}`);
  }

  private event(event: EventItem): void {
    const { from = 0, seen } = this.watch;
    const next = from + seen.length + 1;
    if (event.seq !== next) this.fault(`got event ${event.seq} where ${next} comes`);
    else seen.push(event);
  }

  private fault(what: string): void {
    this.broken.push(`a watcher of ${this.watch.runId} ${what}`);
  }
}
