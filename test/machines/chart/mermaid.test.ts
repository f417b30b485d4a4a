// The published chart as a Mermaid diagram: every edge is in it, and no id or condition can be read as Mermaid's grammar.
// @module-tag both
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Chart, mermaidOf } from "../../../machines/index.js";
import { cases, firstSeed } from "../../harness/long.js";
import { documents, program } from "../definitions.js";
import { EXAMPLES, exampleName, exampleProgram } from "./examples.js";

/** The whole grammar that a diagram may use: Mermaid 11 reads each of these lines as it is meant. */
const LINES = [
  /^stateDiagram-v2$/,
  /^state active \{$/,
  /^\}$/,
  /^ *(\[\*\]|\w+) --> (\[\*\]|\w+)$/,
  /^ *\w+ --> \w+: ((?!--)[\p{L}\p{N} _.,()/+'-]|#\d+;)+$/u,
  /^ {2}\w+$/,
  /^ {2}state "([\p{L}\p{N} _.,()/+'-]|#\d+;)+" as step_\d+$/u,
];

function strangeLines(chart: Chart): string[] {
  const lines = mermaidOf(chart).trimEnd().split("\n");
  return lines.filter((line) => !LINES.some((known) => known.test(line)));
}

const drawnEdges = (diagram: string): number => diagram.split("\n").filter((line) => / --> \w+: /.test(line)).length;

function ownEdges({ states: { active, ...others } }: Chart): number {
  const states = [active, ...Object.values(active.states), ...Object.values(others)];
  return states.reduce((sum, state) => sum + Object.keys(state?.on ?? {}).length, 0);
}

describe("a diagram", () => {
  it.each(EXAMPLES.map((file) => [exampleName(file), file]))("of %s has every edge", (_name, file) => {
    const compiled = exampleProgram(file);
    expect(strangeLines(compiled.chart)).toEqual([]);
    expect(drawnEdges(mermaidOf(compiled.chart))).toBe(ownEdges(compiled.chart));
  });

  it("of random workflows has no line that is not Mermaid's", () => {
    fc.assert(
      fc.property(documents, ({ steps, head }) => {
        expect(strangeLines(program(steps, head).chart)).toEqual([]);
      }),
      { seed: firstSeed(), numRuns: cases(20, 80) },
    );
  });

  it("gives ids that Mermaid would misread another name, and escapes what people wrote", () => {
    const { chart } = program([
      {
        id: "end",
        type: "wait_for_signal",
        signal_name: "a:b",
        timeout_ms: 1_000,
        on_timeout: "failed",
        next: "s.1",
      },
      { id: "s.1", type: "switch", cases: [{ when: "inputs.x == '--> ;\\u2028😀'", next: "failed" }], default: "end" },
      { id: "failed", type: "noop" },
    ]);
    const diagram = mermaidOf(chart);
    expect(strangeLines(chart)).toEqual([]);
    expect(diagram).toContain('  state "end" as step_0\n');
    expect(diagram).toContain('  state "s.1" as step_1\n');
    expect(diagram).toContain("  step_0 --> step_2: timeout (after 1 s without the signal a#58;b)\n");
    expect(diagram).toContain("\nstep_2 --> succeeded: run.succeeded (the run succeeds)\n");
    expect(diagram).toMatch(/\nactive --> failed: run\.failed \(/);
  });
});
