// Death at a chosen commit: each family of runs loses its node at a chosen commit of its own, before the commit reaches the database
// or after it but before its answer. For that family the process is dead; other families continue to their own deaths.
import type { RunCommit, RunId } from "../../machines/index.js";
import { overloaded } from "../../src/errors.js";
import type { Half } from "./rig.js";

export interface Death {
  /** The number of the family's commit, from 1; Infinity: the node survives. */
  readonly at: number;
  readonly when: "before" | "after";
}

interface Life extends Death {
  commits: number;
  over: boolean;
}

export class Mortals {
  private readonly roots = new Map<string, RunId>();
  private readonly lives = new Map<string, Life>();

  /** Call this before the family starts. */
  doom(runId: RunId, death: Death): void {
    this.roots.set(runId, runId);
    this.lives.set(runId, { ...death, commits: 0, over: false });
  }

  rootOf(runId: string): RunId {
    const root = this.roots.get(runId);
    if (root === undefined) throw new Error(`nobody knows the run ${runId}`);
    return root;
  }

  isOver(runId: string): boolean {
    return this.lives.get(this.rootOf(runId))?.over ?? false;
  }

  commitsOf(root: string): number {
    return this.lives.get(root)?.commits ?? 0;
  }

  /** No more deaths, for the node that takes over. */
  spare(): void {
    this.lives.clear();
  }

  inhabit({ committer, dispatcher, runtime }: Half): void {
    const submit = committer.submit.bind(committer);
    committer.submit = (commit) => this.live(commit, submit);
    // A worker's answer to a dead node is lost; the next node sends the dispatch again.
    dispatcher.answerTo = ({ runId }) => (this.isOver(runId) ? undefined : runtime);
  }

  private async live(commit: RunCommit, submit: (commit: RunCommit) => Promise<boolean>): Promise<boolean> {
    const root = this.rootOf(commit.runId);
    for (const { id } of commit.rows.new_run ?? []) this.roots.set(id, root);
    const life = this.lives.get(root);
    if (!life) return submit(commit);
    if (life.over) throw overloaded("the node is gone");
    life.commits++;
    if (life.commits < life.at) return submit(commit);
    life.over = true;
    if (life.when === "after") await submit(commit);
    throw overloaded("the node is gone");
  }
}
