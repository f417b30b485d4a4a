// Laws while a story goes on: an auditor looks at the store every few seconds, in one transaction, at what has changed since it looked last. A law that is
// broken ends the story there, where its cause is near.
import type { Sql } from "postgres";
import { asRunId } from "../../../machines/index.js";
import { checkHistory } from "../../harness/history.js";
import { look } from "../../run/seen.js";
import type { Part, Scene } from "../scene.js";
import type { Chance } from "../world/world.js";

/** Where a run was when it was looked at. */
interface Position {
  readonly id: string;
  readonly fence: string;
  readonly lastSeq: number;
}

const PAUSE_MS = 8_000;
/** The histories that are read at one look. */
const HISTORIES = 10;

export class Auditor implements Part {
  private readonly chance: Chance;
  private known = new Map<string, Position>();
  private losses = 0;

  constructor(private readonly scene: Scene) {
    this.chance = scene.chanceOf("auditor");
  }

  async storm(): Promise<void> {
    const { scene, chance } = this;
    while (true) {
      await scene.cluster.sleep(chance() * PAUSE_MS);
      const acknowledged = new Set(scene.acknowledged.runs);
      const { losses } = scene.cluster;
      const broken = await scene.read((sql) =>
        // What the driver has in a transaction is all of it that is used here.
        sql.begin("isolation level repeatable read", (tx) => this.look(tx as unknown as Sql, acknowledged)),
      );
      if (losses === scene.cluster.losses && broken.length > 0)
        throw new Error(`a law is broken: ${broken.join("\n")}`);
    }
  }

  private async look(sql: Sql, acknowledged: ReadonlySet<string>): Promise<string[]> {
    const rows = await sql<Position[]>`
      select id, fence::text, last_seq::int as "lastSeq" from runs where last_seq > 0 order by id`;
    const { losses } = this.scene.cluster;
    const before = this.losses === losses ? this.known : new Map<string, Position>();
    this.losses = losses;
    this.known = new Map(rows.map((row) => [row.id, row]));
    const changed = rows.filter(({ id, fence }) => before.get(id)?.fence !== fence);
    const from = Math.floor(this.chance() * Math.max(1, changed.length - HISTORIES));
    const broken = [...this.vanished(before), ...this.missing(acknowledged)];
    for (const { id } of changed.slice(from, from + HISTORIES)) {
      const { run, events } = await look(sql, asRunId(id));
      broken.push(...checkHistory(run, events).map(({ rule, message }) => `${id} breaks "${rule}": ${message}`));
    }
    return broken;
  }

  /** What was committed is there, and nothing of it goes back. */
  private vanished(before: ReadonlyMap<string, Position>): string[] {
    return [...before.values()].flatMap(({ id, lastSeq }) => {
      const now = this.known.get(id)?.lastSeq ?? 0;
      return now < lastSeq ? [`${id} was at event ${lastSeq}, and is at ${now}`] : [];
    });
  }

  private missing(acknowledged: ReadonlySet<string>): string[] {
    return [...acknowledged].filter((id) => !this.known.has(id)).map((id) => `${id} was acknowledged, and is gone`);
  }
}
