// The published charts of the runs in one inspection: each is written as text and read as a graph once, however many runs have it.
import { type Chart, ChartGraph } from "../../machines/index.js";

/** The text goes out with every run. No viewer draws a larger chart. */
const MAX_TEXT = 1024 * 1024;

/** Steps that make runs of their own. */
const PARENTS: ReadonlySet<string> = new Set(["parallel", "foreach", "sub_saga"]);

export class InspectedChart {
  readonly graph: ChartGraph;
  /** The chart as JSON. */
  readonly text: string;
  /** Its runs may have children. */
  readonly hasChildren: boolean;

  constructor(private readonly chart: Chart) {
    this.graph = new ChartGraph(chart);
    const text = JSON.stringify(chart);
    this.text = text.length <= MAX_TEXT ? text : JSON.stringify(withoutStates(chart));
    this.hasChildren = Object.values(chart.states.active.states).some(({ meta }) => PARENTS.has(meta?.type ?? ""));
  }

  tags(key: string): readonly string[] {
    return this.chart.states.active.states[key]?.tags ?? [];
  }
}

function withoutStates({ id, version }: Chart) {
  return { id, version, description: "The chart is too large to be shown: it has more than 1 MiB." };
}

export class Charts {
  private readonly known = new Map<string, InspectedChart>();

  constructor(private readonly read: (definitionId: string) => Promise<Chart>) {}

  async of(definitionId: string): Promise<InspectedChart> {
    const known = this.known.get(definitionId) ?? new InspectedChart(await this.read(definitionId));
    this.known.set(definitionId, known);
    return known;
  }
}
