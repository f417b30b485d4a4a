// A run as lines of text, for `get` and for what ends with a run. It asks nothing.
import type { Terminal } from "../frame/terminal.js";
import { duration, facts, inline, safe } from "../frame/text.js";
import { hasEnded, type Run, stateOf, styleOf } from "./run.js";

/** A value that is longer goes below its name, indented. */
const INLINE_CHARS = 60;

export function runLines(run: Run, terminal: Terminal): string[] {
  const state = terminal.paint(styleOf(run.state), stateOf(run));
  const labels = Object.entries(run.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const ms = run.terminal_at === undefined ? undefined : Date.parse(run.terminal_at) - Date.parse(run.started_at);
  return [
    `${terminal.paint("bold", `${run.workflow_id} ${run.version}`)}  ${run.id}  ${state}`,
    ...facts([
      ["  step", hasEnded(run) ? undefined : run.current_step],
      ["  waits for", waitOf(run)],
      ["  continues", run.wakeup_at],
      ["  key", run.business_key && safe(run.business_key)],
      ["  priority", run.priority === undefined ? undefined : String(run.priority)],
      ["  fairness", run.fairness_key && safe(`${run.fairness_key}, weight ${run.fairness_weight ?? 1}`)],
      ["  labels", labels.length > 0 ? safe(labels.join(", ")) : undefined],
      ["  tenant", run.tenant_id],
      ["  parent", run.parent_run_id && `${run.parent_run_id} at ${run.parent_step_id ?? "?"}`],
      ["  rerun of", run.rerun_of],
      ["  forked from", run.forked_from && `${run.forked_from.saga_id} at ${run.forked_from.step}`],
      ["  started", run.started_at],
      ["  ended", run.terminal_at && `${run.terminal_at} (after ${duration(ms ?? 0)})`],
      ["  dry run", run.dry_run ? "yes" : undefined],
      ["  error", run.error && terminal.paint("red", errorText(run.error))],
      ["  incident", run.incident && terminal.paint("red", errorText(run.incident))],
      ["  review", run.requires_manual_review ? terminal.paint("red", "a person must look: saga explain") : undefined],
    ]),
    ...valueLines("inputs", run.inputs),
    ...valueLines("variables", run.variables),
    ...valueLines("output", run.output),
  ];
}

export const errorText = ({ code, message, step_id }: { code: string; message: string; step_id?: string }): string =>
  safe(`${code}${step_id === undefined ? "" : ` at ${step_id}`}: ${message}`);

function waitOf(run: Run): string | undefined {
  if (run.awaited_signal !== undefined) return `signal ${run.awaited_signal}`;
  if (run.awaited_event_topic !== undefined) return `event ${safe(run.awaited_event_topic)}`;
  return undefined;
}

function valueLines(name: string, value: unknown): string[] {
  if (value === undefined || value === null || isEmpty(value)) return [];
  const short = inline(value);
  if (short.length <= INLINE_CHARS) return [`  ${name}  ${short}`];
  const lines = (JSON.stringify(value, null, 2) ?? "").split("\n");
  return [`  ${name}`, ...lines.map((line) => `    ${safe(line)}`)];
}

const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;
