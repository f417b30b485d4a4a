// The report: result files beside each other in one HTML file that loads nothing. Ratios are to the first file. Pure.
import type { Latency, ResultFile, Role, ScenarioResult } from "../result.js";
import { COLUMNS, hotShares, type Medians, medians, ratio, typicalLatencies } from "./figures.js";
import { barPlot, percentilePlot } from "./plot.js";
import { escaped, shown } from "./text.js";

export interface NamedResult {
  /** The name of the file. */
  readonly name: string;
  readonly result: ResultFile;
}

/** A scenario in one file. */
interface Entry {
  readonly name: string;
  readonly scenario: ScenarioResult;
  readonly medians: Medians;
}

const ROLES: readonly Role[] = ["service", "postgres", "worker", "load"];

export function reportOf(files: readonly NamedResult[]): string {
  const scenarios = [...new Set(files.flatMap(({ result }) => result.scenarios.map(({ scenario }) => scenario)))];
  const sections = scenarios.map((scenario) => section(scenario, entriesOf(scenario, files)));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Bench report</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Bench report</h1>
<p>Figures are medians over the repetitions. Rows and WAL are for each transition. A
ratio is to the first file. Compare files of one machine; on a busy machine trust processor
time and ratios, not wall time. A dash stands for a figure that is unknown.</p>
${filesTable(files)}
${sections.join("\n")}
</body>
</html>
`;
}

function entriesOf(name: string, files: readonly NamedResult[]): Entry[] {
  return files.flatMap((file) => {
    const scenario = file.result.scenarios.find((each) => each.scenario === name);
    return scenario ? [{ name: file.name, scenario, medians: medians(scenario) }] : [];
  });
}

function filesTable(files: readonly NamedResult[]): string {
  const heads = ["file", "measured", "taken at", "machine", "Node", "Postgres", "deployment"];
  const rows = files.map(({ name, result }) => {
    const { subject, machine, taken_at, target, nodes } = result;
    const gib = `${shown(machine.memory_bytes / 2 ** 30)} GiB`;
    const deployment =
      target ?? (nodes === undefined ? "its own" : `its own, ${nodes} ${nodes === 1 ? "node" : "nodes"}`);
    return [
      ...[name, [subject.name, subject.version, subject.commit].filter(Boolean).join(" "), taken_at],
      ...[
        `${machine.cpu}, ${machine.cores} cores, ${gib}, ${machine.os}`,
        machine.node,
        machine.postgres ?? "–",
        deployment,
      ],
    ];
  });
  return table(heads, rows);
}

function section(name: string, entries: readonly Entry[]): string {
  const { title, unit } = entries[0]?.scenario ?? { title: name, unit: "" };
  return `<section id="${escaped(name)}">
<h2>${escaped(name)}</h2>
<p>${escaped(title)}. ${entries
    .map(({ scenario }) => loadText(scenario))
    .filter(first)
    .map(escaped)
    .join("; ")}.</p>
${comparison(entries, unit)}
<div class="plots">
${figure("Throughput", barPlot("Throughput", entries.map(throughputBar)))}
${figure(`Processor seconds per 1,000 ${unit}`, barPlot("Processor time", entries.map(cpuBar)), ROLES)}
${latencyPlots(entries)}
</div>
${latencyTable(entries)}
${extras(entries)}
</section>`;
}

const first = (value: string, index: number, all: readonly string[]) => all.indexOf(value) === index;

function loadText({ load, repetitions }: ScenarioResult): string {
  const kind =
    load.kind === "open" ? `open loop, ${load.rate_per_second} a second` : `closed loop, ${load.concurrency} at once`;
  const count = repetitions[0]?.count ?? 0;
  return `${kind}, ${repetitions.length} × ${count.toLocaleString("en")}`;
}

function comparison(entries: readonly Entry[], unit: string): string {
  const heads = ["file", ...COLUMNS.map(([head]) => (head === "per second" ? `${unit} per second` : head))];
  const rows = entries.map(({ name, medians: own }, row) => {
    const cells = COLUMNS.map(([, of]) => {
      const times = row === 0 ? undefined : ratio(of(own), entries[0] && of(entries[0].medians));
      return shown(of(own)) + (times === undefined ? "" : ` (${times.toFixed(2)} ×)`);
    });
    return [name, ...cells];
  });
  return table(heads, rows);
}

function throughputBar({ name, medians: own }: Entry) {
  return { name, text: `${shown(own.throughput)}/s`, parts: [own.throughput ?? 0] };
}

function cpuBar({ name, medians: { cpuOfRole, cpuPerThousand } }: Entry) {
  return { name, text: shown(cpuPerThousand), parts: ROLES.map((role) => cpuOfRole.get(role) ?? 0) };
}

/** A plot for each kind of latency, with a line for each file. */
function latencyPlots(entries: readonly Entry[]): string {
  const latencies = entries.map(({ name, scenario }) => ({ name, all: typicalLatencies(scenario) }));
  const kinds = latencies.flatMap(({ all }) => all.map(({ of }) => of)).filter(first);
  return kinds
    .map((kind) => {
      const of = ({ all }: { readonly all: readonly Latency[] }) => all.find((latency) => latency.of === kind);
      const lines = latencies.map((file) => ({ name: file.name, points: of(file)?.distribution ?? [] }));
      return figure(
        `Latency, ${kind}`,
        percentilePlot(lines),
        lines.map(({ name }) => name),
      );
    })
    .join("\n");
}

/** The latencies of the repetition in the middle, like the plots. */
function latencyTable(entries: readonly Entry[]): string {
  const rows = entries.flatMap(({ name, scenario }) =>
    typicalLatencies(scenario).map(({ of, samples, mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms }) => [
      ...[of, name, samples.toLocaleString("en")],
      ...[mean_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms].map(shown),
    ]),
  );
  const heads = ["latency", "file", "samples", "mean ms", "p50", "p90", "p99", "p99.9", "max"];
  return rows.length === 0 ? "" : table(heads, rows);
}

/** `keys`: the names of the colours. */
function figure(caption: string, plot: string, keys: readonly string[] = []): string {
  const named = keys.map((key, nth) => `<span class="key c${nth % 6}">${escaped(key)}</span>`).join(" ");
  return `<figure><figcaption>${escaped(caption)} ${named}</figcaption>\n${plot}\n</figure>`;
}

/** HOT updates by table, and what every repetition says beside its figures. */
function extras(entries: readonly Entry[]): string {
  const lines = entries.flatMap((entry) => [...hotLine(entry), ...repetitionLines(entry)]);
  return lines.length === 0 ? "" : `<ul>\n${lines.map((line) => `<li>${escaped(line)}</li>`).join("\n")}\n</ul>`;
}

function hotLine({ name, scenario }: Entry): string[] {
  const shares = [...hotShares(scenario)].map(([table, share]) => `${table} ${shown(100 * share)} %`);
  return shares.length === 0 ? [] : [`${name}, HOT updates: ${shares.join(", ")}`];
}

function repetitionLines({ name, scenario }: Entry): string[] {
  return scenario.repetitions.flatMap(({ figures, notes }, nth) => {
    const texts = [...figures.map((each) => `${each.name} ${shown(each.value)} ${each.unit}`), ...notes];
    return texts.length === 0 ? [] : [`${name}, repetition ${nth + 1}: ${texts.join("; ")}`];
  });
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const row = (tag: "th" | "td", cells: readonly string[]) =>
    `<tr>${cells.map((cell) => `<${tag}>${escaped(cell)}</${tag}>`).join("")}</tr>`;
  return `<table>\n<thead>${row("th", heads)}</thead>\n<tbody>${rows.map((cells) => row("td", cells)).join("\n")}</tbody>\n</table>`;
}

const COLOURS = ["#2a6fb0", "#d9822b", "#3c9a5f", "#a34a8f", "#7a6a3a", "#c0392b"];

const STYLE = `
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; color: #1c1c1c; background: #fff }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #ddd; padding: 3px 12px 3px 0; text-align: left; font-variant-numeric: tabular-nums }
section { border-top: 2px solid #ddd; margin-top: 2em }
.plots { display: flex; flex-wrap: wrap; gap: 1em 2em }
figure { margin: 1em 0 } figcaption { margin-bottom: .4em }
svg { max-width: 100%; height: auto } text { font-size: 11px; fill: #444 }
.rule { stroke: #e4e4e4 } .line { fill: none; stroke-width: 2 } .key { font-weight: 600 }
${COLOURS.map((colour, nth) => `.line.c${nth} { stroke: ${colour} } .bar.c${nth} { fill: ${colour} } .key.c${nth} { color: ${colour} }`).join("\n")}
`;
