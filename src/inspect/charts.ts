// The published charts of inspected runs. Each is prepared once, however many runs and viewers have it, and kept no longer than its program.
import { type Chart, ChartGraph } from "../../machines/index.js";

/** The text goes out with every run. No viewer draws a larger chart. */
const MAX_TEXT = 1024 * 1024;

/** Steps that make runs of their own. */
const PARENTS: ReadonlySet<string> = new Set(["parallel", "foreach", "sub_saga"]);

export class InspectedChart {
  readonly graph: ChartGraph;
  /** Its runs may have children. */
  readonly hasChildren: boolean;

  constructor(private readonly chart: Chart) {
    this.graph = new ChartGraph(chart);
    this.hasChildren = Object.values(chart.states.active.states).some(({ meta }) => PARENTS.has(meta?.type ?? ""));
  }

  /** As JSON. It is not kept: a viewer may have a hundred charts. */
  text(): string {
    const text = JSON.stringify(this.chart);
    return text.length <= MAX_TEXT ? text : JSON.stringify(withoutStates(this.chart));
  }

  tags(key: string): readonly string[] {
    return this.chart.states.active.states[key]?.tags ?? [];
  }
}

function withoutStates({ id, version }: Chart) {
  return { id, version, description: "The chart is too large to be shown: it has more than 1 MiB." };
}

export class Charts {
  private readonly prepared = new WeakMap<Chart, InspectedChart>();

  constructor(private readonly read: (definitionId: string) => Promise<Chart>) {}

  async of(definitionId: string): Promise<InspectedChart> {
    const chart = await this.read(definitionId);
    const known = this.prepared.get(chart) ?? new InspectedChart(chart);
    this.prepared.set(chart, known);
    return known;
  }
}
