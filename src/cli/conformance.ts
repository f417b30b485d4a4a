// `saga conformance`: plays the service for a worker in any language and says which rules of the worker protocol it keeps. The rules themselves
// are in src/conformance.
import { environmentNow } from "../config/index.js";
import { CASES, type CaseReport, caseText, runConformance, sumText } from "../conformance/index.js";
import { EXIT, type ExitCode } from "./exit.js";
import type { Context } from "./frame/context.js";

export async function conformance(context: Context): Promise<ExitCode> {
  const { terminal, json } = context;
  const [program, ...rest] = context.arguments(0);
  if ((program === undefined) !== context.flag("wait"))
    throw context.wrong("give the program of a worker after --, or --wait");
  const only = context.text("only")?.split(",");
  const unknown = only?.find((name) => !CASES.some((each) => each.name === name));
  if (unknown !== undefined) throw context.wrong(`there is no case "${unknown}"`);
  const report = await runConformance({
    only,
    signal: context.signal,
    ...(program !== undefined && { command: [program, ...rest], env: environmentNow() }),
    onOpen: (addresses) => {
      if (program === undefined)
        for (const [name, value] of Object.entries(addresses)) terminal.note(`export ${name}=${value}`);
    },
    // Cases take seconds: they are shown as they end. A report as JSON stays alone on standard output.
    onCase: (each: CaseReport) => (json ? terminal.note(caseText(each)) : terminal.print(`${caseText(each)}\n`)),
  });
  context.goOn();
  terminal.print(`${json ? JSON.stringify(report, undefined, 2) : sumText(report)}\n`);
  return report.conforms ? EXIT.succeeded : EXIT.failed;
}
