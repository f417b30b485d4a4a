// `saga workers`: the connected workers of all nodes, and the actions that runs wait for and no worker serves.
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import type { Page } from "../frame/service.js";
import { ago, type Column, safe, table } from "../frame/text.js";

export interface Worker {
  readonly worker_id: string;
  readonly service: string;
  readonly actions: readonly string[];
  readonly transport: string;
  readonly node_id: string;
  readonly connected_at: string;
  readonly in_flight: number;
  readonly max_in_flight: number;
  readonly draining?: boolean;
}

export interface Workers extends Page<Worker> {
  readonly unserved: readonly {
    readonly action: string;
    readonly transport: string;
    readonly waiting: number;
    readonly detail?: string;
  }[];
  readonly silent_nodes?: readonly string[];
}

const COLUMNS: readonly Column[] = [
  { title: "WORKER", least: 12 },
  { title: "SERVICE", least: 8 },
  { title: "ACTIONS", least: 10 },
  { title: "OVER" },
  { title: "BUSY" },
  { title: "SINCE" },
];

export async function workers(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  const query = { service: context.text("service"), transport: context.text("transport"), limit: 500 };
  const page = await service.get<Workers>("/workers", query);
  const { terminal } = context;
  if (context.json) {
    terminal.printJson(page);
    return EXIT.succeeded;
  }
  const now = Date.now();
  const rows = page.items.map((worker) => [
    { text: safe(worker.worker_id) },
    { text: worker.service },
    { text: worker.actions.length === 0 ? "all" : worker.actions.join(", ") },
    { text: worker.transport },
    { text: `${worker.in_flight}/${worker.max_in_flight}${worker.draining ? " draining" : ""}` },
    { text: ago(worker.connected_at, now) },
  ]);
  if (rows.length === 0) terminal.note("saga: no worker is connected");
  else terminal.print(table(COLUMNS, rows, terminal.width).join("\n"));
  for (const { action, waiting, transport, detail } of page.unserved)
    terminal.print(
      terminal.paint(
        "red",
        `unserved: ${waiting} calls of ${action} (${transport}) wait for a worker${detail ? `: ${safe(detail)}` : ""}`,
      ),
    );
  for (const node of page.silent_nodes ?? []) terminal.note(`saga: node ${node} did not answer in time`);
  return EXIT.succeeded;
}
