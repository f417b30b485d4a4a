// The command `npm run bench:report`: result files in, one HTML file out.
import { writeFileSync } from "node:fs";
import { REPORT_HELP, reportCommand, UsageError } from "./arguments.js";
import { reportOf } from "./report/html.js";
import { readResult } from "./result.js";

function main(args: readonly string[]): void {
  const command = reportCommand(args);
  if (command === "help") return console.log(REPORT_HELP);
  writeFileSync(command.out, reportOf(command.files.map((path) => ({ name: path, result: readResult(path) }))));
  console.log(`wrote ${command.out}`);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof Error)) throw error;
  console.error(error.message);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
