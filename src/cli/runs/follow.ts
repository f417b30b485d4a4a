// Follows a run and its children over the API: what has happened so far, and what happens next. How it is shown is decided in watch.ts.
import type { Service } from "../frame/service.js";
import { hasEnded, pathOf, type Run, type RunEvent } from "./run.js";
import type { Watched } from "./tree.js";

/** Children that are followed one by one, over the whole tree: each costs requests. */
const MOST_CHILDREN = 60;
/** A child moves without waking the request for its root. */
const CHILD_PAUSE_MS = 1_000;
const LONGEST_WAIT_MS = 50_000;
/** Of one run, in memory: more than a person reads. */
const MOST_EVENTS = 10_000;

interface Followed {
  run: Run;
  readonly events: RunEvent[];
  readonly children: Followed[];
  unlisted: Record<string, number>;
  /** It has ended, and everything of it has been read. */
  isComplete: boolean;
}

export interface Happened {
  readonly event: RunEvent;
  /** Of the run within the tree: "" is the root, "left/2" an item of a branch. */
  readonly path: string;
}

export class Follower {
  private readonly root: Followed;
  private followed = 0;

  private constructor(
    private readonly service: Service,
    run: Run,
  ) {
    this.root = followed(run);
  }

  static async of(service: Service, id: string): Promise<Follower> {
    return new Follower(service, await service.get<Run>(pathOf(id)));
  }

  get watched(): Watched {
    return this.root;
  }

  get run(): Run {
    return this.root.run;
  }

  /** Reads what is new, by time. The events of one run keep their order. */
  async read(): Promise<Happened[]> {
    const news: Happened[] = [];
    await this.readRun(this.root, "", news);
    return news.sort((left, right) => Date.parse(left.event.recorded_at) - Date.parse(right.event.recorded_at));
  }

  /** Resolves when there may be more: the root has a new event, or a child may have. Not longer than `leftMs`. */
  async wait(leftMs: number): Promise<void> {
    const { id } = this.root.run;
    const afterSeq = this.root.events.at(-1)?.seq ?? 0;
    const longest = liveChildren(this.root) > 0 ? CHILD_PAUSE_MS : LONGEST_WAIT_MS;
    const waitsMs = Math.max(0, Math.floor(Math.min(longest, leftMs)));
    this.root.run = await this.service.get<Run>(pathOf(id), { wait_ms: waitsMs, after_seq: afterSeq });
  }

  private async readRun(node: Followed, path: string, news: Happened[]): Promise<void> {
    if (node.isComplete) return;
    const { id } = node.run;
    // The run first: the events that are read afterwards have at least what it says.
    const run = await this.service.get<Run>(pathOf(id));
    const known = node.events.at(-1)?.seq ?? 0;
    const query = known === 0 ? {} : { offset: known };
    for await (const event of this.service.items<RunEvent>(pathOf(id, "/events"), query, MOST_EVENTS)) {
      if (event.seq <= (node.events.at(-1)?.seq ?? 0)) continue;
      node.events.push(event);
      news.push({ event, path });
    }
    node.run = run;
    await this.readChildren(node, path, news);
    node.isComplete = hasEnded(run) && node.children.every((child) => child.isComplete);
  }

  private async readChildren(node: Followed, path: string, news: Happened[]): Promise<void> {
    const children = pathOf(node.run.id, "/children");
    const room = MOST_CHILDREN - this.followed + node.children.length;
    const listed = await this.service.get<{ items: readonly Run[]; total: number }>(children, {
      limit: Math.max(1, Math.min(room, MOST_CHILDREN)),
    });
    for (const run of listed.items) {
      if (node.children.some((child) => child.run.id === run.id) || this.followed >= MOST_CHILDREN) continue;
      node.children.push(followed(run));
      this.followed++;
    }
    if (listed.total > node.children.length) node.unlisted = await this.unlistedOf(node);
    for (const child of node.children) {
      const name = child.run.parent_branch_id ?? child.run.workflow_id;
      await this.readRun(child, path === "" ? name : `${path}/${name}`, news);
    }
  }

  /** By the step that made them. */
  private async unlistedOf(node: Followed): Promise<Record<string, number>> {
    const path = pathOf(node.run.id, "/children/counts");
    const { items } = await this.service.get<{ items: readonly { parent_step_id: string; count: number }[] }>(path);
    const left: Record<string, number> = {};
    for (const { parent_step_id: step, count } of items) left[step] = (left[step] ?? 0) + count;
    for (const { run } of node.children) {
      const step = run.parent_step_id ?? "";
      left[step] = (left[step] ?? 0) - 1;
    }
    return Object.fromEntries(Object.entries(left).filter(([, count]) => count > 0));
  }
}

const followed = (run: Run): Followed => ({ run, events: [], children: [], unlisted: {}, isComplete: false });

const liveChildren = ({ children }: Followed): number =>
  children.reduce((sum, child) => sum + (hasEnded(child.run) ? 0 : 1) + liveChildren(child), 0);
