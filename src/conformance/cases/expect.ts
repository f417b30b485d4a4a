// What several cases ask of an answer. It throws Violation, and knows no single case.
import { isDeepStrictEqual } from "node:util";
import type { Bench } from "../bench.js";
import { Violation } from "../rule.js";
import { described, type Step } from "../step.js";

export function violate(sentence: string): never {
  throw new Violation(sentence);
}

/** The step ended with an output that is this one. */
export async function expectOutput(bench: Bench, step: Step, output: unknown, ms?: number): Promise<void> {
  await bench.answerOf(step, ms);
  const { text } = step;
  if (text === undefined || !isDeepStrictEqual(parsed(text), output))
    violate(`a step of ${step.message.action} got ${described(step)}, not the result ${short(output)}`);
}

/** `slow` was begun once by its process. */
export async function expectOneExecution(bench: Bench, step: Step, ms?: number): Promise<void> {
  await bench.answerOf(step, ms);
  if (step.executions === 1) return;
  if (step.executions === undefined) violate(`a step of slow got ${described(step)}, not {"executions": 1}`);
  violate(`a dispatch was executed ${step.executions} times: it is one attempt`);
}

/** The answer names the run, the step and the attempt of its dispatch. */
export function expectReport(step: Step): void {
  const { answer, message } = step;
  const report = answer && ("result" in answer ? answer.result : answer.failure);
  for (const member of ["run_id", "step_id", "attempt"] as const)
    if (report?.[member] !== message[member])
      violate(`the answer has ${member} ${String(report?.[member]) || '""'}, its step has ${String(message[member])}`);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return violate(`result_json is no JSON: ${text.slice(0, 200)}`);
  }
}

function short(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
