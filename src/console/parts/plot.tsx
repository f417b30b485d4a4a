// Lines over time, drawn by uPlot on a canvas in the colours of the page. A canvas says nothing to a screen reader: the page has the numbers in words beside it.
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./plot.css";

export type Tone = "accent" | "good" | "bad" | "undo" | "wait" | "quiet";

export interface Line {
  readonly name: string;
  readonly tone: Tone;
  /** One value a moment; undefined leaves a gap. */
  readonly values: readonly (number | undefined)[];
}

export interface PlotProps {
  readonly label: string;
  /** Seconds since 1970. */
  readonly at: readonly number[];
  readonly lines: readonly Line[];
  readonly height?: number;
  /** The format of the values on the axis. */
  readonly format?: (value: number) => string;
}

export function Plot(props: PlotProps) {
  const { label, at, lines, height = 140 } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const names = lines.map(({ name }) => name).join(" ");
  const latest = useRef(props);
  latest.current = props;
  // Only what the lines are makes a new plot. New values are handed to the old one.
  // biome-ignore lint/correctness/useExhaustiveDependencies: `names` stands for the lines
  useEffect(() => {
    const draw = host.current;
    return draw ? drawn(draw, plot, () => latest.current, height) : undefined;
  }, [names, height]);
  useEffect(() => plot.current?.setData(dataOf(at, lines)), [at, lines]);
  return (
    <figure className="plot">
      <figcaption>
        {label}
        <Legend lines={lines} />
      </figcaption>
      <div ref={host} role="img" aria-label={`${label}, as lines over time`} style={{ height }} />
    </figure>
  );
}

function Legend({ lines }: { lines: readonly Line[] }) {
  if (lines.length < 2) return null;
  return (
    <span className="plot-legend">
      {lines.map(({ name, tone }) => (
        <span key={name}>
          <span className={`swatch ${tone}`} aria-hidden="true" /> {name}
        </span>
      ))}
    </span>
  );
}

/** Draws in `host`, and again for another width or other colours. Returns what ends it. */
function drawn(host: HTMLElement, plot: { current: uPlot | undefined }, latest: () => PlotProps, height: number) {
  const draw = () => {
    plot.current?.destroy();
    const { at, lines } = latest();
    plot.current = new uPlot(optionsOf(host, latest(), height), dataOf(at, lines), host);
  };
  const widths = new ResizeObserver(() => plot.current?.setSize({ width: host.clientWidth, height }));
  const schemes = matchMedia("(prefers-color-scheme: dark)");
  schemes.addEventListener("change", draw);
  widths.observe(host);
  draw();
  return () => {
    schemes.removeEventListener("change", draw);
    widths.disconnect();
    plot.current?.destroy();
    plot.current = undefined;
  };
}

const dataOf = (at: readonly number[], lines: readonly Line[]): uPlot.AlignedData => [
  [...at],
  ...lines.map(({ values }) => values.map((value) => value ?? null)),
];

const number = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });

function optionsOf(host: HTMLElement, { lines, format }: PlotProps, height: number): uPlot.Options {
  const axis = {
    stroke: colour(host, "quiet"),
    grid: { stroke: colour(host, "line"), width: 1 },
    ticks: { show: false },
  };
  const x: uPlot.Axis = {
    ...axis,
    size: 36,
    // Below the lowest mark of the values.
    gap: 11,
    space: 70,
    values: (_, marks, _axis, _space, apart) => timesOf(marks, apart),
  };
  const text = format ?? ((value: number) => number.format(value));
  return {
    width: host.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 28, 0, 0],
    scales: {
      x: { range: ({ data: [at] }) => spanOf(at) },
      y: { range: (_, _min, max) => [0, max > 0 ? max * 1.1 : 1] },
    },
    axes: [x, { ...axis, size: 56, values: (_, values) => values.map(text) }],
    series: [{}, ...lines.map((line) => strokeOf(host, line))],
  };
}

function strokeOf(host: HTMLElement, { name, tone }: Line): uPlot.Series {
  const stroke = colour(host, tone);
  const points = { show: true, size: 5, fill: stroke, filter: (plot: uPlot, nth: number) => alone(plot.data[nth]) };
  return { label: name, stroke, width: 2, points };
}

/** A value between two gaps is no line: it is drawn as a point. */
function alone(values: ArrayLike<number | null | undefined> = []): number[] {
  const has = (at: number) => typeof values[at] === "number";
  return Array.from({ length: values.length }, (_, at) => at).filter((at) => has(at) && !has(at - 1) && !has(at + 1));
}

/** A plot that has just begun is not stretched over seconds. */
const LEAST_S = 60;
const DAY_S = 86_400;
const DAYS = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const MINUTES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const SECONDS = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });

/** The span of the axis. uPlot would make years of one moment alone. */
function spanOf(at: ArrayLike<number>): [number, number] {
  const [first = 0, last = 0] = [at[0], at[at.length - 1]];
  return [Math.min(first, last - LEAST_S), last];
}

/** Times as fine as the marks are apart. */
function timesOf(marks: readonly number[], apartS: number): string[] {
  const format = apartS >= DAY_S ? DAYS : apartS >= 60 ? MINUTES : SECONDS;
  return marks.map((at) => format.format(at * 1_000));
}

/** A canvas knows no custom properties, so a token is read as a colour that the page has worked out. */
function colour(host: HTMLElement, token: string): string {
  const before = host.style.color;
  host.style.color = `var(--${token})`;
  const { color } = getComputedStyle(host);
  host.style.color = before;
  return color;
}
