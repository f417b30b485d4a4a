import { describe, expect, it } from "vitest";
import { reportOf } from "../../bench/report/html.js";
import { percentilePlot } from "../../bench/report/plot.js";
import { repetitionLine, resultTable } from "../../bench/terminal.js";
import { aRepetition, aResult } from "./results.js";

const files = [
  { name: "before.json", result: aResult([2]) },
  { name: "after.json", result: aResult([1]) },
];

describe("the report", () => {
  it("compares files by ratios to the first one", () => {
    const report = reportOf(files);
    expect(report).toContain("<td>before.json</td><td>500</td>");
    expect(report).toContain("<td>after.json</td><td>1,000 (2.00 ×)</td>");
  });

  it("loads nothing and runs nothing", () => {
    const report = reportOf(files);
    expect(report).toContain(`content="default-src 'none'; style-src 'unsafe-inline'"`);
    expect(report).not.toMatch(/<(script|img|link|iframe)|https?:|@import|url\(|\ssrc=/i);
  });

  it("shows names and notes as text", () => {
    const hostile = `<script>alert("1")</script>&'`;
    const repetitions = [aRepetition(2, { notes: [hostile] })];
    const [scenario] = aResult().scenarios;
    const result = aResult([2], {
      scenarios: [{ ...scenario!, scenario: hostile, title: hostile, unit: hostile, repetitions }],
    });
    const report = reportOf([{ name: hostile, result: { ...result, subject: { name: hostile, version: hostile } } }]);
    expect(report).not.toContain("<script");
    expect(report).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;");
  });

  it("has a section for each scenario of any file", () => {
    const [scenario] = aResult().scenarios;
    const other = { name: "other.json", result: aResult([2], { scenarios: [{ ...scenario!, scenario: "rules" }] }) };
    const report = reportOf([...files, other]);
    expect(report.match(/<h2>.*?<\/h2>/g)).toEqual(["<h2>ten-steps</h2>", "<h2>rules</h2>"]);
  });

  it("shows unknown figures as a dash", () => {
    const repetitions = [aRepetition(2, { writes: null, processes: [] })];
    const [scenario] = aResult().scenarios;
    const report = reportOf([{ name: "a.json", result: aResult([2], { scenarios: [{ ...scenario!, repetitions }] }) }]);
    expect(report).toContain("<td>–</td>");
    expect(report).not.toMatch(/NaN|undefined|Infinity/);
  });
});

describe("the plot of percentiles", () => {
  const ys = (plot: string) =>
    [...plot.matchAll(/points="([^"]*)"/g)].map(([, points = ""]) =>
      points.split(" ").map((xy) => Number(xy.split(",")[1])),
    );
  const POINTS = [
    [0, 1],
    [50, 3],
    [99, 12],
    [100, 21],
  ] as const;

  it("rises with the percentile", () => {
    const [line = []] = ys(percentilePlot([{ name: "a", points: POINTS }]));
    expect(line).toHaveLength(4);
    expect(line).toEqual([...line].sort((left, right) => right - left));
  });

  it("of nothing is no error", () => {
    expect(percentilePlot([{ name: "a", points: [] }])).not.toMatch(/NaN|Infinity/);
  });
});

describe("the terminal", () => {
  it("says a repetition in one line", () => {
    const figures = [{ name: "resume", value: 3, unit: "s" }];
    expect(repetitionLine("park 1/3", "runs", aRepetition(2, { figures, errors: 2, notes: ["first error: no"] }))).toBe(
      "park 1/3: 500 runs/s; start to end p50 3 ms, p99 12 ms; resume 3 s; 2 errors; first error: no",
    );
  });

  it("shows a table with a row for each scenario", () => {
    const [head = "", row = ""] = resultTable(aResult()).split("\n");
    expect(row.split(/\s+/)).toEqual(["ten-steps", "500", "3", "12", "2", "200", "2.5", "800", "95", "0"]);
    expect(row).toHaveLength(head.length);
  });
});
