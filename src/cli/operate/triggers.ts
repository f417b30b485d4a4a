// `saga trigger`: what starts runs by itself, seen and changed over the API. When a trigger fires is the service's matter.
import { randomUUID } from "node:crypto";
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { type JsonObject, objectGiven } from "../frame/input.js";
import type { Page } from "../frame/service.js";
import { type Column, inline, safe, table } from "../frame/text.js";

interface Trigger {
  readonly id: string;
  readonly trigger_type: string;
  readonly workflow_id: string;
  readonly version?: number;
  readonly config: JsonObject;
  readonly enabled: boolean;
  readonly next_fire_at?: string;
  readonly last_fired_at?: string;
  readonly paused?: { readonly since: string; readonly by?: string; readonly reason?: string };
  readonly in_words?: string;
}

const pathOf = (id: string, rest = "") => `/triggers/${encodeURIComponent(id)}${rest}`;

const COLUMNS: readonly Column[] = [
  { title: "TRIGGER" },
  { title: "WORKFLOW", least: 8 },
  { title: "WHEN", least: 8 },
  { title: "STATE" },
  { title: "NEXT" },
  { title: "WHY", least: 8 },
];

export async function list(context: Context): Promise<ExitCode | undefined> {
  const limit = context.integer("limit", { min: 1, max: 500 }) ?? 20;
  const service = await context.service();
  const query = { workflow_id: context.text("workflow"), type: context.text("type"), limit };
  const page = await service.get<Page<Trigger>>("/triggers", query);
  const { terminal } = context;
  if (context.json) terminal.printJson(page);
  else if (page.items.length === 0) terminal.note("saga: no trigger matches");
  else {
    const rows = page.items.map((trigger) => [
      { text: trigger.id },
      { text: trigger.workflow_id },
      { text: whenOf(trigger) },
      { text: trigger.enabled ? "enabled" : "disabled" },
      { text: trigger.next_fire_at ?? "" },
      { text: safe(trigger.paused?.reason ?? "") },
    ]);
    terminal.print(table(COLUMNS, rows, terminal.width).join("\n"));
    if (page.total > page.items.length) terminal.note(`${page.items.length} of ${page.total}: --limit shows more`);
  }
  return EXIT.succeeded;
}

function whenOf({ trigger_type, config }: Trigger): string {
  const { time_zone: zone = "UTC" } = config;
  if (trigger_type === "cron") return safe(zone === "UTC" ? String(config.schedule) : `${config.schedule} (${zone})`);
  const { record_type, from_state, to_state } = config;
  return safe(`${record_type} ${from_state} -> ${to_state}`);
}

/** A schedule by options, anything by a document. */
export async function create(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const [workflow, schedule, document] = [context.optionalArgument(0), context.text("cron"), context.text("document")];
  if ((document === undefined) === (workflow === undefined || schedule === undefined))
    throw context.wrong("either a workflow and --cron are needed, or --document");
  const inputs = context.text("inputs");
  const version = context.integer("version", { min: 1, max: 2_147_483_647 });
  const overlap = context.text("overlap");
  const timeZone = context.text("timeZone");
  const body =
    document !== undefined
      ? await objectGiven("--document", document, terminal)
      : {
          ...{ trigger_type: "cron", workflow_id: workflow, ...(version !== undefined && { version }) },
          config: {
            schedule,
            ...(timeZone !== undefined && { time_zone: timeZone }),
            ...(inputs !== undefined && { inputs: await objectGiven("--inputs", inputs, terminal) }),
            ...(overlap !== undefined && { overlap_policy: overlap }),
          },
          ...(context.flag("disabled") && { enabled: false }),
        };
  const service = await context.service();
  const made = await service.post<Trigger>("/triggers", body, { key: context.text("key") ?? randomUUID() });
  if (context.json) terminal.printJson(made);
  else terminal.print(made.id);
  return EXIT.succeeded;
}

export async function get(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const { terminal } = context;
  const trigger = await service.get<Trigger>(pathOf(context.argument(0)));
  if (context.json) {
    terminal.printJson(trigger);
    return EXIT.succeeded;
  }
  terminal.print(`${trigger.trigger_type} ${trigger.id}  ${trigger.enabled ? "enabled" : "disabled"}`);
  if (trigger.in_words !== undefined) terminal.print(`  when    ${safe(trigger.in_words)}`);
  if (trigger.paused) terminal.print(`  paused  ${safe(pauseOf(trigger.paused))}`);
  terminal.print(`  starts  ${trigger.workflow_id}${trigger.version === undefined ? "" : ` ${trigger.version}`}`);
  terminal.print(`  config  ${inline(trigger.config)}`);
  if (trigger.trigger_type === "cron" && trigger.enabled) {
    const { items } = await service.get<{ items: readonly (string | { at: string })[] }>(pathOf(trigger.id, "/next"), {
      count: 3,
    });
    terminal.print(`  next    ${items.map((tick) => (typeof tick === "string" ? tick : inline(tick))).join(", ")}`);
  }
  return EXIT.succeeded;
}

const pauseOf = ({ since, by, reason }: NonNullable<Trigger["paused"]>) =>
  [`since ${since}`, ...(by === undefined ? [] : [`by ${by}`])].join(" ") + (reason === undefined ? "" : `: ${reason}`);

export async function fire(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const text = context.text("payload");
  const body = text === undefined ? {} : { payload: await objectGiven("--payload", text, terminal) };
  const service = await context.service();
  const key = context.text("key") ?? randomUUID();
  const fired = await service.post<{ fire_id: string; run_id?: string }>(pathOf(context.argument(0), "/fire"), body, {
    key,
  });
  if (context.json) terminal.printJson(fired);
  else if (fired.run_id !== undefined) terminal.print(fired.run_id);
  else
    terminal.print(`fire ${fired.fire_id} has started no run yet: saga trigger fires ${context.argument(0)} says why`);
  return EXIT.succeeded;
}

interface Backfilled {
  readonly ticks: number;
  readonly fired: number;
  readonly items: readonly { readonly fire_id: string; readonly scheduled_at: string }[];
}

/** Ends well also if nothing was left to fire. */
export async function backfill(context: Context): Promise<ExitCode | undefined> {
  const { terminal } = context;
  const from = context.text("from");
  if (from === undefined) throw context.wrong("--from is needed: the first moment of the range");
  const isDry = context.flag("dryRun");
  const to = context.text("to");
  const body = { from, ...(to !== undefined && { to }), ...(isDry && { dry_run: true }) };
  const service = await context.service();
  const done = await service.post<Backfilled>(pathOf(context.argument(0), "/backfill"), body);
  if (context.json) terminal.printJson(done);
  else {
    for (const { scheduled_at: tick } of done.items) terminal.print(tick);
    const before = done.ticks - done.fired;
    terminal.note(
      `saga: ${isDry ? "would fire" : "fires"} ${done.fired} of ${done.ticks} ticks; ${before} were fired before`,
    );
  }
  return EXIT.succeeded;
}

interface Fire {
  readonly id: string;
  readonly scheduled_at?: string;
  readonly fired_at: string;
  readonly resulting_run_id?: string;
  readonly error?: string;
  readonly backfilled?: boolean;
}

export async function fires(context: Context): Promise<ExitCode | undefined> {
  const limit = context.integer("limit", { min: 1, max: 500 }) ?? 20;
  const service = await context.service();
  const page = await service.get<Page<Fire>>(pathOf(context.argument(0), "/fires"), { limit });
  const { terminal } = context;
  if (context.json) terminal.printJson(page);
  else if (page.items.length === 0) terminal.note("saga: it has not fired yet");
  else {
    const columns = [{ title: "FIRED" }, { title: "TICK" }, { title: "RUN" }, { title: "ERROR", least: 10 }];
    const rows = page.items.map((each) => [
      { text: each.fired_at },
      { text: `${each.scheduled_at ?? ""}${each.backfilled ? " (backfilled)" : ""}` },
      { text: each.resulting_run_id ?? "" },
      { text: safe(each.error ?? "") },
    ]);
    terminal.print(table(columns, rows, terminal.width).join("\n"));
  }
  return EXIT.succeeded;
}

const changed =
  (enabled: boolean) =>
  async (context: Context): Promise<ExitCode | undefined> => {
    const service = await context.service();
    const reason = enabled ? undefined : context.text("reason");
    const body = { enabled, ...(reason !== undefined && { reason }) };
    const trigger = await service.patch<Trigger>(pathOf(context.argument(0)), body);
    if (context.json) context.terminal.printJson(trigger);
    else context.terminal.print(`trigger ${trigger.id} is ${trigger.enabled ? "enabled" : "disabled"}`);
    return EXIT.succeeded;
  };

export const enable = changed(true);
export const disable = changed(false);

export async function remove(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  await service.delete(pathOf(context.argument(0)));
  if (context.json) context.terminal.printJson({ id: context.argument(0), deleted: true });
  else context.terminal.print(`trigger ${context.argument(0)} is deleted; the runs that it has started go on`);
  return EXIT.succeeded;
}
