// A report as lines for people. It has no colours: the command adds what it likes.
import type { CaseReport, Report, Verdict } from "./rule.js";

const MARKS: Readonly<Record<Verdict, string>> = { passed: "ok", failed: "FAILED", not_applicable: "-" };

/** A case: one line, and for a failure four. */
export function caseText({ name, verdict, rule, section, seen, advice, ms }: CaseReport): string {
  const line = `${MARKS[verdict].padEnd(6)}  ${name.padEnd(24)} ${(ms / 1_000).toFixed(1)} s`;
  if (verdict === "passed") return line;
  if (verdict === "not_applicable") return `${line}  not applicable: ${seen}`;
  const about = [`rule:   ${rule}`, `seen:   ${seen}`, `do:     ${advice}`, `see:    ${section}`];
  return [line, ...about.map((each) => `        ${each}`)].join("\n");
}

/** The last line. */
export function sumText({ conforms, cases, ms }: Report): string {
  const count = (verdict: Verdict) => cases.filter((each) => each.verdict === verdict).length;
  const counts = `${count("passed")} passed, ${count("failed")} failed, ${count("not_applicable")} not applicable`;
  return `${conforms ? "The worker conforms" : "The worker does not conform"}: ${counts} in ${(ms / 1_000).toFixed(0)} s`;
}
