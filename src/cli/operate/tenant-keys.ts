// `saga tenant keys` and `saga tenant destroy-keys`: the data keys of a tenant, with encryption at rest, over the API.
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { safe } from "../frame/text.js";

interface DataKeys {
  readonly tenant_id: string;
  readonly active: number;
  readonly destroyed: number;
  readonly destroyed_at?: string;
  readonly unfinished_runs: number;
}

const pathOf = (tenant: string) => `/data_keys/${encodeURIComponent(tenant)}`;

export async function show(context: Context): Promise<ExitCode | undefined> {
  const service = await context.service();
  print(context, await service.get<DataKeys>(pathOf(context.argument(0))));
  return EXIT.succeeded;
}

/** The tenant is named twice: nothing brings its values back. */
export async function destroy(context: Context): Promise<ExitCode | undefined> {
  const tenant = context.argument(0);
  if (context.text("confirm") !== tenant)
    throw context.wrong(`nothing was done: it cannot be undone, so repeat it with --confirm ${safe(tenant)}`);
  const service = await context.service();
  await service.delete(pathOf(tenant));
  print(context, await service.get<DataKeys>(pathOf(tenant)));
  return EXIT.succeeded;
}

function print({ json, terminal }: Context, keys: DataKeys): void {
  if (json) return terminal.printJson(keys);
  const { active, destroyed, destroyed_at: at, unfinished_runs: open } = keys;
  terminal.print(`keys in use: ${active}`);
  terminal.print(`destroyed:   ${destroyed}${at === undefined ? "" : `, the last at ${at}`}`);
  if (open > 0) terminal.print(`runs that have values under destroyed keys, and have not ended yet: ${open}`);
}
