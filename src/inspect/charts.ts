// The published charts of inspected runs. Each is prepared once, however many runs and viewers have it, and kept no longer than its program.
import { type Chart, ChartGraph, makesChildren, type Program } from "../../machines/index.js";

/** The text goes out with every run. No viewer draws a larger chart. */
const MAX_TEXT = 1024 * 1024;

/** A workflow, as far as it is shown. */
export type Inspected = Pick<Program, "chart" | "steps">;

export class InspectedChart {
  readonly graph: ChartGraph;
  /** Its runs may have children. */
  readonly hasChildren: boolean;

  private readonly chart: Chart;

  constructor({ chart, steps }: Inspected) {
    this.chart = chart;
    this.graph = new ChartGraph(chart);
    this.hasChildren = [...steps.values()].some(({ type }) => makesChildren(type));
  }

  /** The chart as JSON. The text is not kept: a viewer may have a hundred charts. */
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
  private readonly prepared = new WeakMap<Inspected, InspectedChart>();

  constructor(private readonly read: (definitionId: string) => Promise<Inspected>) {}

  async of(definitionId: string): Promise<InspectedChart> {
    const program = await this.read(definitionId);
    const known = this.prepared.get(program) ?? new InspectedChart(program);
    this.prepared.set(program, known);
    return known;
  }
}
