// `saga query`: the value of a CEL expression about a run.
import { EXIT, type ExitCode } from "../exit.js";
import type { Context } from "../frame/context.js";
import { safe } from "../frame/text.js";
import { pathOf } from "./run.js";

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
