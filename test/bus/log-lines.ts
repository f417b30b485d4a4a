// A logger that keeps its lines for a test.
import { createLogger, type Logger } from "../../src/log.js";

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [member: string]: unknown;
}

export function logLines(): { readonly log: Logger; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const log = createLogger({ logLevel: "debug" }, { write: (line) => void lines.push(JSON.parse(line) as LogLine) });
  return { log, lines };
}
