// What the parts of one story share: the cluster, an operator's own sessions, what clients were told, and how a client insists on an answer. All that is
// drawn follows from the seed; each part has chances of its own, so that one more part changes nothing of the others.
import { isDeepStrictEqual } from "node:util";
import type { Sql } from "postgres";
import { isRefusal, type RunCommand, type RunId } from "../../machines/index.js";
import { EVERYTHING } from "../../src/access/index.js";
import type { Core } from "../../src/cluster/core.js";
import { SagaError } from "../../src/errors.js";
import { isStoreAway } from "../../src/store/engine/failure.js";
import { openSessions } from "../../src/store/engine/session.js";
import { type Cluster, isUnavailable, STORE_URL } from "./cluster.js";
import type { Acknowledged } from "./laws.js";
import { type Chance, chanceOf, type Life } from "./world/world.js";

/** A subject of the story: what it defines, does, and demands. Absent: nothing. */
export interface Part {
  /** With the store to itself: no node is up yet. */
  prepare?(): Promise<void>;
  /** Until the end, on the world's clock. What it throws ends the story. */
  storm?(end: number): Promise<void>;
  /** The storm is over, and all nodes are on their way up. */
  calm?(): void;
  /** Calm lasts at least until all that a part began has been answered. */
  readonly isUnderWay?: boolean;
  /** When all runs have ended: whether what they owe to the outside has been delivered. */
  hasSettled?(): Promise<boolean>;
  /** When everything has ended: what is not as it must be. */
  violations?(): Promise<readonly string[]>;
}

export class Scene {
  readonly counts: Record<string, number> = {};
  readonly acknowledged: Acknowledged = {
    runs: new Set(),
    abandoned: new Set(),
    bound: new Set(),
    rewound: new Set(),
    handled: new Set(),
    isClockTrue: true,
    broken: [],
  };
  /** Workflows that clients start. */
  readonly workflows: string[] = [];
  readonly operator: Life = { name: "operator", isAlive: true, isFrozen: false, missed: [], skewMs: 0 };
  /** The operator's: no fault meets them. */
  readonly sql: Sql;
  private readonly chance: Chance;
  private made = 0;

  constructor(readonly cluster: Cluster) {
    this.chance = this.chanceOf("answers");
    this.sql = this.asOperator(() => openSessions(STORE_URL, { max: 2, applicationName: "operator" }));
  }

  chanceOf(part: string): Chance {
    return chanceOf(`${this.cluster.seed} ${part}`);
  }

  asOperator<Value>(act: () => Value): Value {
    return this.cluster.world.as(this.operator, act);
  }

  count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }

  tell(line: string): void {
    this.cluster.tell(line);
  }

  /** An id that a client has made. */
  newId(): string {
    const nth = (this.made++).toString(16).padStart(12, "0");
    return `01900000-0000-7000-8000-${nth}`;
  }

  /** One command, one outcome: a repeat on any node gets the first answer. A run that the store has forgotten gets none. */
  async insist(runId: RunId, command: RunCommand, id = this.newId()): Promise<void> {
    try {
      const what = `${command.type} to ${runId} (${id})`;
      // A refusal is not kept: the same command may be accepted later.
      await this.twice(what, 0.3, async (core) => {
        const answer = await core.router.command(runId, command, { id, keep: true, reach: EVERYTHING });
        return isRefusal(answer) ? undefined : answer;
      });
    } catch (error) {
      const isGone = error instanceof SagaError && error.status === 404 && !this.acknowledged.runs.has(runId);
      if (!isGone) throw error;
      this.tell(`${runId} was forgotten`);
    }
  }

  /** Insists on an answer and sometimes once more: one that is kept has to be the same, unless the store has forgotten it. Undefined: it is not kept. */
  async twice<Value>(what: string, howOften: number, act: (core: Core) => Promise<Value>): Promise<Value> {
    const { losses } = this.cluster;
    const answer = await this.insistOn(what, act);
    if (this.chance() > howOften) return answer;
    const again = await this.insistOn(what, act);
    const isKept = losses === this.cluster.losses && answer !== undefined;
    if (isKept && !isDeepStrictEqual(again, answer))
      this.acknowledged.broken.push(`${what} was ${JSON.stringify(answer)}, and is ${JSON.stringify(again)}`);
    return answer;
  }

  /** What the operator reads of the store, as soon as it answers. */
  async read<Value>(act: (sql: Sql) => PromiseLike<Value>): Promise<Value> {
    while (true) {
      try {
        return await this.asOperator(async () => await act(this.sql));
      } catch (error) {
        if (!isStoreAway(error)) throw error;
        await this.cluster.sleep(500);
      }
    }
  }

  /** Asks until a node answers. A node that cannot say yet answers 503. */
  async insistOn<Value>(what: string, act: (core: Core) => Promise<Value>): Promise<Value> {
    while (true) {
      const answered = await this.cluster.ask(act);
      if (answered && "value" in answered) return answered.value;
      const error = answered?.error;
      if (error !== undefined && !isUnavailable(error)) throw error;
      this.count("asked again");
      const why = error instanceof Error ? error.message : "no answer";
      this.tell(`${what}: ${why}, and is asked again`);
      await this.cluster.sleep(200 + this.chance() * 500);
    }
  }
}
