// `saga list`: runs by filters, newest first, as a table that fits the terminal. `saga explain`: why one stands where it stands. `saga query`: the value
// of an expression about one.
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { Page, Query } from "../frame/service.js";
import { ago, type Column, duration, safe, table } from "../frame/text.js";
import { pathOf, type Run, stateOf, styleOf } from "./run.js";

const COLUMNS: readonly Column[] = [
  { title: "RUN" },
  { title: "WORKFLOW", least: 8 },
  { title: "STATE", least: 9 },
  { title: "STEP", least: 6 },
  { title: "KEY", least: 6 },
  { title: "AGE" },
  { title: "TOOK" },
];

export async function list(context: Context): Promise<ExitCode | undefined> {
  const most = context.integer("limit", { min: 1, max: 10_000 }) ?? 20;
  const query = filtersIn(context);
  const service = await context.service();
  const { terminal } = context;
  const first = await service.get<Page<Run>>("/sagas", { ...query, limit: Math.min(most, 500) });
  const runs: Run[] = [...first.items];
  if (first.next_cursor !== undefined && runs.length < most)
    for await (const run of service.items<Run>("/sagas", { ...query, cursor: first.next_cursor }, most - runs.length))
      runs.push(run);
  if (context.json) {
    terminal.printJson({ items: runs, total: first.total, total_is_lower_bound: first.total_is_lower_bound });
    return EXIT.succeeded;
  }
  if (runs.length === 0) {
    terminal.note("saga: no run matches");
    return EXIT.succeeded;
  }
  const now = Date.now();
  terminal.print(table(COLUMNS, runs.map(rowOf), terminal.width).join("\n"));
  if (first.total > runs.length)
    terminal.note(
      `${runs.length} of ${first.total}${first.total_is_lower_bound ? " or more" : ""}: --limit shows more`,
    );
  return EXIT.succeeded;

  function rowOf(run: Run) {
    const { paint } = terminal;
    const took =
      run.terminal_at === undefined ? "" : duration(Date.parse(run.terminal_at) - Date.parse(run.started_at));
    return [
      { text: run.id },
      { text: `${run.workflow_id} ${run.version}` },
      { text: stateOf(run), paint: (text: string) => paint.call(terminal, styleOf(run.state), text) },
      { text: run.terminal_at === undefined ? (run.current_step ?? "") : (run.error?.code ?? "") },
      { text: safe(run.business_key ?? "") },
      { text: ago(run.started_at, now) },
      { text: took },
    ];
  }
}

/** What `list` filters by; a bulk job takes the same. Throws Failure. */
export function filtersIn(context: Context): Query {
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const labels = Object.entries(context.pairs("label") ?? {}).map(([name, value]) => [`label.${name}`, value]);
  const since = context.duration("since");
  const states = context.list("state").flatMap((text) => text.split(","));
  return {
    workflow_id: context.text("workflow"),
    ...(version !== undefined && { version }),
    ...(states.length > 0 && { state: states }),
    paused_reason: context.text("pausedReason"),
    current_step: context.text("step"),
    business_key: context.text("businessKey"),
    error_code: context.text("errorCode"),
    tenant_id: context.text("tenant"),
    parent_run_id: context.text("parent"),
    bulk_id: context.text("bulk"),
    forked_from: context.text("forkedFrom"),
    ...(context.flag("incident") && { incident: true }),
    ...(context.flag("roots") && { root_only: true }),
    ...(since !== undefined && { started_after: new Date(Date.now() - since).toISOString() }),
    ...Object.fromEntries(labels),
    q: context.text("search"),
  };
}

interface Explanation {
  readonly run_id: string;
  readonly state: string;
  readonly because: string;
  readonly waiting_for: readonly Readonly<Record<string, unknown>>[];
  readonly since?: string;
  readonly next_at?: string;
  readonly can: readonly string[];
}

export async function explain(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const { terminal } = context;
  const found = await service.get<Explanation>(pathOf(context.argument(0), "/explain"));
  if (context.json) {
    terminal.printJson(found);
    return EXIT.succeeded;
  }
  const state = terminal.paint(styleOf(found.state), found.state);
  terminal.print(`run ${found.run_id} is ${state}: it ${safe(found.because)}`);
  for (const wait of found.waiting_for) for (const line of waitLines(wait, "  ")) terminal.print(line);
  if (found.next_at !== undefined) terminal.print(`It goes on by itself at ${found.next_at}.`);
  if (found.can.length > 0) terminal.print(`You can: ${found.can.join(", ")}.`);
  return EXIT.succeeded;
}

/** A wait, and those of the children that it is for. */
function waitLines(wait: Readonly<Record<string, unknown>>, indent: string): string[] {
  const { kind, step_id, since, until, children, ...rest } = wait;
  const plain = Object.entries(rest).filter(([, value]) => typeof value === "string" || typeof value === "number");
  const about = plain.map(([name, value]) => `${name} ${safe(String(value))}`);
  const at = step_id === undefined ? "" : ` at ${String(step_id)}`;
  const times = [since && `since ${String(since)}`, until && `until ${String(until)}`].filter(Boolean);
  const line = `${indent}${String(kind)}${at}${[...about, ...times].map((text) => `, ${text}`).join("")}`;
  const below = Array.isArray(children) ? (children as (Explanation & { readonly branch_id?: string })[]) : [];
  return [
    line,
    ...below.flatMap((child) => [
      `${indent}  ${child.branch_id ?? child.run_id} is ${child.state}: it ${safe(child.because)}`,
      ...child.waiting_for.flatMap((each) => waitLines(each, `${indent}    `)),
    ]),
  ];
}

interface Valued {
  readonly run_id: string;
  readonly state: string;
  readonly last_seq: number;
  readonly value: unknown;
}

export async function query(context: Context): Promise<ExitCode> {
  const { terminal, json } = context;
  const [id, expression] = [context.argument(0), context.argument(1)];
  const service = await context.service();
  const answer = await service.post<Valued>(pathOf(id, "/query"), { expression });
  const { value } = answer;
  if (json) terminal.printJson(answer);
  // A script has the text without quotes.
  else if (typeof value === "string") terminal.print(terminal.isInteractive ? safe(value) : value);
  else terminal.printJson(value);
  return EXIT.succeeded;
}
