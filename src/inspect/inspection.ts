// One viewer's inspection of a run and its descendants: it reads their audit rows from the beginning, and sends what they show as frames.
// It is told how far each run has come, reads one batch at a time, and waits for its viewer. It holds no row and no frame back.
import type { RunId } from "../../machines/index.js";
import type { EventItem } from "../store/lists/history.js";
import type { InspectedRun } from "../store/lists/inspected-runs.js";
import type { InspectedChart } from "./charts.js";
import { type Frame, RunFrames, versionFrom } from "./frames.js";

/** Runs of one inspection. */
export const MAX_ACTORS = 100;

interface Head {
  readonly seq: number;
  readonly terminal: boolean;
  readonly gone?: true;
}

export interface InspectionPorts {
  /** How far the run has come, now and later. May throw: too many follow runs. */
  follow(runId: RunId, onHead: (head: Head) => void): { stop(): void };
  /** The next audit rows after `seq`; empty: there are none. */
  events(runId: RunId, seq: number): Promise<readonly EventItem[]>;
  children(parents: readonly RunId[], known: readonly RunId[], limit: number): Promise<readonly InspectedRun[]>;
  chart(definitionId: string): Promise<InspectedChart>;
  /** That of another version of a workflow. Undefined: there is none. */
  chartOf(workflowId: string, version: number): Promise<InspectedChart | undefined>;
  /** Computes in turns with everything else. */
  compute<T>(piece: () => T): Promise<T>;
}

export interface Viewer {
  readonly open: boolean;
  send(frame: Frame): void;
  /** Resolves when there is room for more. */
  drained(): Promise<void>;
  /** Everything was sent, and nothing more will happen. */
  ended(): void;
  /** There is no such run any more. */
  gone(): void;
  failed(error: unknown): void;
}

interface Watched {
  readonly run: InspectedRun;
  readonly frames: RunFrames;
  mayHaveChildren: boolean;
  following?: { stop(): void };
  /** Sent up to here. */
  seq: number;
  /** The run has rows up to here. */
  head: number;
  terminal: boolean;
}

export class Inspection {
  private readonly watched = new Map<RunId, Watched>();
  private working = false;
  private again = false;
  private stopped = false;
  private isFull = false;

  constructor(
    private readonly ports: InspectionPorts,
    private readonly viewer: Viewer,
    private readonly root: InspectedRun,
  ) {}

  /** Resolves when everything that is there now was sent. */
  async start(): Promise<void> {
    try {
      await this.add(this.root);
    } catch (error) {
      return this.fail(error);
    }
    await this.work();
  }

  stop(): void {
    this.stopped = true;
    for (const { following } of this.watched.values()) following?.stop();
  }

  private get isOver(): boolean {
    return this.stopped || !this.viewer.open;
  }

  private async add(run: InspectedRun): Promise<void> {
    const chart = await this.ports.chart(run.definitionId);
    if (this.isOver) return;
    const frames = new RunFrames(run, chart, this.root.id);
    const { lastSeq: head, terminal } = run;
    const watched: Watched = { run, frames, mayHaveChildren: chart.hasChildren, seq: 0, head, terminal };
    this.watched.set(run.id, watched);
    this.viewer.send(frames.actor());
    if (!terminal) watched.following = this.ports.follow(run.id, (reached) => this.reached(watched, reached));
  }

  /** Also called where nothing is new: a parent may have made another child without a row. */
  private reached(watched: Watched, { seq, terminal, gone }: Head): void {
    if (this.isOver) return;
    if (gone) return this.gone();
    const isNew = seq > watched.head || (terminal && !watched.terminal);
    watched.head = Math.max(watched.head, seq);
    watched.terminal ||= terminal;
    if (isNew || watched.mayHaveChildren) void this.work();
  }

  private async work(): Promise<void> {
    this.again = true;
    if (this.working) return;
    this.working = true;
    try {
      while (this.again && !this.isOver) await this.round();
      if (!this.isOver && this.isComplete()) this.end();
    } catch (error) {
      this.fail(error);
    } finally {
      this.working = false;
    }
  }

  private async round(): Promise<void> {
    this.again = false;
    const parents = [...this.watched.values()].filter(({ mayHaveChildren }) => mayHaveChildren);
    // A parent that had ended before its children are read has no more of them.
    const ended = parents.filter(({ terminal }) => terminal);
    for (const watched of [...this.watched.values()]) await this.catchUp(watched);
    const found = await this.findChildren(parents);
    if (!found) for (const parent of ended) parent.mayHaveChildren = false;
  }

  private async catchUp(watched: Watched): Promise<void> {
    while (watched.seq < watched.head && !this.isOver) {
      const rows = await this.ports.events(watched.run.id, watched.seq);
      // Retention has deleted them.
      if (rows.length === 0) watched.seq = watched.head;
      for (const row of rows) await this.show(watched, row);
    }
    if (!watched.terminal || this.isOver) return;
    watched.following?.stop();
    for (const frame of watched.frames.settle(watched.run.state)) this.viewer.send(frame);
  }

  private async show(watched: Watched, row: EventItem): Promise<void> {
    if (this.isOver) return;
    const next = await this.chartFrom(watched, row);
    if (next?.hasChildren) this.becomesParent(watched);
    const frames = await this.ports.compute(() => (next ? watched.frames.movedTo(next, row) : watched.frames.of(row)));
    for (const frame of frames) this.viewer.send(frame);
    watched.seq = row.seq;
    await this.viewer.drained();
  }

  private becomesParent(watched: Watched): void {
    watched.mayHaveChildren = true;
    this.again = true;
  }

  /** The chart by which the run goes on from the row. Undefined: the same as before. */
  private async chartFrom({ run }: Watched, row: EventItem): Promise<InspectedChart | undefined> {
    const version = versionFrom(row);
    return version === undefined ? undefined : this.ports.chartOf(run.workflowId, version);
  }

  /** Whether there were any. */
  private async findChildren(parents: readonly Watched[]): Promise<boolean> {
    if (parents.length === 0 || this.isFull || this.isOver) return false;
    const ids = parents.map(({ run }) => run.id);
    const room = MAX_ACTORS - this.watched.size;
    const found = await this.ports.children(ids, [...this.watched.keys()], room + 1);
    for (const child of found.slice(0, room)) {
      await this.add(child);
      await this.viewer.drained();
    }
    if (found.length > room) this.full();
    if (found.length > 0) this.again = true;
    return found.length > 0;
  }

  private full(): void {
    this.isFull = true;
    const root = this.watched.get(this.root.id);
    if (root) this.viewer.send(root.frames.note({ type: "more runs than are shown", shown: MAX_ACTORS }));
  }

  private isComplete(): boolean {
    return [...this.watched.values()].every(
      ({ terminal, seq, head, mayHaveChildren }) => terminal && seq >= head && (!mayHaveChildren || this.isFull),
    );
  }

  private end(): void {
    this.stop();
    this.viewer.ended();
  }

  private gone(): void {
    this.stop();
    this.viewer.gone();
  }

  private fail(error: unknown): void {
    if (this.isOver) return;
    this.stop();
    this.viewer.failed(error);
  }
}
