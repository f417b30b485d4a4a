// How the service commits while the page is open, as plots and in words. The metrics are those of the machine that answers; the page keeps ten minutes.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { metricsText } from "../browser/client.js";
import { Refused } from "../parts/notes.js";
import { type Line, Plot } from "../parts/plot.js";
import { withUnit } from "../parts/values.js";
import { type History, type Point, seen } from "./history.js";
import { parseMetrics, type Reading } from "./metrics.js";

const EVERY_MS = 2_000;

export function Live() {
  const { data, error } = useQuery({
    queryKey: ["metrics", "live"],
    queryFn: async ({ signal }): Promise<Reading> => ({
      metrics: parseMetrics(await metricsText(signal)),
      at: Date.now(),
    }),
    refetchInterval: EVERY_MS,
    structuralSharing: false,
  });
  const [history, setHistory] = useState<History>({ points: [] });
  useEffect(() => {
    if (data) setHistory((before) => seen(before, data));
  }, [data]);
  return (
    <section aria-labelledby="live">
      <h2 id="live">Commits</h2>
      {error && !data && <Refused error={error} />}
      <InWords point={history.points.at(-1)} />
      {history.points.length > 0 && <Plots points={history.points} />}
      <p className="quiet">
        The numbers of the machine that answered, of the last two seconds; the plots begin when this page is opened.
      </p>
    </section>
  );
}

function InWords({ point }: { point: Point | undefined }) {
  if (!point) return <p className="quiet">Two readings are needed for a rate …</p>;
  const ms = (value: number | undefined) => (value === undefined ? "none" : withUnit(number.format(value), "ms"));
  return (
    <dl className="live-numbers">
      <dt>Transitions a second</dt>
      <dd>{rate(point.transitions)}</dd>
      <dt>Group commits a second</dt>
      <dd>{rate(point.commits)}</dd>
      <dt>Mean time of a commit</dt>
      <dd>{ms(point.commitMs)}</dd>
      <dt>99% of commits take at most</dt>
      <dd>{ms(point.commitP99Ms)}</dd>
      <dt>Dispatches that workers hold</dt>
      <dd>{point.inFlight ?? "unknown"}</dd>
      <dt>Calls that wait for a worker's credit</dt>
      <dd>{point.queued ?? "unknown"}</dd>
    </dl>
  );
}

const number = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const rate = (value: number | undefined) => (value === undefined ? "unknown" : number.format(value));

function Plots({ points }: { points: readonly Point[] }) {
  const { at, throughput, latency, dispatches } = useMemo(() => linesOf(points), [points]);
  return (
    <div className="plots">
      <Plot label="Transitions and commits a second" at={at} lines={throughput} />
      <Plot label="Time of a commit, in ms" at={at} lines={latency} />
      <Plot label="Dispatches" at={at} lines={dispatches} />
    </div>
  );
}

function linesOf(points: readonly Point[]) {
  const line = (name: string, tone: Line["tone"], of: (point: Point) => number | undefined): Line => ({
    name,
    tone,
    values: points.map(of),
  });
  return {
    at: points.map((point) => point.at),
    throughput: [
      line("transitions", "accent", (point) => point.transitions),
      line("commits", "good", (point) => point.commits),
    ],
    latency: [line("mean", "accent", (point) => point.commitMs), line("99%", "undo", (point) => point.commitP99Ms)],
    dispatches: [line("held", "accent", (point) => point.inFlight), line("queued", "wait", (point) => point.queued)],
  };
}
